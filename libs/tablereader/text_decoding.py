"""Decodes bytes: UTF-8, UTF-16 with its mark, and Latin for each byte that is not UTF-8."""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO, TextIO

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ERRORS = "tablereader"


class NotText(ValueError):
    """The content has NUL bytes and so is not text."""


class _Latin:
    """Reads bytes that are not UTF-8 as cp1252, the encoding of spreadsheets."""

    def __init__(self) -> None:
        self.read = 0
        """Number of bytes so far."""

    def __call__(self, error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        piece = error.object[error.start : error.end]
        self.read += len(piece)
        try:
            return piece.decode("cp1252"), error.end
        except UnicodeDecodeError:
            return piece.decode("latin-1"), error.end


_latin = _Latin()
codecs.register_error(_ERRORS, _latin)


def decode(content: bytes) -> tuple[str, int]:
    """Return the text and the number of bytes that are not UTF-8.

    Raises:
        NotText: the content has NUL bytes and is not UTF-16.
    """
    if content.startswith(_UTF_16):
        return content.decode("utf-16", "replace"), 0
    if b"\0" in content:
        raise NotText("there are NUL bytes")
    before = _latin.read
    text = content.decode("utf-8-sig", _ERRORS)
    return text, _latin.read - before


def text_file(file: BinaryIO, head: bytes) -> TextIO:
    """Return the file as text, decoded as by `decode`, with its line ends; `head` is its beginning."""
    utf_16 = head.startswith(_UTF_16)
    encoding, errors = ("utf-16", "replace") if utf_16 else ("utf-8-sig", _ERRORS)
    return io.TextIOWrapper(file, encoding, errors, newline="")
