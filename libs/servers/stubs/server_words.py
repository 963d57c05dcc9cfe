"""Put words of a server into Python source: visible, on their lines, at a bounded length, never as code."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["cut", "docstring", "headline", "one_line", "quoted", "shown"]

_LONGEST_VALUE = 200
_LARGEST_INTEGER = 2**63
"""Python refuses to write an integer of more than 4,300 digits."""
_TRIPLE = '"""'


def shown(value: Any) -> str | None:
    """Return the Python literal of a JSON scalar. Return None for a value that is no scalar, or too long."""
    if isinstance(value, str):
        fits = len(value) <= _LONGEST_VALUE and not re.search("[\ud800-\udfff]", value)
    elif isinstance(value, float):
        fits = math.isfinite(value)
    else:
        fits = value is None or (isinstance(value, int) and abs(value) < _LARGEST_INTEGER)
    return repr(value) if fits else None


def cut(text: str, limit: int) -> str:
    """Return the first `limit` characters, and how many are left out."""
    return text if len(text) <= limit else f"{text[:limit]}… {len(text) - limit:,} characters left out"


def one_line(text: str, limit: int) -> str:
    """Return `text` as one visible line of at most `limit` characters, besides the note of `cut`."""
    # Only the beginning is folded: a text may have megabytes.
    left_out = max(0, len(text) - 2 * limit)
    folded = " ".join(text[: 2 * limit].split())
    if left_out:
        return f"{_visible(folded[:limit])}… {left_out + max(0, len(folded) - limit):,} characters left out"
    return _visible(cut(folded, limit))


def headline(text: str, limit: int) -> str:
    """Return the first `limit` characters as one visible line, behind the mark of the server's words."""
    line = one_line(text[:limit], limit)
    return f"> {line}{'…' if len(text) > limit else ''}" if line else ""


def quoted(text: str, limit: int) -> list[str]:
    """Return the lines of `text`, each marked with `> ` as words of the server."""
    lines = cut(text.strip(), limit).replace("\r\n", "\n").split("\n")
    return [f"> {_visible(line)}".rstrip() for line in lines]


def docstring(lines: list[str], indent: str) -> list[str]:
    """Return the source of a docstring."""
    escaped = [line.replace("\\", "\\\\").replace(_TRIPLE, '\\"\\"\\"') for line in lines]
    first, *rest = escaped or [""]
    if not rest and not first.endswith('"'):
        return [f"{indent}{_TRIPLE}{first}{_TRIPLE}"]
    first = f" {first}" if first.startswith('"') else first
    return [f"{indent}{_TRIPLE}{first}", *(f"{indent}{line}".rstrip() for line in rest), f"{indent}{_TRIPLE}"]


def _visible(text: str) -> str:
    """Return `text` with spaces for white space, and escapes for all else that does not print."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable()
        else (" " if letter.isspace() else letter.encode("unicode_escape").decode())
        for letter in text
    )
