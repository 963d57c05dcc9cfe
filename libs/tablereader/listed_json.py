"""Describes JSON in lines of text: a list of objects as a table, other values as an outline."""

from __future__ import annotations

import json
from typing import Any

from .listed_columns import MAX_COLUMNS, column, plain

MAX_DEPTH = 4
_NAMES: dict[type, str] = {
    bool: "true/false",
    int: "number",
    float: "number",
    str: "text",
    type(None): "null",
    dict: "object",
    list: "list",
}


def outline(value: Any, depth: int = 0) -> str:
    """Return the nesting of a JSON value."""
    if isinstance(value, dict):
        if depth > 4:
            return "object"
        if len(value) > 3 and len({outline(each, depth + 1) for each in value.values()}) == 1:
            keys = ", ".join(plain(repr(key)) for key in list(value)[:2])
            inner = outline(next(iter(value.values())), depth + 1)
            return f"object with {len(value):,} keys ({keys}, …), each {inner}"
        inside = [
            f"{plain(key)}: {outline(each, depth + 1)}" for key, each in list(value.items())[:MAX_COLUMNS]
        ]
        if len(value) > MAX_COLUMNS:
            inside.append(f"and {len(value) - MAX_COLUMNS:,} more keys")
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list):
        return f"list of {_items(value, depth + 1)}" if value and depth <= 4 else "list"
    return _NAMES[type(value)] + (f" ({plain(repr(value), 24)})" if isinstance(value, str) else "")


def _items(values: list[Any], depth: int = 0) -> str:
    """Return the nesting of values that stand side by side, or their kinds if they have several."""
    kinds = list(dict.fromkeys(_NAMES[type(each)] for each in values))
    if len(kinds) > 1:
        return ", ".join(kinds)
    if kinds == ["list"]:
        return outline([item for each in values for item in each], depth)
    return outline(next(filter(None, values), values[0]), depth)


def read_json(value: Any, name: str = "") -> list[str]:
    """Return the lines on a list of objects as a table, or the outline of any other value."""
    if isinstance(value, dict) and len(value) <= 3:
        inner = [(key, each) for key, each in value.items() if is_records(each)]
        if len(inner) == 1:
            return read_json(inner[0][1], f"object, its {plain(inner[0][0])!r}: ")
    if not is_records(value):
        return [outline(value)]
    note = ""
    keys = list(dict.fromkeys(key for record in value for key in record))
    flattened = [flat(record) for record in value]
    paths = list(dict.fromkeys(key for record in flattened for key in record))
    if keys != paths and len(paths) <= MAX_COLUMNS:
        value, keys, note = flattened, paths, ", a.b is b in the object a"
    lines = [f"{name}list of {len(value):,} objects{note}"]
    for key in keys[:MAX_COLUMNS]:
        values = [record[key] for record in value if key in record]
        missing = f"; in {len(values):,} of them" if len(values) < len(value) else ""
        nested = next((each for each in values if isinstance(each, dict | list) and each), None)
        if nested is not None and (members := scalars(values)):
            lines.append(f"- {plain(key)}: lists of {column(members)}{missing}")
        elif nested is not None:
            there = [each for each in values if each is not None]
            lines.append(f"- {plain(key)}: {_items(there)}{missing}")
        else:
            quoted = any(isinstance(each, str) for each in values)
            said = column([each if isinstance(each, str) else json.dumps(each) for each in values])
            digits = quoted and "number" in said
            lines.append(f"- {plain(key)}: {said}{' in quotes' if digits else ''}{missing}")
    if len(keys) > MAX_COLUMNS:
        lines.append(f"- and {len(keys) - MAX_COLUMNS} more columns")
    return lines


def scalars(values: list[Any]) -> list[str]:
    """Return the items of flat lists as text, or [] if an item is a list or an object."""
    if not all(isinstance(each, list | None) for each in values):
        return []
    members = [member for each in values for member in each or ()]
    if any(isinstance(member, dict | list) for member in members):
        return []
    return [member if isinstance(member, str) else json.dumps(member) for member in members]


def is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def flat(record: dict[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """Return a flat object, with the column names of the library `tables`."""
    values: dict[str, Any] = {}
    for key, value in record.items():
        nested = isinstance(value, dict) and value and depth <= MAX_DEPTH
        values |= flat(value, f"{before}{key}.", depth + 1) if nested else {before + key: value}
    return values
