"""Removes from text what would control the terminal."""

from __future__ import annotations

import re

__all__ = ["harmless"]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# C0 without tab and newline, DEL and C1; marks that reorder text; surrogates.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def harmless(text: str) -> str:
    """Return `text` without control of the terminal: newlines and tabs stay, colours are dropped.

    Other control characters, and marks that reorder text, are written out, such as `‹U+001B›`.
    """
    text = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(lambda found: f"‹U+{ord(found[0]):04X}›", text)
