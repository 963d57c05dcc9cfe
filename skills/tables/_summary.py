"""What a person should know about a table that was read, in about a dozen lines."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from skills.tables._columns import Column
from skills.tables._groups import folded

_WIDTH = 300
_FEW = 4
_SIGN_SHARE = 0.1


def summary(columns: list[Column], rows: int, repeats: int) -> list[str]:
    """Lines: the columns by kind, then what is missing, was not readable, is unclear or odd."""
    lines = []
    for kind in ("date", "number", "true/false", "text", "empty", "other"):
        found = [_described(column) for column in columns if column.kind == kind]
        if found:
            lines.append(_line({"other": "lists"}.get(kind, kind), found))
    for topic in ("missing", "unreadable", "stays text", "unclear"):
        found = [column.notes[topic] for column in columns if topic in column.notes]
        if found:
            lines.append(_line({"unreadable": "could not be read, now missing"}.get(topic, topic), found))
    if repeats:
        lines.append(
            f"repeats: {repeats:,} of {rows:,} rows are exact copies of earlier ones and are kept;"
            " table = table.drop_duplicates() removes them"
        )
    spellings = [text for column in columns if column.kind == "text" and (text := _spellings(column))]
    if spellings:
        lines.append(_line("spelled differently", spellings))
    odd = [text for column in columns if column.kind == "number" and (text := _odd(column))]
    if odd:
        lines.append(_line("odd", odd))
    return lines


def _line(topic: str, items: list[str]) -> str:
    text = f"{topic}: "
    for place, item in enumerate(items):
        if len(text) + len(item) > _WIDTH and place:
            return f"{text}and {len(items) - place} more"
        text += item + ("; " if place < len(items) - 1 else "")
    return text


def _described(column: Column) -> str:
    values = [value for value in column.values if value is not None]
    about = f" ({column.about})" if column.about else ""
    if column.kind in ("number", "date") and values:
        return f"{column.name} {_shown(min(values))} to {_shown(max(values))}{about}"
    if column.kind == "text":
        if len(values) <= _FEW and sum(len(str(value)) for value in values) <= 60:
            return f"{column.name} ({', '.join(map(str, values))})"
        return f"{column.name} ({len(values):,} different)"
    return column.name


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d" if value.time() == datetime.min.time() else "%Y-%m-%d %H:%M")
    return str(value) if isinstance(value, int) else f"{value:.12g}"


def _spellings(column: Column) -> str:
    forms: dict[str, Counter[str]] = {}
    for value, count in zip(column.values, column.counts, strict=True):
        if isinstance(value, str):
            forms.setdefault(folded(value), Counter())[value] += count
    several = [list(form) for form in forms.values() if len(form) > 1]
    shown = ", ".join(" = ".join(form) for form in several[:2])
    return f"{column.name} {shown}{', …' if len(several) > 2 else ''}" if several else ""


def _odd(column: Column) -> str:
    counted = [
        (value, count) for value, count in zip(column.values, column.counts, strict=True) if value is not None
    ]
    rows = sum(count for _, count in counted)
    below = [value for value, _ in counted if value < 0]
    few = sum(count for value, count in counted if value < 0)
    if below and few < rows * _SIGN_SHARE:
        return f"{column.name} has {few:,} below zero, such as {_shown(below[0])}"
    return ""
