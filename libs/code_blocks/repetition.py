"""Notice that a reply of a small model runs on: once it says the same over and over it seldom stops."""

from __future__ import annotations

__all__ = ["repeats_from", "runs_on_from"]

MIN_CHARS = 600
"""How long the same is said: a table of zeros or a line of dashes in a program is shorter."""
MIN_TIMES = 12
MAX_LINE = 800
"""Characters of a line: what a small model writes on a longer one is a list that it cannot end."""
_KEY = 16


def runs_on_from(text: str) -> int | None:
    """Where a text stops saying anything new: its end repeats itself, or its last line has no end."""
    found = repeats_from(text)
    if found is None and len(text) - (begun := text.rfind("\n") + 1) > MAX_LINE:
        return begun + MAX_LINE // 4
    return found


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
