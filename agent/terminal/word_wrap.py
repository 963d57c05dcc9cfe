"""Breaks streamed text between words at the edge of a terminal. The terminal itself would break words."""

from __future__ import annotations

import re

from rich.cells import cell_len

__all__ = ["WordWrap"]

_HELD = 30
"""In cells. The last word is held back if it is not longer and ends nearer than this to the edge."""
_PART = re.compile(r"\n|[^\S\n]+|\S+")


class WordWrap:
    """Wraps one stream of text. Lines of code between Markdown fences are left as they are."""

    def __init__(self) -> None:
        self._held = ""
        """The last word, which may continue in the next piece, and the blanks before the word."""
        self._column = 0
        self._fenced = False

    def feed(self, text: str, width: int) -> str:
        """Take the next piece; return the part of the text that can be printed now."""
        parts = _PART.findall(self._held + text)
        self._held = ""
        if parts and parts[-1] != "\n" and cell_len(parts[-1]) <= _HELD:
            self._held = parts.pop()
            if parts and parts[-1] != "\n" and parts[-1].isspace():
                self._held = parts.pop() + self._held
        shown = self._wrapped(parts, width)
        fits = self._column + cell_len(self._held) + _HELD <= width
        if fits and not self._held.lstrip().startswith(("`", "~")):  # a fence may come in pieces
            shown += self._wrapped(_PART.findall(self._held), width)
            self._held = ""
        return shown

    def end(self, width: int) -> str:
        """Return the rest of the text. The next text begins on a new line."""
        rest = self._wrapped(_PART.findall(self._held), width)
        self._held, self._column, self._fenced = "", 0, False
        return rest

    def _wrapped(self, parts: list[str], width: int) -> str:
        shown, blanks = "", ""
        for part in parts:
            if part == "\n":
                shown, blanks, self._column = f"{shown}{blanks}\n", "", 0
            elif part.isspace():
                blanks = part
            else:
                if not self._column and part.startswith(("```", "~~~")):
                    self._fenced = not self._fenced
                after = self._column + cell_len(blanks + part)
                if after > width and blanks and self._column and not self._fenced:
                    blanks, after = "\n", cell_len(part)
                shown += blanks + part
                # The terminal itself continues a longer part on the next line.
                self._column, blanks = after % width or min(after, width), ""
        self._column += cell_len(blanks)
        return shown + blanks
