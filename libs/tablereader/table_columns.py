"""A column before its conversion: the different values, and each value read as number and date."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, TypeVar

from .read_dates import Stamp, month, stamp
from .read_numbers import EXACT_DIGITS, Number, number
from .table_cells import MISSING, clean
from .units_of_measure import alike

_DATED = re.compile(r"(?i)(^|[^a-z])(date|day|datum|dt)([^a-z]|$)|(?<=[a-z])Date|date$")
_Read = TypeVar("_Read")
_LOOKED_AT = 500
_HOPELESS = 0.3
_SHOWN = 3


@dataclass
class Column:
    """One column: the different values, their counts, and the place of the value of each row."""

    name: str
    places: list[int]  # index into `values` for each row
    values: list[Any]
    counts: list[int]
    kind: str = "text"  # number, date, true/false, text, empty or lists
    about: str = ""  # how the values were written
    unit: str = ""  # target of the conversion of several units
    sign: str = ""  # most common currency, % or unit
    mark: str = ""  # decimal mark: "." or ","
    order: str = ""  # of its dates: "day first" or "month first"
    notes: dict[str, str] = field(default_factory=dict)  # topic -> note for people
    numbers: list[Number | None] = field(default_factory=list)  # one for each value, or []
    stamps: list[Stamp | None] = field(default_factory=list)
    missing: dict[int, str] = field(default_factory=dict)  # place of a value -> its text
    unread: dict[int, str] = field(default_factory=dict)  # place of a value -> its text

    def rows(self) -> Iterator[Any]:
        """Yield the value of each row."""
        return (self.values[place] for place in self.places)

    def count(self, places: Iterable[int]) -> int:
        """Return the number of rows with one of these values."""
        return sum(self.counts[place] for place in places)

    def examples(self, places: list[int]) -> str:
        """Return some of these values with their counts."""
        shown = [
            repr(self.values[place])[:40] + (f" {self.counts[place]}x" if self.counts[place] > 1 else "")
            for place in places[:_SHOWN]
        ]
        return ", ".join(shown) + (", …" if len(places) > _SHOWN else "")


def examine(name: str, cells: list[Any], *, dated: bool = False) -> Column:
    """Return the different values of a column, each read as number and date.

    `dated`: the column has dates, so 20240305 and 2024-03 are dates too. Otherwise the name decides.
    """
    if any(isinstance(cell, list | dict) for cell in cells):
        missing = {place: "" for place, cell in enumerate(cells) if cell is None}
        return Column(name, list(range(len(cells))), cells, [1] * len(cells), "lists", missing=missing)
    seen: dict[Any, int] = {}
    values: list[Any] = []
    places = []
    for cell in cells:
        # 1, 1.0 and True are equal but different.
        key = cell if isinstance(cell, str) else (type(cell), cell)
        place = seen.get(key)
        if place is None:
            value = clean(cell) if isinstance(cell, str) else cell
            place = seen.setdefault(value if isinstance(value, str) else key, len(values))
            if place == len(values):
                values.append(value)
            seen[key] = place
        places.append(place)
    counts = Counter(places)
    column = Column(name, places, values, [counts[place] for place in range(len(values))])
    _read_all(column, dated)
    return column


def _read_all(column: Column, dated: bool) -> None:
    texts = []
    numbers: list[Number | None] = [None] * len(column.values)
    stamps: list[Stamp | None] = [None] * len(column.values)
    for place, value in enumerate(column.values):
        if isinstance(value, str):
            if value.lower() in MISSING:
                column.missing[place] = value
            else:
                texts.append(place)
        elif value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
            column.missing[place] = ""
        elif isinstance(value, date):
            stamps[place] = _stamp_of(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            code = isinstance(value, int) and len(str(abs(value))) > EXACT_DIGITS
            numbers[place] = Number(value, value, "", "", code)
    compact = dated or bool(_DATED.search(column.name))

    def when(text: str) -> Stamp | None:
        found = stamp(text, compact=compact)
        if found is None and dated and (first := month(text)):
            return Stamp(first, first, "", False, False)
        return found

    sample = texts[:: max(1, len(texts) // _LOOKED_AT)]
    measured = any(
        (found := number(column.values[place])) and found.sign and alike([found.sign]) for place in sample
    )

    def quantity(text: str) -> Number | None:
        # 850g is a quantity only beside 1.4 kg.
        return number(text, attached=measured)

    column.numbers = _found(column, texts, sample, quantity, numbers)
    column.stamps = _found(column, texts, sample, when, stamps)


def _found(
    column: Column,
    texts: list[int],
    sample: list[int],
    read: Callable[[str], _Read | None],
    found: list[_Read | None],
) -> list[_Read | None]:
    """Read each text into `found`; return [] if no value could be read."""
    hopeful = sum(read(column.values[place]) is not None for place in sample) >= len(sample) * _HOPELESS
    if len(texts) <= _LOOKED_AT or hopeful:  # a column of plain text is not read to its end
        for place in texts:
            found[place] = read(column.values[place])
    return found if any(each is not None for each in found) else []


def _stamp_of(value: date) -> Stamp:
    found = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    zoned = found.tzinfo is not None
    found = found.astimezone(UTC).replace(tzinfo=None) if zoned else found
    return Stamp(found, found, "", zoned, found.time() != datetime.min.time())
