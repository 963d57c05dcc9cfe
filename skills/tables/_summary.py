"""What a person should know about a table that was read, in about a dozen lines."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from typing import Any

from skills.tables._cells import counted, folded
from skills.tables._columns import Column
from skills.tables._convert import TOPICS

_WIDTH = 300
_FEW = 4
_FEW_CHARACTERS = 60
_SIGN_SHARE = 0.1
_FAR = 10
_RARE = 10
_OWN = 0.9
"""The share of a table's rows that have a value of their own in a column that numbers them."""
_MANY = 300
_TOTALS = {
    "total",
    "totals",
    "sum",
    "subtotal",
    "grandtotal",
    "overall",
    "gesamt",
    "summe",
    "gesamtsumme",
    "всего",
}
_TOTALS |= {"totale", "totaal", "somme", "suma", "итого"}
_CLOCK = re.compile(r"(?i)date|time|stamp|epoch|_at$|^ts$|_ts$")
_SECONDS = (10**9, 2.2 * 10**9)


def summary(columns: list[Column], rows: int, repeats: int) -> list[str]:
    """Lines: the columns by kind, then what is missing, was not readable, is unclear or odd."""
    lines = []
    for kind in ("date", "number", "true/false", "text", "empty", "lists"):
        found = [_described(column) for column in columns if column.kind == kind]
        lines += _line(kind, found)
    for topic, told in TOPICS.items():
        lines += _line(told, [column.notes[topic] for column in columns if topic in column.notes])
    if repeats:
        # Without anything that numbers the rows, two may well be the same by chance.
        how = (
            "; table = table.drop_duplicates() removes them" if _are_numbered(columns, rows, repeats) else ""
        )
        share = f"{repeats:,} of {counted(rows, 'row')}"
        lines.append(f"repeats: {share} are exact copies of earlier ones and are kept{how}")
    texts = [column for column in columns if column.kind == "text"]
    numbers = [column for column in columns if column.kind == "number"]
    lines += _line("spelled differently", [text for column in texts if (text := _spellings(column))])
    lines += _line("perhaps misspelled", [text for column in texts if (text := _misspelled(column))])
    odd = [text for column in numbers for text in _odd(column)]
    return [*lines, *_line("odd", odd), *_line("totals", _total_rows(columns))]


def _are_numbered(columns: list[Column], rows: int, repeats: int) -> bool:
    """Whether nearly each of the rows has a value of its own in some column, as an order has its number, and
    few are there again: of three products in ninety rows each is in many on purpose."""
    if repeats > rows / 2:
        return False
    for column in columns:
        values = [value for value in column.values if value is not None]
        whole = column.kind == "number" and all(isinstance(value, int) for value in values)
        if (whole or column.kind == "text") and len(values) >= _OWN * (rows - repeats):
            return True
    return False


def _line(topic: str, items: list[str]) -> list[str]:
    if not items:
        return []
    text = f"{topic}: {items[0]}"
    for place, item in enumerate(items[1:], 1):
        if len(text) + len(item) > _WIDTH:
            return [f"{text}; and {len(items) - place} more"]
        text += f"; {item}"
    return [text]


def _described(column: Column) -> str:
    values = [value for value in column.values if value is not None]
    about = f" ({column.about})" if column.about else ""
    if column.kind in ("number", "date") and values:
        return f"{column.name} {_shown(min(values))} to {_shown(max(values))}{about}"
    if column.kind == "text":
        if len(values) <= _FEW and sum(map(len, values)) <= _FEW_CHARACTERS:
            return f"{column.name} ({', '.join(values)})"
        return f"{column.name} ({len(values):,} different)"
    if column.kind == "lists" and (within := _within(values)):
        return f"{column.name}, such as where(table, {column.name!r}, {within!r})"
    return column.name


