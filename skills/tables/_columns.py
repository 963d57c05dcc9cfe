"""A column before it is converted: its different values, and what each of them can be read as."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from skills.tables._cells import MISSING, clean
from skills.tables._dates import Stamp, month, stamp
from skills.tables._numbers import EXACT_DIGITS, Number, number
from skills.tables._units import alike

_DATED = re.compile(r"(?i)(^|[^a-z])(date|day|datum|dt)([^a-z]|$)|(?<=[a-z])Date|date$")
_LOOKED_AT = 500
_HOPELESS = 0.3
_SHOWN = 3


@dataclass
class Column:
    """One column: its different values, how often each is there, and which one each row has."""

    name: str
    places: list[int]  # of each row's value in `values`
    values: list[Any]
    counts: list[int]
    kind: str = "text"  # number, date, true/false, text, empty or lists
    about: str = ""  # how the values were written
    unit: str = ""  # what its numbers are converted to, where they have several units
    notes: dict[str, str] = field(default_factory=dict)  # topic -> what a person should know
    numbers: list[Number | None] = field(default_factory=list)  # what each value says, [] where none is one
    stamps: list[Stamp | None] = field(default_factory=list)
    missing: dict[int, str] = field(default_factory=dict)  # place of a value -> how it was written
    unread: dict[int, str] = field(default_factory=dict)  # place of a value -> what could not be converted

    def rows(self) -> Iterator[Any]:
        """The value of each row."""
        return (self.values[place] for place in self.places)

    def count(self, places: Iterable[int]) -> int:
        """Rows that have one of these values."""
        return sum(self.counts[place] for place in places)

    def examples(self, places: list[int]) -> str:
        """Some of these values, and how often each is there."""
        shown = [
            repr(self.values[place])[:40] + (f" {self.counts[place]}x" if self.counts[place] > 1 else "")
            for place in places[:_SHOWN]
        ]
        return ", ".join(shown) + (", …" if len(places) > _SHOWN else "")


def examine(name: str, cells: list[Any], *, dated: bool = False) -> Column:
    """The different values of a column, and what each can be read as.

    `dated`: it is known to have dates, so that 20240305 and 2024-03 are some; else the name has to say so.
    """
    if any(isinstance(cell, list | dict) for cell in cells):
        missing = {place: "" for place, cell in enumerate(cells) if cell is None}
        return Column(name, list(range(len(cells))), cells, [1] * len(cells), "lists", missing=missing)
    seen: dict[Any, int] = {}
    values: list[Any] = []
    places = []
    for cell in cells:
        # 1, 1.0 and True are equal, but are not the same.
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
        elif value is None or value != value:  # noqa: PLR0124 - what is not itself is no number
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
    measured = any((read := number(column.values[place])) and alike([read.sign]) for place in sample)

    def quantity(text: str) -> Number | None:
        # 850g is one only beside 1.4 kg.
        return number(text, attached=measured)

    for read, found in ((quantity, numbers), (when, stamps)):
        read_sample = sum(read(column.values[place]) is not None for place in sample)
        if len(texts) > _LOOKED_AT and read_sample < len(sample) * _HOPELESS:
            continue  # a column of texts is not read twice more to the end
        for place in texts:
            found[place] = read(column.values[place])
    column.numbers = numbers if any(found is not None for found in numbers) else []
    column.stamps = stamps if any(found is not None for found in stamps) else []


def _stamp_of(value: date) -> Stamp:
    found = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    zoned = found.tzinfo is not None
    found = found.astimezone(UTC).replace(tzinfo=None) if zoned else found
    return Stamp(found, found, "", zoned, found.time() != datetime.min.time())
