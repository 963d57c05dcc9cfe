"""A column of text as numbers, dates or true and false, where nearly all of it can be read so."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from skills.tables._cells import MISSING, NO_VALUE, clean
from skills.tables._dates import Stamp, stamp
from skills.tables._numbers import Number, number, reading

READABLE = 0.9
"""Share of the values that must be numbers, or dates, for a column to become one of them."""

_DATED = re.compile(r"(?i)(^|[^a-z])(date|day|datum|dt)([^a-z]|$)|(?<=[a-z])Date|date$")
_SHOWN = 3


@dataclass
class Column:
    """One column: its different values, how often each is there, and which one each row has."""

    name: str
    places: list[int]
    values: list[Any]
    counts: list[int]
    kind: str = "text"  # number, date, true/false, text, empty or other
    about: str = ""  # how the values were written
    notes: dict[str, str] = field(default_factory=dict)
    numbers: dict[int, Number] = field(default_factory=dict)
    stamps: dict[int, Stamp] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)  # place of a value -> how it was written

    def rows(self) -> Iterator[Any]:
        """The value of each row."""
        return (self.values[place] for place in self.places)

    def count(self, places: Iterable[int]) -> int:
        """Rows that have one of these values."""
        return sum(self.counts[place] for place in places)


def examine(name: str, cells: list[Any]) -> Column:
    """The different values of a column, and what each can be read as."""
    seen: dict[tuple[type, Any], int] = {}
    raw: dict[tuple[type, Any], int] = {}
    values: list[Any] = []
    places = []
    plain = not any(isinstance(cell, list | dict) for cell in cells)
    for row, cell in enumerate(cells):
        key = (type(cell), cell if plain else row)
        place = raw.get(key)
        if place is None:
            value = clean(cell) if isinstance(cell, str) else cell
            place = seen.setdefault((type(value), value if plain else row), len(values))
            if place == len(values):
                values.append(value)
            raw[key] = place
        places.append(place)
    counted = Counter(places)
    column = Column(name, places, values, [counted[place] for place in range(len(values))])
    if not plain:
        column.kind = "other"
    compact = bool(_DATED.search(name))
    for place, value in enumerate(values):
        _read(column, place, value, compact=compact)
    return column


def _read(column: Column, place: int, value: Any, *, compact: bool) -> None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        column.missing[place] = ""
    elif isinstance(value, bool | list | dict):
        return
    elif isinstance(value, int | float):
        if math.isfinite(value):
            column.numbers[place] = Number(value, value, "", "", code=abs(value) >= 2**63)
    elif isinstance(value, date):
        found = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        zoned = found.tzinfo is not None
        found = found.astimezone(UTC).replace(tzinfo=None) if zoned else found
        column.stamps[place] = Stamp(found, found, "", zoned, found.time() != datetime.min.time())
    elif isinstance(value, str):
        if value.lower() in MISSING:
            column.missing[place] = value
        elif any(letter.isdigit() for letter in value):
            if (read := number(value)) is not None:
                column.numbers[place] = read
            if (when := stamp(value, compact=compact)) is not None:
                column.stamps[place] = when


def convert(columns: list[Column]) -> None:
    """Turn the values of each column into what it holds; columns tell each other how the file is written."""
    marks: Counter[str] = Counter()
    orders: Counter[str] = Counter()
    for column in columns:
        column.kind = _kind(column) if column.kind == "text" else column.kind
        if column.kind == "number":
            told = reading(_counted(column))
            marks[told.mark] += told.told
        elif column.kind == "date":
            orders.update(dict.fromkeys(_orders(column), 1))
    mark = marks.most_common(1)[0][0] if marks.total() and marks["."] != marks[","] else ""
    order = max(orders, key=orders.__getitem__) if len(set(orders.values())) == len(orders) > 0 else ""
    for column in columns:
        if column.kind == "number":
            _to_numbers(column, mark)
        elif column.kind == "date":
            _to_dates(column, order)
        elif column.kind == "true/false":
            column.values = [
                None if place in column.missing else str(value).lower() == "true"
                for place, value in enumerate(column.values)
            ]
        else:
            column.values = [
                None if place in column.missing else str(value) if column.kind == "text" else value
                for place, value in enumerate(column.values)
            ]
        _note_missing(column)


def _kind(column: Column) -> str:
    present = [place for place in range(len(column.values)) if place not in column.missing]
    if not present:
        return "empty"
    if all(str(column.values[place]).lower() in ("true", "false") for place in present):
        return "true/false"
    said = [place for place in present if str(column.values[place]).lower() not in NO_VALUE]
    whole = column.count(said)
    if not whole:
        return "text"
    dates, numbers = column.count(column.stamps) / whole, column.count(column.numbers) / whole
    if dates >= READABLE and dates >= numbers:
        return "date"
    if any(found.code for found in column.numbers.values()):
        return "text"
    signs = Counter[str]()
    for place, found in column.numbers.items():
        signs[found.sign] += column.counts[place]
    units = [sign for sign in signs if sign]
    if numbers >= READABLE and len(units) <= 1:
        return "number"
    if numbers >= READABLE:
        listed = ", ".join(f"{sign} {signs[sign]}x" for sign in units)
        column.notes["stays text"] = f"{column.name} has several units: {listed}"
    elif (best := max(dates, numbers)) >= 0.5:
        what, places = ("dates", column.stamps) if dates > numbers else ("numbers", column.numbers)
        others = _examples(column, [place for place in said if place not in places])
        column.notes["stays text"] = f"{column.name}, {best:.0%} {what}; the others are {others}"
    return "text"


def _counted(column: Column) -> dict[Number, int]:
    counted: Counter[Number] = Counter()
    for place, found in column.numbers.items():
        counted[found] += column.counts[place]
    return counted


def _to_numbers(column: Column, mark: str) -> None:
    told = reading(_counted(column), mark)
    about = {found.sign for found in column.numbers.values() if found.sign}
    if "%" in about:
        about = {"percent: 12 is 12 %"}
        bare = column.count(place for place, found in column.numbers.items() if not found.sign)
        if bare:
            column.notes["unclear"] = f"{column.name} has {bare} values without %, taken as they are"
    if told.mark == "," and any("," in str(column.values[place]) for place in column.numbers):
        about.add("decimal comma")
    column.about = ", ".join(sorted(about))
    either = [place for place, found in column.numbers.items() if found.point != found.comma]
    guessed = [place for place in either if "," in str(column.values[place])] if not told.both else either
    if guessed and (told.both or not told.told):
        first = guessed[0]
        value = column.numbers[first].comma if told.mark == "," else column.numbers[first].point
        column.notes["unclear"] = f"{column.name} {column.values[first]!r} is taken as {value}"
    _unread(column, column.numbers)
    values = [
        (found.comma if told.mark == "," else found.point) if (found := column.numbers.get(place)) else None
        for place in range(len(column.values))
    ]
    column.values = values


def _orders(column: Column) -> Counter[str]:
    votes: Counter[str] = Counter()
    for place, found in column.stamps.items():
        if found.order:
            votes[found.order] += column.counts[place]
    return votes


def _to_dates(column: Column, order: str) -> None:
    votes = _orders(column)
    open_ones = [place for place, found in column.stamps.items() if found.open]
    tied = len(votes) == 2 and len(set(votes.values())) == 1
    decided = votes.most_common(1)[0][0] if votes and not tied else "" if votes else order
    if open_ones:
        text = column.values[open_ones[0]]
        if not decided or len(votes) == 2:
            many = column.count(open_ones)
            column.notes["unclear"] = (
                f"{column.name} has {many} dates such as {text!r} that do not tell day from month,"
                f" taken as {decided or 'day first'}"
            )
        column.about = decided or "day first"
    zoned = [place for place, found in column.stamps.items() if found.zoned]
    if zoned:
        column.about = ", ".join(part for part in (column.about, "times in UTC") if part)
        bare = column.count(
            place for place, found in column.stamps.items() if found.timed and not found.zoned
        )
        if bare:
            column.notes["unclear"] = f"{column.name} has {bare} times without offset, taken as UTC"
    _unread(column, column.stamps)
    values = [
        found.when(decided) if (found := column.stamps.get(place)) else None
        for place in range(len(column.values))
    ]
    column.values = values


def _unread(column: Column, readable: Iterable[int]) -> None:
    """Make missing what could not be read, and say so, but for texts that say that there is no value."""
    odd = []
    for place in set(range(len(column.values))) - set(readable) - set(column.missing):
        if str(column.values[place]).lower() in NO_VALUE:
            column.missing[place] = str(column.values[place])
        else:
            odd.append(place)
    if odd:
        column.notes["unreadable"] = f"{column.name} {_examples(column, sorted(odd))}"
        column.missing |= dict.fromkeys(odd, "unreadable")


def _examples(column: Column, places: list[int]) -> str:
    shown = [
        repr(column.values[place])[:40] + (f" {column.counts[place]}x" if column.counts[place] > 1 else "")
        for place in places[:_SHOWN]
    ]
    return ", ".join(shown) + (", …" if len(places) > _SHOWN else "")


def _note_missing(column: Column) -> None:
    written: Counter[str] = Counter()
    for place, text in column.missing.items():
        written[text] += column.counts[place]
    if written:
        listed = ", ".join(f"{text} {count}x" for text, count in written.items() if text)
        column.notes["missing"] = f"{column.name} {written.total()}" + (f" ({listed})" if listed else "")