def _within(values: list[Any]) -> str:
    """A text that is in one of the lists."""
    return next(
        (each for value in values if isinstance(value, list) for each in value if isinstance(each, str)), ""
    )


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d" if value.time() == datetime.min.time() else "%Y-%m-%d %H:%M")
    return str(value) if isinstance(value, int) else f"{value:.12g}"


def _spellings(column: Column) -> str:
    several = [list(form) for form in _forms(column).values() if len(form) > 1]
    shown = ", ".join(" = ".join(form) for form in several[:2])
    return f"{column.name} {shown}{', …' if len(several) > 2 else ''}" if several else ""


def _forms(column: Column) -> dict[str, Counter[str]]:
    forms: dict[str, Counter[str]] = {}
    for value, count in zip(column.values, column.counts, strict=True):
        if value is not None:
            forms.setdefault(folded(value), Counter())[value] += count
    return forms


def _misspelled(column: Column) -> str:
    """Names that are one slip away from one that is far more common."""
    forms = _forms(column)
    if len(forms) > _MANY:
        return ""
    found = []
    for text, form in forms.items():
        for other, common in forms.items():
            if form.total() * _RARE <= common.total() and _slip(text, other):
                found.append(f"{form.most_common(1)[0][0]} {form.total()}x ({common.most_common(1)[0][0]}?)")
                break
    return f"{column.name} {', '.join(found[:3])}{', …' if len(found) > 3 else ''}" if found else ""


def _slip(one: str, other: str) -> bool:
    """Whether a letter is wrong, missing, too many, or two are swapped, in words of four letters or more."""
    if min(len(one), len(other)) < 4 or not (one + other).isalpha() or abs(len(one) - len(other)) > 1:
        return False
    start = next(
        (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), -1
    )
    if start < 0:
        return len(one) != len(other)
    short, long = sorted((one[start:], other[start:]), key=len)
    if len(short) < len(long):
        return short == long[1:]
    return short[1:] == long[1:] or (short[:2] == long[1::-1] and short[2:] == long[2:])


def _odd(column: Column) -> list[str]:
    pairs = [
        (value, count) for value, count in zip(column.values, column.counts, strict=True) if value is not None
    ]
    rows = sum(count for _, count in pairs)
    below = [value for value, _ in pairs if value < 0]
    few = sum(count for value, count in pairs if value < 0)
    found = []
    if below and few < rows * _SIGN_SHARE:
        found.append(f"{column.name} has {few:,} below zero, such as {_shown(below[0])}")
    far = sorted((value for value, _ in pairs), key=abs)[-2:]
    if len(pairs) > _FAR and abs(far[1]) > _FAR * abs(far[0]) > 0:
        found.append(f"{column.name} {_shown(far[1])} is far from all others, the next is {_shown(far[0])}")
    low, high = min(value for value, _ in pairs), max(value for value, _ in pairs)
    for unit, factor in (("s", 1), ("ms", 1000)):
        if _CLOCK.search(column.name) and _SECONDS[0] * factor <= low <= high <= _SECONDS[1] * factor:
            code = f"table[{column.name!r}] = pd.to_datetime(table[{column.name!r}], unit={unit!r})"
            found.append(f"{column.name} may be times, counted since 1970: {code}")
    return found


def _total_rows(columns: list[Column]) -> list[str]:
    """Rows that seem to hold the sum of others, and would be counted twice."""
    found: dict[int, str] = {}
    for column in columns:
        texts = dict(enumerate(column.values)) if column.kind == "text" else column.unread
        sums = {
            place: text
            for place, text in texts.items()
            if text is not None and folded(text).rstrip(":") in _TOTALS and column.counts[place] == 1
        }
        if sums:
            found |= {row: sums[place] for row, place in enumerate(column.places) if place in sums}
    if not found:
        return []
    rows = sorted(found)[:5]
    shown = ", ".join(f"{row} ({found[row]})" for row in rows)
    return [f"row {shown} may be a sum of others; table = table.drop({rows}) removes it"]
