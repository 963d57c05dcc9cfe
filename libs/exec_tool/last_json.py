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
_CLOSING = re.compile(r"[\]}]")
_TOKEN = re.compile(
    r"""[ \t\n\r]*(?:(?P<open>[\[{])|(?P<close>[\]}])|(?P<mark>[,:])
    |(?P<text>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")
    |(?P<value>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity))""",
    re.VERBOSE,
)
_VALUE = frozenset({"[", "{", "text", "value"})
_KEY = frozenset({"text"})
_COLON = frozenset({":"})
_FIRST = {"[": _VALUE | {"]"}, "{": _KEY | {"}"}}
"""What may follow an opening bracket."""
_MEMBER = {"[": _VALUE, "{": _KEY}
"""What may follow a comma."""
_NEXT = {"[": frozenset({",", "]"}), "{": frozenset({",", "}"})}
"""What may follow a value."""
_MOST_LINES = 1_000
"""Lines from the end that are searched for a string, number, true, false or null."""
DEEPEST = 100
"""Most nested objects and arrays. Later steps refuse deeper values."""
_CUT = re.compile(r"\n\[… [0-9,]+ characters left out …\]\n")
"""The line in the place of the middle of an output. See `libs.sandbox.host.requests.results`."""
_UNKNOWN = "Its output was cut, so its last JSON value is not known: print less, or write data into a file."
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


def last_json(text: str, *, cut: bool = False) -> Found:
    """Return the last value in `text`.

    An outermost object or array counts anywhere. A string, number, true, false or null counts if it is alone
    on its line. NaN and infinities become null, and halves of surrogate pairs become U+FFFD.

    Args:
        cut: whether a line may stand in the place of the middle of the text. Then a value counts if it stands
            on whole lines after that line, and no closing bracket follows, so the value is outermost.
    """
    marks = list(_CUT.finditer(text)) if cut else []
    if marks:
        text = text[marks[-1].end() :].partition("\n")[2]
    found, why = _last_container(text)
    line = _last_line(text)
    # A line inside an object is part of the object; an object inside a string is part of the string.
    if line and (found is None or line.begin >= found.end or line.begin < found.begin < line.end):
        found = line
    if marks and (found is None or _CLOSING.search(text, found.end)):
        return Found(note=_UNKNOWN)
    if found is None:
        return Found(note=f"The program printed no JSON value. {why}".rstrip())
    return Found(_clean(found.value))


class _Placed(NamedTuple):
    """A value with its position."""

    value: Any
    begin: int
    end: int


def _last_container(text: str) -> tuple[_Placed | None, str]:
    """Return the last object or array, and the reason if there is none."""
    last: _Span | None = None
    at = 0
    while match := _OPENING.search(text, at):
        found, at = _scan(text, match.start())
        last = found or last
    if last is None:
        return None, ""
    if last.height > DEEPEST:
        return None, _DEEP
    try:
        return _Placed(_decoder.decode(text[last.begin : last.end]), last.begin, last.end), ""
    except ValueError:  # a number of thousands of digits
        return None, "What looks like one holds a number that is too long."


class _Span(NamedTuple):
    """The place of an object or array in the text."""

    begin: int
    end: int
    height: int
    """Levels of objects and arrays in it, itself included."""


def _scan(text: str, begin: int) -> tuple[_Span | None, int]:
    """Read the object or array at `begin`, without recursion. Return it, and the position after it.

    If it is not JSON, return the last complete object or array within it, or None, and the position of the
    error. The search can continue there: all objects and arrays that are open at that position fail at the
    same position. So the time is linear in the length of the text.
    """
    opened = [begin]
    heights = [1]
    complete: dict[int, _Span] = {}
    """Depth of an open object or array -> the last complete object or array directly in it."""
    awaited = _FIRST[text[begin]]
    at = begin + 1
    while token := _TOKEN.match(text, at):
        kind = token.lastgroup or ""
        sign = token[kind] if kind in ("open", "close", "mark") else kind
        if sign not in awaited:
            break
        depth = len(opened)
        at = token.end()
        if kind == "open":
            opened.append(at - 1)
            heights.append(1)
            awaited = _FIRST[sign]
        elif kind == "close":
            span = _Span(opened.pop(), at, heights.pop())
            complete.pop(depth, None)
            if not opened:
                return span, at
            heights[-1] = max(heights[-1], span.height + 1)
            complete[depth - 1] = span
            awaited = _NEXT[text[opened[-1]]]
        elif sign == ",":
            awaited = _MEMBER[text[opened[-1]]]
        elif sign == ":":
            awaited = _VALUE
        elif awaited is _KEY or awaited is _FIRST["{"]:
            awaited = _COLON
        else:
            awaited = _NEXT[text[opened[-1]]]
    return complete[max(complete)] if complete else None, max(at, begin + 1)


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
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return value
