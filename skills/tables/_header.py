"""Rows of cells as named columns: which row has the names, and which rows do not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from skills.tables._cells import clean, counted
from skills.tables._dates import stamp
from skills.tables._numbers import number

_SHOWN = 3
_LOOKED_AT = 200


class Raw(NamedTuple):
    """What a file holds: names, a list of values for each, and what a person should know about both."""

    names: list[str]
    columns: list[list[Any]]
    notes: list[str]


def from_rows(rows: Sequence[tuple[int, list[Any]]]) -> Raw:
    """Columns of rows, each with its line number; the first full row has the names.

    What stands above the names, rows that repeat them and rows with too many cells are left out, and said.
    """
    notes: list[str] = []
    widths = Counter(_width(row) for _, row in rows[:_LOOKED_AT])
    usual = max(widths, key=lambda width: (widths[width], width))
    start = 0
    while start < len(rows) - 1 and _width(rows[start][1]) <= usual / 2:
        start += 1
    if start:
        notes.append(f"above the names: {_lines(rows[:start])}")
    names = [clean(str(cell)) for cell in rows[start][1]]
    body = rows[start + 1 :]
    if _is_data(rows[start][1]) and len(rows) > 1:
        body = rows[start:]
        names = [""] * max(usual, len(names))
        notes.append("names: the first row has values, not names, so columns are column_1, column_2, …")
    elif usual == len(names) + 1 and widths[usual] > len(rows[:_LOOKED_AT]) / 2:
        names = ["row", *names]  # as R writes tables
    while names and not names[-1] and all(_width(row) < len(names) for _, row in body):
        names.pop()
    names = _unique(names, notes)
    fitting, again, long, short = [], [], [], []
    for row in body:
        _, cells = row
        if len(cells) > len(names) and _width(cells) > len(names):
            long.append(row)
        elif clean(str(cells[0])) == names[0] and [clean(str(cell)) for cell in cells] == names:
            again.append(row)
        else:
            fitting.append(cells)
            if len(cells) < len(names):
                short.append(row)
    if again:
        notes.append(f"left out: {counted(len(again), 'row')}, the names again, {_numbers(again)}")
    if long:
        notes.append(f"left out: {counted(len(long), 'row')} with more cells than names, {_lines(long)}")
    if short:
        notes.append(f"short: {counted(len(short), 'row')} with fewer cells than names, {_numbers(short)}")
    columns: list[list[Any]] = [
        [row[place] if place < len(row) else "" for row in fitting] for place in range(len(names))
    ]
    return Raw(names, columns, notes)


def _width(row: Sequence[Any]) -> int:
    """Cells up to the last that is not empty."""
    return next((place for place in range(len(row), 0, -1) if clean(str(row[place - 1]))), 0)


def _is_data(row: Sequence[Any]) -> bool:
    """Whether a row has values where names would be: 12.5 or a date, but for years above a cross table."""
    values = [clean(str(cell)) for cell in row if clean(str(cell))]
    numbers = [number(value) for value in values]
    if any(found and (found.mark or found.sign or found.point < 0) for found in numbers):
        return True
    years = all(found and 1900 <= found.point <= 2100 for found in numbers)
    return not years and all(found or stamp(value) for found, value in zip(numbers, values, strict=True))


def _unique(names: list[str], notes: list[str]) -> list[str]:
    taken: set[str] = set()
    result = []
    for place, name in enumerate(names, 1):
        new = name or f"column_{place}"
        count = 1
        while new in taken:
            count += 1
            new = f"{name or f'column_{place}'}_{count}"
        if name and new != name:
            notes.append(f"names: {name} is there more than once, the next is {new}")
        taken.add(new)
        result.append(new)
    return result


def _lines(rows: Sequence[tuple[int, list[Any]]]) -> str:
    shown = [f"line {line}: {clean(' '.join(map(str, row)))[:60]!r}" for line, row in rows[:_SHOWN]]
    return "; ".join(shown) + ("; …" if len(rows) > _SHOWN else "")


def _numbers(rows: Sequence[tuple[int, list[Any]]]) -> str:
    return "line " + ", ".join(str(line) for line, _ in rows[:5]) + (", …" if len(rows) > 5 else "")
