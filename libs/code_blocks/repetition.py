"""Notice that a reply has begun to say the same over and over: a small model that does seldom stops."""

from __future__ import annotations

__all__ = ["repeats_from"]

MIN_CHARS = 600
"""How long the same is said: a table of zeros or a line of dashes in a program is shorter."""
MIN_TIMES = 12
_KEY = 16


def repeats_from(text: str) -> int | None:
    """Where in a text whose end says the same again and again the second time begins; else None.

    The end must be at least MIN_CHARS characters, MIN_TIMES times the same.
    """
    longest = MIN_CHARS // MIN_TIMES
    tail = text[-MIN_CHARS - longest :]
    before = tail.rfind(tail[-_KEY:], 0, -1)
    period = len(tail) - _KEY - before
    if len(tail) < MIN_CHARS + longest or before < 0 or period > longest:
        return None
    if tail[longest:] != tail[longest - period : -period]:
        return None
    start = len(text) - MIN_CHARS
    while start > period and text[start - 1] == text[start - 1 - period]:
        start -= 1
    return start
