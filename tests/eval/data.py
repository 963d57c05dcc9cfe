"""Making files for tasks: the same bytes on every machine and every Python."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any, TypeVar

__all__ = ["Draw", "pdf", "table"]

T = TypeVar("T")


class Draw:
    """Numbers that look drawn at random, fixed by their seed (Knuth's linear congruential generator)."""

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
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        content = "BT /F1 11 Tf 60 780 Td 16 TL\n" + "".join(f"({line}) Tj T*\n" for line in lines) + "ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    made = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{body}\nendobj\n".encode("ascii")
    listed = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{listed}trailer << /Size {size} /Root 1 0 R >>\n"
    return made + f"{end}startxref\n{len(made)}\n%%EOF\n".encode("ascii")
