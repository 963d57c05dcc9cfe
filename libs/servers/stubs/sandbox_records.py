"""Arguments and results of the functions in this package. Runs in the sandbox: the standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class _LeftOut:
    def __repr__(self) -> str:
        return "left out"


OMIT: Any = _LeftOut()
"""Default of an argument for which None is a value of its own."""


class Record:
    """Base of results: dataclasses whose fields have the names and types of the server's schema.

    `record["key"]` reads by the server's own key, also a key that the schema does not name. A value that does
    not fit the schema stays as the server sent it. A field that the server left out is None.
    """

    _keys: ClassVar[Mapping[str, str]] = {}
    """Field -> the server's key, where the two differ."""
    _sent: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self._sent[key]


def given(required: dict[str, Any], optional: Mapping[str, tuple[object, object]]) -> dict[str, Any]:
    """Return the arguments to send: an optional one is left out if it equals its default."""
    chosen = {
        key: value
        for key, (value, default) in optional.items()
        if type(value) is not type(default) or value != default
    }
    return required | chosen


def result(function: Callable[..., T], value: object) -> T:
    """Return what the server sent as the type that the function promises."""
    made: T = _made(_hints(function)["return"], value)
    return made


# A hint and a value can be anything.
def _made(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(value, list) and origin is list:
        return [_made(inner[0], each) for each in value]
    if not isinstance(value, dict):
        members = inner if origin in _UNIONS else ()
        lists = [member for member in members if get_origin(member) is list]
        return _made(lists[0], value) if isinstance(value, list) and lists else value
    if origin in _UNIONS:
        return _made(_member(inner, value), value)
    if origin is dict:
        return {key: _made(inner[1], each) for key, each in value.items()}
    return _record(hint, value) if isinstance(hint, type) and issubclass(hint, Record) else value


def _member(members: tuple[Any, ...], value: dict[str, Any]) -> Any:
    """Return the member of a union that an object belongs to: the record with the fewest differences."""
    records = [each for each in members if isinstance(each, type) and issubclass(each, Record)]
    others = [each for each in members if get_origin(each) is dict]
    return min(records, key=lambda each: _differences(each, value)) if records else (others or [object])[0]


def _differences(record: Any, value: dict[str, Any]) -> tuple[int, int]:
    """Return how many constants are others, and how many keys are missing or unknown."""
    hints = {key: hint for key, (_, hint) in _fields(record).items()}
    constants = [key for key, hint in hints.items() if get_origin(hint) is Literal and key in value]
    return sum(value[key] not in get_args(hints[key]) for key in constants), len(hints.keys() ^ value.keys())


def _record(record: Any, value: dict[str, Any]) -> Record:
    filled: Record = record(
        **{name: _made(hint, value.get(key)) for key, (name, hint) in _fields(record).items()}
    )
    filled._sent = value
    return filled


@cache
def _hints(owner: Any) -> dict[str, Any]:
    return get_type_hints(owner)


@cache
def _fields(record: Any) -> dict[str, tuple[str, Any]]:
    """Return key -> name and type of the field."""
    names = {record._keys.get(each.name, each.name): each.name for each in fields(record)}
    hints = _hints(record)
    return {key: (name, hints[name]) for key, name in names.items()}


_UNIONS = (Union, UnionType)
