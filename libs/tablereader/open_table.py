"""Reads a file with separators of any size row by row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import BinaryIO, Self

from .csv_rows import Row, form_of, rows_of
from .table_header import header_of
from .text_decoding import decode, text_file

_HEAD_BYTES = 1 << 20
_LOOKED_AT = 200
_LONGEST_LINE = 16_000_000
"""Limit of characters in a line; a longer line is cut so that memory stays bounded."""


class OpenTable:
    """A file with its form and header. The rows can be read once; `with` closes the file.

    Args:
        file: open for reading, at its start.
        head_bytes: bytes of the beginning that decide form and header.

    Raises:
        NotText: the beginning has NUL bytes and is not UTF-16.
    """

    def __init__(self, file: BinaryIO, head_bytes: int = _HEAD_BYTES) -> None:
        head = file.read(head_bytes)
        start, self.foreign = decode(head)
        """Number of bytes in the beginning that are not UTF-8 and read as Latin."""
        self.form = form_of(start, whole=len(head) < head_bytes)
        file.seek(0)
        self._text = text_file(file, head)
        self._rows = rows_of(iter(lambda: self._text.readline(_LONGEST_LINE), ""), self.form)
        self._first = list(self._looked_at())
        self.header = header_of(self._first)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()  # closes the file too

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.header.names

    def body(self) -> Iterator[Row]:
        """Yield the rows below the names."""
        return chain(self._first[self.header.body :], self._rows)

    def all_rows(self) -> Iterator[Row]:
        """Yield all rows except the names, with the rows above the names."""
        return chain(self._first[: self.header.above], self.body())

    def _looked_at(self) -> Iterator[Row]:
        """Yield the first 200 rows, or a megabyte of long rows."""
        size = 0
        for row in islice(self._rows, _LOOKED_AT):
            yield row
            size += sum(map(len, row[1]))
            if size > _HEAD_BYTES:
                return
