"""Find the last JSON value in the output of a program."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["DEEPEST", "Found", "last_json", "too_deep"]

_OPENING = re.compile(r"[\[{]")
_MOST_TRIES = 20_000
_MOST_READ = 20_000_000
"""Most characters of failed attempts in all. Without a limit, a text of brackets would take too long."""
_MOST_LINES = 1_000
"""Lines from the end that are searched for a string, number, true, false or null."""
DEEPEST = 100
"""Most nested objects and arrays. Later steps refuse deeper values."""
_DEEP = "What looks like one is nested too deeply."


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_decoder = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)
"""NaN, infinities and numbers that are too large, such as 1e999, are not JSON and become null."""


@dataclass(frozen=True, slots=True)
class Found:
    """The value, or a note why there is none."""

    value: Any = None
    note: str = ""


def last_json(text: str) -> Found:
    """Return the last value in `text`.

    An outermost object or array counts anywhere. A string, number, true, false or null counts if it is alone
    on its line.
    """
    found, why = _last_container(text)
    line = _last_line(text)
    # A line inside an object is part of the object; an object inside a string is part of the string.
    if line and (found is None or line.begin >= found.end or line.begin < found.begin < line.end):
        found = line
    return (
        Found(_clean(found.value))
        if found
        else Found(note=f"The program printed no JSON value. {why}".rstrip())
    )


class _Placed(NamedTuple):
    """A value with its position."""

    value: Any
    begin: int
    end: int


def _last_container(text: str) -> tuple[_Placed | None, str]:
    """Return the last object or array, and the reason if there is none."""
    found: _Placed | None = None
    at = tries = read = 0
    why = ""
    while tries <= _MOST_TRIES and read <= _MOST_READ and (match := _OPENING.search(text, at)):
        start = match.start()
        try:
            value, at = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:  # no JSON, or a number of thousands of digits
            at = start + 1
            tries += 1
            read += max(1, error.pos - start) if isinstance(error, json.JSONDecodeError) else 1_000
            why = _DEEP if isinstance(error, RecursionError) else why
        else:
            found, why = (None, _DEEP) if too_deep(value) else (_Placed(value, start, at), why)
    return found, why


def _last_line(text: str) -> _Placed | None:
    """Return the last line that is a string, number, true, false or null."""
    end = len(text)
    for _ in range(_MOST_LINES):
        begin = text.rfind("\n", 0, end) + 1
        stripped = text[begin:end].strip()
        if stripped and stripped[0] in '"-0123456789tfn':
            with suppress(ValueError, RecursionError):
                return _Placed(_decoder.decode(stripped), begin, end)
        if begin == 0:
            break
        end = begin - 1
    return None


def too_deep(value: Any) -> bool:
    """Return whether `value` has more than DEEPEST nested objects and arrays."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list | tuple)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _clean(value: Any) -> Any:
    """Replace unpaired surrogates, which UTF-8 cannot encode."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-8", "replace"))
    return value
