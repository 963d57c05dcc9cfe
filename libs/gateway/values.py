"""Secrets taken out of whatever holds texts: messages, commands, JSON, models of pydantic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, AnyStr, Protocol

from pydantic import BaseModel

__all__ = ["redacted_values"]

_LONGEST_SHORT_NUMBER = 10**11
"""No number with fewer digits is a secret: see `libs.gateway.redaction.unfit`."""


class _Redact(Protocol):
    def __call__(self, data: AnyStr) -> AnyStr: ...


def redacted_values(redact: _Redact, value: Any) -> Any:
    """`value` without secrets in the texts it holds; the same object where there are none in it.

    Looked into are mappings (keys too), lists, tuples, sets, dataclasses and models of pydantic; a number
    that is a secret becomes a text. Whatever else there is stays as it is. Nothing is changed in place.
    """
    # One search for all: a conversation has thousands of texts, and seldom a secret.
    together = "\0".join(_texts(value))
    return value if redact(together) is together else _redacted(redact, value)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case bytes():
            yield value.decode("utf-8", "replace")
        case int() if value >= _LONGEST_SHORT_NUMBER:
            yield str(value)
        case dict():
            for key, item in value.items():
                yield from _texts(key)
                yield from _texts(item)
        case list() | tuple() | set() | frozenset():
            for item in value:
                yield from _texts(item)
        case _:
            for _, item in _members(value):
                yield from _texts(item)


def _redacted(redact: _Redact, value: Any) -> Any:
    def inner(item: Any) -> Any:
        return _redacted(redact, item)

    match value:
        case str():
            return redact(value)
        case bytes():
            return redact(value)
        case int() if value >= _LONGEST_SHORT_NUMBER:
            digits = str(value)
            return value if redact(digits) is digits else redact(digits)
        case dict():
            return _same_or(value, {inner(key): inner(item) for key, item in value.items()})
        case list():
            return _same_or(value, [inner(item) for item in value])
        case tuple():
            items = [inner(item) for item in value]
            named: Callable[..., Any] | None = getattr(type(value), "_make", None)
            return _same_or(value, named(items) if named else tuple(items))
        case set() | frozenset():
            return _same_or(value, type(value)(inner(item) for item in value))
        case _:
            changed = {
                name: done for name, item in _members(value) if (done := _redacted(redact, item)) is not item
            }
            if not changed:
                return value
            return (
                value.model_copy(update=changed)
                if isinstance(value, BaseModel)
                else replace(value, **changed)
            )


def _same_or(value: Any, done: Any) -> Any:
    """`value` itself where nothing in it has changed, so that nobody takes it for another."""
    if isinstance(value, dict):
        return value if _same([*value, *value.values()], [*done, *done.values()]) else done
    if isinstance(value, set | frozenset):
        return value if value == done else done
    return value if _same(value, done) else done


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a dataclass or of a model of pydantic; none of anything else."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield name, getattr(value, name)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.init:
                yield field.name, getattr(value, field.name)
