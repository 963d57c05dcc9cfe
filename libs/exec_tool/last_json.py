"""The last JSON value of what a program has printed, whatever stands around it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["DEEPEST", "Found", "last_json", "too_deep"]

_OPENING = re.compile(r"[\[{]")
_MOST_TRIES = 20_000
_MOST_READ = 20_000_000
"""Characters that are read in vain, in all: a text of brackets alone would take for ever."""
_MOST_LINES = 1_000
"""Lines at the end that are looked at for a value that is no object and no array."""
DEEPEST = 100
"""Objects and arrays in one another: more are refused by what a result or an argument goes through."""
_DEEP = "What looks like one is nested too deeply."
_NONE = "The program printed no JSON value."


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_decoder = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)
"""NaN and infinities, which are no JSON though Python prints them, become null; so does what is too large
for a number, such as 1e999."""


@dataclass(frozen=True, slots=True)
class Found:
    """The value, or why there is none."""

    value: Any = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A value, and where it stands."""

    value: Any
    begin: int
    end: int


def last_json(text: str) -> Found:
    """The last value in `text`.

    An object or an array counts wherever it stands, one within another does not; a string, a number, true,
    false or null counts where it is alone on its line.
    """
    found, why = _last_container(text)
    line = _last_line(text)
    # A line within an object is a part of it; what looks like an object within a string is none.
    if line and (found is None or line.begin >= found.end or line.begin < found.begin < line.end):
        found = line
    return Found(_clean(found.value)) if found else Found(note=f"{_NONE} {why}".rstrip())


def _last_container(text: str) -> tuple[_Placed | None, str]:
    """The last object or array, and why there may be none."""
    found: _Placed | None = None
    at = tries = read = 0
    why = ""
    while match := _OPENING.search(text, at):
        start = match.start()
        try:
            value, at = _decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            read += max(1, error.pos - start)
            at = start + 1
        except RecursionError:
            read += 1_000
            at = start + 1
            why = _DEEP
        except ValueError:  # a number of thousands of digits
            at = start + 1
        else:
            deep = too_deep(value)
            found, why = (None, _DEEP) if deep else (_Placed(value, start, at), why)
            continue
        tries += 1
        if tries > _MOST_TRIES or read > _MOST_READ:
            break
    return found, why


def _last_line(text: str) -> _Placed | None:
    """The last line that is a string, a number, true, false or null by itself."""
    end = len(text)
    for _ in range(_MOST_LINES):
        begin = text.rfind("\n", 0, end) + 1
        stripped = text[begin:end].strip()
        if stripped and stripped[0] in '"-0123456789tfn':
            try:
                return _Placed(_decoder.decode(stripped), begin, end)
            except (ValueError, RecursionError):
                pass
        if begin == 0:
            break
        end = begin - 1
    return None


def too_deep(value: Any) -> bool:
    """Whether more than DEEPEST objects and arrays are in one another."""
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
    """The value as it can be kept anywhere: halves of surrogate pairs replaced."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-8", "replace"))
    return value
