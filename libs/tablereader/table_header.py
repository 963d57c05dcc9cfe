"""Finds the row with the names of columns, and the rows that do not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .csv_rows import Row
from .read_dates import stamp
from .read_numbers import number
from .table_cells import clean, counted

_SHOWN = 3
_NUMBERED = 5
_LOOKED_AT = 200


class Raw(NamedTuple):
    """Content of a file: names, a list of values for each name, and notes for people."""

    names: list[str]
    columns: list[list[Any]]
    notes: list[str]


class Header(NamedTuple):
    """Names of columns, and the place of the first row of values."""

    names: list[str]
    above: int  # rows above the names
    body: int  # place of the first row of values; equals `above` if no row has names
    notes: list[str]


def header_of(rows: Sequence[Row]) -> Header:
    """Return the header of the first rows of a file; the first full row has the names."""
    if not rows:
        return Header([], 0, 0, [])
    notes: list[str] = []
    widths = Counter(_width(row) for _, row in rows[:_LOOKED_AT])
    usual = max(widths, key=lambda width: (widths[width], width))
    start = 0
    while start < len(rows) - 1 and _width(rows[start][1]) <= usual / 2:
        start += 1
    if start:
        notes.append(f"above the names: {_lines(rows[:start])}{'; …' if start > _SHOWN else ''}")
    names = [clean(str(cell)) for cell in rows[start][1]]
    body = start + 1
    if _is_data(rows[start][1]) and len(rows) > 1:
        body = start
        names = [""] * max(usual, len(names))
        notes.append("names: the first row has values, not names, so columns are column_1, column_2, …")
    elif usual == len(names) + 1 and widths[usual] > len(rows[:_LOOKED_AT]) / 2:
        names = ["row", *names]  # as R writes tables
    while names and not names[-1] and all(_width(row) < len(names) for _, row in rows[body:]):
        names.pop()
    return Header(_unique(names, notes), start, body, notes)


class Body:
    """The rows below the names.

    Rows that repeat the names and rows with too many cells are left out, and counted.
    """

    def __init__(self, header: Header) -> None:
        self._names = header.names
        self._again, self._long, self._short = _Some(), _Some(), _Some()

    @property
    def left_out(self) -> int:
        """Number of rows with more cells than names, so far."""
        return self._long.count

    def fitting(self, rows: Iterable[Row]) -> Iterator[list[Any]]:
        """Yield the cells of each row that fits; a short row gets empty cells."""
        names = self._names
        for row in rows:
            _, cells = row
            if len(cells) == len(names) and cells[0] != names[0]:
                yield cells  # most rows, checked faster
            elif len(cells) > len(names) and _width(cells) > len(names):
                self._long.add(row)
            elif clean(str(cells[0])) == names[0] and [clean(str(cell)) for cell in cells] == names:
                self._again.add(row)
            else:
                if len(cells) < len(names):
                    self._short.add(row)
                yield [*cells, *[""] * (len(names) - len(cells))]

    def notes(self) -> list[str]:
        """Return notes on the rows so far."""
        again, long, short = self._again, self._long, self._short
        notes = []
        if again.count:
            notes.append(f"left out: {counted(again.count, 'row')}, the names again, {again.numbers()}")
        if long.count:
            notes.append(f"left out: {counted(long.count, 'row')} with more cells than names, {long.lines()}")
        if short.count:
            notes.append(
                f"short: {counted(short.count, 'row')} with fewer cells than names, {short.numbers()}"
            )
        return notes


def from_rows(rows: Sequence[Row]) -> Raw:
    """Return rows as named columns, with notes on rows above the names and rows left out."""
    header = header_of(rows)
    body = Body(header)
    fitting = list(body.fitting(rows[header.body :]))
    columns: list[list[Any]] = [[row[place] for row in fitting] for place in range(len(header.names))]
    return Raw(header.names, columns, header.notes + body.notes())


class _Some:
    """The number of rows of one kind, and the first of these rows."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[Row] = []

    def add(self, row: Row) -> None:
        self.count += 1
        if len(self._first) < _NUMBERED:
            self._first.append(row)

    def numbers(self) -> str:
        more = ", …" if self.count > _NUMBERED else ""
        return "line " + ", ".join(str(line) for line, _ in self._first) + more

    def lines(self) -> str:
        return _lines(self._first) + ("; …" if self.count > _SHOWN else "")


def _width(row: Sequence[Any]) -> int:
    """Return the number of cells up to the last one with text."""
    return next((place for place in range(len(row), 0, -1) if clean(str(row[place - 1]))), 0)


def _is_data(row: Sequence[Any]) -> bool:
    """Return whether a row has values in place of names, such as 12.5 or a date; years are names."""
    values = [clean(str(cell)) for cell in row if clean(str(cell))]
    numbers = [number(value) for value in values]
    if any(found and (found.mark or found.sign or found.point < 0) for found in numbers):
        return True
    years = all(found and 1900 <= found.point <= 2100 for found in numbers)
    return not years and all(found or stamp(value) for found, value in zip(numbers, values, strict=True))


def _unique(names: list[str], notes: list[str]) -> list[str]:
    taken: set[str] = set()
    counts: dict[str, int] = {}
    result = []
    for place, name in enumerate(names, 1):
        new = first = name or f"column_{place}"
        while new in taken:
            # Not from 2 each time: a file may have one name for all of its columns.
            counts[first] = counts.get(first, 1) + 1
            new = f"{first}_{counts[first]}"
        if name and new != name:
            notes.append(f"names: {name} is there more than once, the next is {new}")
        taken.add(new)
        result.append(new)
    return result


def _lines(rows: Sequence[Row]) -> str:
    return "; ".join(f"line {line}: {clean(' '.join(map(str, row)))[:60]!r}" for line, row in rows[:_SHOWN])
