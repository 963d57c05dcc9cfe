"""Text in which every character can be seen.

A command shown for approval must look like what will run. Control characters can move a terminal's
cursor, bidirectional marks reorder what is read, zero-width or look-alike blanks hide differences, and with
a blank behind it a backslash does not continue a line: each of them is written out as its code point, such
as `‹U+202E›`.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["visible"]

_PLAIN = frozenset(" \n\t")
_LAST_BLANK = re.compile(r"[ \t](?=\n|\Z)")
"""With it written out, those before it can be seen too."""
# Control, format (bidirectional, zero-width, tags), surrogate, private, unassigned; every separator but the
# plain blank.
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters and marks that draw nothing although their category says otherwise: fillers, joiners, variation
# selectors, the blank Braille pattern (Unicode's Default_Ignorable_Code_Point, what the categories miss).
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
    """Return `text` with each character that cannot be seen replaced by `‹U+XXXX›`.

    Newlines, tabs and plain blanks stay as they are, but for the last of those that end a line; so does
    everything that draws a glyph.
    """
    text = _LAST_BLANK.sub(lambda found: _written_out(found[0]), text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_written_out(char) if _unseen(char) else char for char in text)


def _written_out(char: str) -> str:
    return f"‹U+{ord(char):04X}›"


def _unseen(char: str) -> bool:
    if char in _PLAIN:
        return False
    if unicodedata.category(char) in _UNSEEN_CATEGORIES:
        return True
    return any(first <= ord(char) <= last for first, last in _UNSEEN_RANGES)
