"""Removes secrets from values that contain texts: messages, commands, JSON, pydantic models."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

__all__ = ["redacted_values"]

_LONGEST_SHORT_NUMBER = 10**11
"""Numbers with fewer digits are never secrets; see `libs.redaction.secret_filter.unfit`."""


def redacted_values(redact: Callable[[Any], Any], value: Any) -> Any:
    """Return `value` without secrets in its texts; the same object if it contains none.

    Searches mappings (also keys), lists, tuples, sets, dataclasses and pydantic models. A number that is a
    secret becomes text. Other objects are unchanged. Nothing is changed in place.
    """

    def inner(item: Any) -> Any:
        return redacted_values(redact, item)

    match value:
        case str() | bytes():
            return redact(value)
        case int() if value >= _LONGEST_SHORT_NUMBER:
            digits = str(value)
            return value if redact(digits) is digits else redact(digits)
        case dict():
            done = {inner(key): inner(item) for key, item in value.items()}
            return value if _same([*value, *value.values()], [*done, *done.values()]) else done
        case list():
            items = [inner(item) for item in value]
            return value if _same(value, items) else items
        case tuple():
            items = [inner(item) for item in value]
            named: Callable[..., Any] | None = getattr(type(value), "_make", None)
            return value if _same(value, items) else named(items) if named else tuple(items)
        case set() | frozenset():
            other = type(value)(map(inner, value))
            return value if value == other else other
        case _:
            changed = {name: new for name, item in _members(value) if (new := inner(item)) is not item}
            if not changed:
                return value
            copy: Callable[..., Any] | None = getattr(value, "model_copy", None)
            return copy(update=changed) if copy else replace(value, **changed)


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass or pydantic model; nothing for other objects."""
    if isinstance(value, type):
        return
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.init]
    else:  # no isinstance check, because pydantic takes 0.1 s to import
        names = list(getattr(type(value), "model_fields", ()))
    for name in names:
        yield name, getattr(value, name)
