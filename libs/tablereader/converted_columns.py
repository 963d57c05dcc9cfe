"""Converts columns to numbers, dates or true and false where nearly all values can be read so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

from .read_numbers import Number, reading
from .table_cells import NO_VALUE, counted
from .table_columns import Column
from .units_of_measure import alike, converted, largest

_Read = TypeVar("_Read")
READABLE = 0.9

TOPICS = {
    "missing": "missing",
    "unreadable": "could not be read, now missing",
    "converted": "converted",
    "stays text": "stays text",
    "unclear": "unclear",
}
"""Topics of notes on a column, each with its text for people."""


def convert(columns: list[Column], readable: float = READABLE) -> None:
    """Convert the values of each column in place; all columns share one decimal mark and one order of dates.

    `readable` is the share of values that must be numbers or dates before a column is converted.
    """
    marks: Counter[str] = Counter()
    orders: Counter[str] = Counter()
    for column in columns:
        signs = _signs(column)
        column.sign = max(filter(None, signs), key=signs.__getitem__, default="")
        column.kind = _kind(column, readable) if column.kind == "text" else column.kind
        if column.kind == "number":
            told = reading(_said(column))
            marks[told.mark] += told.told
        elif column.kind == "date":
            orders.update(dict.fromkeys(_orders(column), 1))
    mark, order = _leader(marks), _leader(orders)
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
        column.numbers, column.stamps = [], []
        _note_missing(column)


def _leader(votes: Counter[str]) -> str:
    """Return the entry with the most votes, "" for a tie."""
    (first, most), (_, next_most) = [*votes.most_common(2), ("", 0), ("", 0)][:2]
    return first if most > next_most else ""


def _kind(column: Column, readable: float) -> str:
    present = [place for place in range(len(column.values)) if place not in column.missing]
    if not present:
        return "empty"
    if all(str(column.values[place]).lower() in ("true", "false") for place in present):
        return "true/false"
    said = [place for place in present if str(column.values[place]).lower() not in NO_VALUE]
    whole = column.count(said)
    if not whole:
        return "text"
    dates, numbers = (column.count(_places(found)) / whole for found in (column.stamps, column.numbers))
    if dates >= readable and dates >= numbers:
        return "date"
    codes = [place for place, found in _there(column.numbers) if found.code]
    if codes:
        if numbers >= readable:
            column.notes["stays text"] = f"{column.name}, codes such as {column.values[codes[0]]!r}"
        return "text"
    signs = _signs(column)
    units = [sign for sign in signs if sign]
    if numbers >= readable:
        if len(units) <= 1:
            return "number"
        if not signs[""] and alike(units):
            column.unit = largest(units)
            listed = ", ".join(f"{signs[unit]:,} in {unit}" for unit in units if unit != column.unit)
            column.notes["converted"] = f"{column.name} {listed} are in {column.unit} now"
            return "number"
        listed = ", ".join(f"{sign} {signs[sign]}x" for sign in units)
        column.notes["stays text"] = f"{column.name} has several units: {listed}"
    elif (best := max(dates, numbers)) >= 0.5:
        what, read = ("dates", column.stamps) if dates > numbers else ("numbers", column.numbers)
        others = column.examples([place for place in said if read[place] is None])
        column.notes["stays text"] = f"{column.name}, {best:.0%} {what}; the others are {others}"
    return "text"


def _signs(column: Column) -> Counter[str]:
    signs: Counter[str] = Counter()
    for place, found in _there(column.numbers):
        signs[found.sign] += column.counts[place]
    return signs


def _said(column: Column) -> dict[Number, int]:
    found: Counter[Number] = Counter()
    for place, value in _there(column.numbers):
        if value.mark:
            found[value] += column.counts[place]
    return found


def _to_numbers(column: Column, others: str) -> None:
    told = reading(_said(column), others)
    column.mark = told.mark
    about = {column.unit or found.sign for _, found in _there(column.numbers) if found.sign}
    if "%" in about:
        about = {"percent: 12 is 12 %"}
        bare = column.count(place for place, found in _there(column.numbers) if not found.sign)
        if bare:
            column.notes["unclear"] = (
                f"{column.name} has {counted(bare, 'value')} without %, taken as written"
            )
    either = [place for place, found in _there(column.numbers) if found.point != found.comma]
    if told.mark == "," and (either or any(found.mark == "," for _, found in _there(column.numbers))):
        about.add("decimal comma")
    column.about = ", ".join(sorted(about))
    # 1.234 has a decimal point. 1,234 is ambiguous; in a column with both marks, 1.234 is too.
    guessed = either if told.both else [place for place in either if "," in str(column.values[place])]
    if guessed and (told.both or not told.told):
        first = dict(_there(column.numbers))[guessed[0]]
        value = first.comma if told.mark == "," else first.point
        column.notes["unclear"] = f"{column.name} {column.values[guessed[0]]!r} is taken as {value}"
    _unread(column, column.numbers)
    column.values = [
        None
        if found is None
        else converted(
            found.comma if told.mark == "," else found.point, found.sign, column.unit or found.sign
        )
        for found in column.numbers
    ]


def _orders(column: Column) -> Counter[str]:
    votes: Counter[str] = Counter()
    for place, found in _there(column.stamps):
        if found.order:
            votes[found.order] += column.counts[place]
    return votes


def _to_dates(column: Column, others: str) -> None:
    votes = _orders(column)
    column.order = order = _leader(votes) if votes else others
    either = [place for place, found in _there(column.stamps) if found.open]
    about, unclear = [], []
    if either:
        about.append(order or "day first")
        if not order or len(votes) == 2:
            many = counted(column.count(either), "date")
            text = column.values[either[0]]
            unclear.append(f"{many} such as {text!r} that may have day or month first, taken as {about[0]}")
    if any(found.zoned for _, found in _there(column.stamps)):
        about.append("times in UTC")
        bare = [place for place, found in _there(column.stamps) if found.timed and not found.zoned]
        if bare:
            unclear.append(f"{counted(column.count(bare), 'time')} without offset, taken as UTC")
    column.about = ", ".join(about)
    if unclear:
        column.notes["unclear"] = f"{column.name} has {' and '.join(unclear)}"
    _unread(column, column.stamps)
    column.values = [None if found is None else found.when(order) for found in column.stamps]


def _there(read: Iterable[_Read | None]) -> Iterator[tuple[int, _Read]]:
    return ((place, found) for place, found in enumerate(read) if found is not None)


def _places(read: Iterable[object]) -> Iterator[int]:
    return (place for place, _ in _there(read))


def _unread(column: Column, read: Iterable[object]) -> None:
    """Set unreadable values to missing, with a note; texts for "no value" get no note."""
    odd = []
    for place in sorted(set(range(len(column.values))) - set(_places(read)) - set(column.missing)):
        if str(column.values[place]).lower() in NO_VALUE:
            column.missing[place] = str(column.values[place])
        else:
            odd.append(place)
    if odd:
        column.notes["unreadable"] = f"{column.name} {column.examples(odd)}"
        column.missing |= dict.fromkeys(odd, "unreadable")
        column.unread = {place: str(column.values[place]) for place in odd}


def _note_missing(column: Column) -> None:
    written: Counter[str] = Counter()
    for place, text in column.missing.items():
        written[text] += column.counts[place]
    if written:
        listed = ", ".join(f"{text} {count}x" for text, count in written.items() if text)
        column.notes["missing"] = f"{column.name} {written.total():,}" + (f" ({listed})" if listed else "")
