"""Describes a table in about a dozen lines: columns, missing, unreadable and odd values."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from typing import Any

from tablereader import TOPICS, Column, counted, folded

_WIDTH = 300
_FEW = 4
_FEW_CHARACTERS = 60
_SIGN_SHARE = 0.1
_FAR = 10
_RARE = 10
_OWN = 0.9
"""Share of rows with a unique value in a column that numbers the rows."""
_MANY = 300
_TOTALS = {
    *("total", "totals", "sum", "subtotal", "grandtotal", "overall", "gesamt", "summe", "gesamtsumme"),
    *("totale", "totaal", "somme", "suma", "всего", "итого"),
}
_CLOCK = re.compile(r"(?i)date|time|stamp|epoch|_at$|^ts$|_ts$")
_SECONDS = (10**9, 2.2 * 10**9)


def summary(columns: list[Column], rows: int, repeats: int) -> list[str]:
    """Return lines on the columns by kind, then on missing, unreadable, unclear and odd values."""
    lines = []
    for kind in ("date", "number", "true/false", "text", "empty", "lists"):
        found = [_described(column) for column in columns if column.kind == kind]
        lines += _line(kind, found)
    for topic, told in TOPICS.items():
        lines += _line(told, [column.notes[topic] for column in columns if topic in column.notes])
    if repeats:
        # Without a column that numbers the rows, equal rows may be right.
        numbered = _are_numbered(columns, rows, repeats)
        how = "; table = table.drop_duplicates() removes them" if numbered else ""
        share = f"{repeats:,} of {counted(rows, 'row')}"
        lines.append(f"repeats: {share} are exact copies of earlier ones and are kept{how}")
    texts = [column for column in columns if column.kind == "text"]
    numbers = [column for column in columns if column.kind == "number"]
    lines += _line("spelled differently", [text for column in texts if (text := _spellings(column))])
    lines += _line("perhaps misspelled", [text for column in texts if (text := _misspelled(column))])
    odd = [text for column in numbers for text in _odd(column)]
    return [*lines, *_line("odd", odd), *_line("totals", _total_rows(columns))]


def _are_numbered(columns: list[Column], rows: int, repeats: int) -> bool:
    """Return whether a column has a unique value in nearly every row, as order numbers do."""
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
    return column.name


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
    """Return rare names that differ by one typing error from a far more common name."""
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
    """Return whether two words of four letters or more differ by one typing error."""
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
    """Name rows that seem to be sums of other rows, and would be counted twice."""
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
