"""Make files for tasks, with the same bytes on every machine and Python."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any, TypeVar

from tests.support.small_files import pdf_document

__all__ = ["Draw", "pdf", "table"]

T = TypeVar("T")


class Draw:
    """Pseudorandom numbers from a seed (Knuth's linear congruential generator)."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, limit: int) -> int:
        """A whole number from 0 up to, and not including, `limit`."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % limit

    def cents(self, low: int, high: int) -> float:
        """An amount of money from `low` up to `high`."""
        return (low * 100 + self.below((high - low) * 100)) / 100

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def day(self, first: str, days: int) -> date:
        """One of the `days` that begin with `first`."""
        return date.fromisoformat(first) + timedelta(days=self.below(days))


def table(columns: str, rows: Iterable[Sequence[Any]], *, separator: str = ",") -> bytes:
    """A CSV file; `columns` are separated by spaces."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(columns.split())
    writer.writerows(rows)
    return text.getvalue().encode()


def pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF file with one line of Helvetica below the other, uncompressed. Text is ASCII without brackets."""
    head = "BT /F1 11 Tf 60 780 Td 16 TL\n"
    streams = [head + "".join(f"({line}) Tj T*\n" for line in lines) + "ET" for lines in pages]
    return pdf_document(streams, 595, 842)
