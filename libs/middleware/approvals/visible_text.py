"""Write out invisible characters, so that a command shown for approval looks like the command that runs.

Control characters can move a terminal's cursor, bidirectional marks change the order of text, and zero-width
characters or other blanks hide differences. A backslash before a blank does not continue a line. Each such
character is written as its code point, for example `‹U+202E›`.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["on_one_line", "visible"]

_LAST_BLANK = re.compile(r"[ \t](?=\n|\Z)")
"""The last blank of a line. Once written out, the blanks before it are visible too."""
# Control, format (bidirectional, zero-width, tags), surrogate, private, unassigned, separators.
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Invisible letters and marks of other categories: fillers, joiners, variation selectors, the blank Braille
# pattern (from Unicode's Default_Ignorable_Code_Point).
_UNSEEN_RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0100, 0xE01EF),
)


def visible(text: str) -> str:
    """Return `text` with each invisible character replaced by `‹U+XXXX›`.

    Newlines, tabs and plain blanks stay, except for the last blank of a line.
    """
    text = _LAST_BLANK.sub(lambda found: _written_out(found[0]), text)
    return "".join(_written_out(char) if _unseen(char) else char for char in text)


def on_one_line(text: str) -> str:
    """Return `visible(text)` with newlines written out, too, so that no name of a file imitates a line."""
    return visible(text).replace("\n", _written_out("\n"))


def _written_out(char: str) -> str:
    return f"‹U+{ord(char):04X}›"


def _unseen(char: str) -> bool:
    if char in " \n\t":
        return False
    hidden = any(first <= ord(char) <= last for first, last in _UNSEEN_RANGES)
    return hidden or unicodedata.category(char) in _UNSEEN_CATEGORIES
