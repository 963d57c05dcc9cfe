"""Reads JSON as named columns: nested objects become `customer.country`, lists stay lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tablereader import Raw, clean, from_rows


def from_objects(content: object, where: str, rows: str | None = None) -> Raw:
    """Return columns of a list of objects, or of an object with exactly one such list.

    `rows` names a list inside each object; each item of that list becomes a row, beside the other values of
    its object.

    Raises:
        ValueError: there is no list of objects, or more than one, or no list `rows`.
    """
    notes: list[str] = []
    if isinstance(content, dict):
        content = _inside(content, where, notes)
    if not isinstance(content, list) or not content:
        raise ValueError(f"{where} holds no list of objects")
    if all(isinstance(row, list) for row in content):
        return from_rows(
            [(line, ["" if cell is None else cell for cell in row]) for line, row in enumerate(content, 1)]
        )
    records = [dict(_flat(row)) if isinstance(row, dict) else {"value": row} for row in content]
    if rows is not None:
        records = list(_rows_of(records, rows, where))
    names = list(dict.fromkeys(name for record in records for name in record))
    if not names:
        raise ValueError(f"{where} holds no list of objects")
    return Raw(names, [[record.get(name) for record in records] for name in names], notes)


def _inside(content: dict[str, Any], where: str, notes: list[str]) -> object:
    if _alike(content):
        return [{"key": key, **value} for key, value in content.items()]
    found = dict(_lists(content))
    if len(found) > 1:
        first = next(iter(found))
        keys = "".join(f"[{key!r}]" for key in first.split("."))
        raise ValueError(
            f"{where} holds {len(found)} lists: {', '.join(found)}. Load one of them:"
            f" import json; table = load(json.load(open({where!r})){keys})"
        )
    if found:
        ((name, rows),) = found.items()
        other = [key for key in content if key != name.split(".")[0]]
        beside = f"; beside it: {', '.join(other[:8])}" if other else ""
        notes.append(f"list: {name}{beside}")
        return rows
    values = list(content.values())
    if isinstance(content.get("columns"), list) and isinstance(content.get("data"), list):  # pandas' "split"
        return [content["columns"], *content["data"]]
    if all(isinstance(value, dict) and list(value) == list(map(str, range(len(value)))) for value in values):
        values = [
            list(value.values()) for value in values
        ]  # the default form of pandas: columns of numbered rows
    if values and all(isinstance(value, list) for value in values) and len({len(v) for v in values}) == 1:
        return [dict(zip(content, row, strict=True)) for row in zip(*values, strict=True)]
    if values and all(isinstance(value, dict) for value in values):
        return [{"key": key, **value} for key, value in content.items()]
    return [content]


def _alike(content: dict[str, Any]) -> bool:
    """Return whether all values are objects with the same keys, so that the outer keys name rows."""
    values = list(content.values())
    return (
        len(values) > 1
        and all(isinstance(value, dict) and value and value.keys() == values[0].keys() for value in values)
        and list(values[0]) != list(map(str, range(len(values[0]))))
    )


def _rows_of(records: list[dict[str, Any]], rows: str, where: str) -> Iterator[dict[str, Any]]:
    """Yield each item of the list `rows` of each record, with the other values of that record."""
    lists = list(
        dict.fromkeys(key for record in records for key, value in record.items() if isinstance(value, list))
    )
    if rows not in lists:
        raise ValueError(f"{where} has no list {rows!r} in its objects; lists: {', '.join(lists) or 'none'}")
    for record in records:
        around = {key: value for key, value in record.items() if key != rows}
        for each in record.get(rows) or []:
            inner = dict(_flat(each)) if isinstance(each, dict) else {rows: each}
            yield around | {f"{rows}.{key}" if key in around else key: value for key, value in inner.items()}


def _lists(content: dict[str, Any], before: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists of objects in an object, with the path of keys."""
    for key, value in content.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield before + key, value
        elif isinstance(value, dict):
            yield from _lists(value, f"{before}{key}.")


def _flat(record: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{clean(key)}.")
        else:
            yield before + clean(key), value
