"""Find the last JSON value in the output of a program."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

__all__ = ["CUT", "DEEPEST", "NO_VALUE", "Found", "last_json", "too_deep"]

_BRACKET = re.compile(r"[\[{\]}]")
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
_PAIR = {"]": "[", "}": "{"}
_FIRST = {"[": _VALUE | {"]"}, "{": _KEY | {"}"}}
"""What may follow an opening bracket."""
_MEMBER = {"[": _VALUE, "{": _KEY}
"""What may follow a comma."""
_NEXT = {"[": frozenset({",", "]"}), "{": frozenset({",", "}"})}
"""What may follow a value."""
DEEPEST = 100
"""Most nested objects and arrays. Later steps refuse deeper values."""
CUT = re.compile(r"\n\[… [0-9,]+ characters left out …\]\n")
"""The line in the place of the middle of an output. See `libs.sandbox.host.requests.results`."""
NO_VALUE = "The output holds no JSON value."
_UNKNOWN = "Its output was cut, so its last JSON value is not known: print less, or write data into a file."
_DEEP = "What looks like JSON is nested too deeply."
_INTEGER_DIGITS = 20
"""Digits and sign of the longest integer that later steps take."""
_NUMBERS = (
    "NaN, infinities and numbers beyond 1.8e308 are null in the result: print them as text if they matter."
)
_TWICE = "Of a key that comes twice in an object, the result has the last value."
_HALVES = "Halves of surrogate pairs are U+FFFD in the result."
_ROUNDED = "Numbers with more digits than a double holds are rounded in the result."
_NOT_UTF8 = "U+FFFD in the result may stand for bytes that are not UTF-8."


@dataclass(frozen=True, slots=True)
class Found:
    """The value, or a note why there is none."""

    value: Any = None
    note: str = ""
    replaced: str = ""
    """What of the printed value the value cannot hold, or has replaced."""


def last_json(text: str, *, cut: bool = False) -> Found:
    """Return the last value in `text`.

    An outermost object or array counts anywhere. A string, number, true, false or null counts if it is alone
    on its line. A part of an object or array that is not JSON, such as the repr of a dict, does not count:
    see `_Search`. NaN and infinities become null, halves of surrogate pairs become U+FFFD, and numbers become
    doubles unless they are integers of at most 64 bits; `replaced` says what was lost.

    Args:
        cut: whether a line may stand in the place of the middle of the text. Then a value counts if it stands
            on whole lines after that line, and no closing bracket follows, so the value is outermost.
    """
    marks = list(CUT.finditer(text)) if cut else []
    if marks:
        text = text[marks[-1].end() :].partition("\n")[2]
    search = _Search(text)
    found = search.last()
    line = _last_line(text, search)
    # A line inside an object is part of the object; an object inside a string is part of the string.
    if line and (found is None or line.begin >= found.end or line.begin < found.begin < line.end):
        found = line
    if marks and (found is None or _CLOSING.search(text, found.end)):
        return Found(note=_UNKNOWN)
    if found is None:
        return Found(note=NO_VALUE)
    if found.height > DEEPEST:
        return Found(note=f"{NO_VALUE} {_DEEP}")
    return _read(text[found.begin : found.end])


def _read(text: str) -> Found:
    """Read JSON. Replace halves of surrogate pairs, NaN, and numbers that are too large."""
    unknown = twice = rounded = False

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        made = dict(pairs)
        twice = twice or len(made) < len(pairs)
        return made

    def number(text: str) -> float | None:
        nonlocal unknown, rounded
        value = float(text)
        if math.isfinite(value):
            rounded = rounded or (repr(value) != text and _is_rounded(text, value))
            return value
        unknown = True
        return None

    def integer(text: str) -> int | float | None:
        # The serializer of checkpoints takes integers of 64 bits.
        if len(text) <= _INTEGER_DIGITS and -(2**63) <= (value := int(text)) < 2**64:
            return value
        return number(text)

    value = json.JSONDecoder(
        parse_constant=number, parse_float=number, parse_int=integer, object_pairs_hook=once
    ).decode(text)
    whole = json.dumps(value, ensure_ascii=False)
    try:
        whole.encode()
        halves = False
    except UnicodeEncodeError:
        read = whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        value = json.loads(read, object_pairs_hook=once)
        halves = True
    said = {
        _NUMBERS: unknown,
        _ROUNDED: rounded,
        _TWICE: twice,
        _HALVES: halves,
        _NOT_UTF8: "\ufffd" in text,
    }
    return Found(value, replaced=" ".join(note for note, applies in said.items() if applies))


def _is_rounded(text: str, value: float) -> bool:
    """Return whether `text` is another number than `value`, which programs print with 17 digits at most."""
    try:
        exact = Decimal(text)
    except InvalidOperation:  # an exponent of many digits
        return True
    return exact not in map(Decimal, (repr(value), f"{value:.17g}"))


class _Span(NamedTuple):
    """The place of a value in the text."""

    begin: int
    end: int
    height: int
    """Levels of objects and arrays in it, itself included."""


class _Search:
    """Finds the objects and arrays in a text, in linear time.

    A value is a part, and does not count, in two places: in an object or array that is JSON up to an error
    or to the end of the text; and between a bracket that begins no JSON and the bracket that closes it,
    unless the value fills whole lines from their first character. A bracket of another kind, such as in
    `[0, 5)` or in a colour code, is closed by nothing and makes nothing a part.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[tuple[str, int]] = []
        """Brackets that begin no JSON and are not closed, with their places."""
        self._count = {"[": 0, "{": 0}
        self._values: list[_Span] = []
        self._cut: list[tuple[int, int]] = []
        """Begin and end of each object or array that is JSON up to an error. None overlaps another."""
        self._closed: list[tuple[int, int]] = []
        """Begin and end of each pair of brackets that is not JSON. None overlaps another."""
        at = 0
        while match := _BRACKET.search(text, at):
            if match[0] in _FIRST:
                at = self._begins(match.start())
            else:
                self._closes(_PAIR[match[0]], match.start())
                at = match.end()

    def last(self) -> _Span | None:
        """Return the last object or array that counts."""
        return self._values[-1] if self._values else None

    def is_part(self, span: _Span) -> bool:
        """Return whether a value is a part of what is not JSON."""
        return _is_in(self._cut, span.begin) or (
            _is_in(self._closed, span.begin) and not self._is_alone(span)
        )

    def _begins(self, begin: int) -> int:
        """Take the object or array at a place. Return where the search goes on."""
        span, opened, end = _scan(self._text, begin)
        if span:
            self._values.append(span)
            return end
        self._cut.append((begin, end))
        for place in opened:
            self._open.append((self._text[place], place))
            self._count[self._text[place]] += 1
        return end

    def _closes(self, bracket: str, end: int) -> None:
        """Take the closing bracket of a kind."""
        if not self._count[bracket]:
            return
        kind, begin = "", 0
        while kind != bracket:
            kind, begin = self._open.pop()
            self._count[kind] -= 1
        while self._values and self._values[-1].begin > begin and not self._is_alone(self._values[-1]):
            self._values.pop()
        while self._closed and self._closed[-1][0] > begin:
            self._closed.pop()
        self._closed.append((begin, end))

    def _is_alone(self, span: _Span) -> bool:
        """Return whether a value fills whole lines from their first character."""
        text = self._text
        before, after = text[max(0, span.begin - 1) : span.begin], text[span.end : span.end + 2]
        return before in ("", "\n") and (after[:1] in ("", "\n") or after == "\r\n")


def _is_in(spans: list[tuple[int, int]], place: int) -> bool:
    """Return whether a place is inside one of the sorted spans."""
    index = bisect_left(spans, (place,)) - 1
    return index >= 0 and place < spans[index][1]


def _scan(text: str, begin: int) -> tuple[_Span | None, list[int], int]:
    """Read the object or array at `begin`, without recursion.

    Returns:
        The object or array; None if it is not JSON.
        The places of the brackets that are open at the error.
        The place after it, or the place of the error. The search can go on there: all objects and arrays
        that are open at the error fail at the same place.
    """
    opened = [begin]
    heights = [1]
    awaited = _FIRST[text[begin]]
    at = begin + 1
    while token := _TOKEN.match(text, at):
        kind = token.lastgroup or ""
        sign = token[kind] if kind in ("open", "close", "mark") else kind
        if sign not in awaited:
            break
        at = token.end()
        if kind == "open":
            opened.append(at - 1)
            heights.append(1)
            awaited = _FIRST[sign]
        elif kind == "close":
            span = _Span(opened.pop(), at, heights.pop())
            if not opened:
                return span, opened, at
            heights[-1] = max(heights[-1], span.height + 1)
            awaited = _NEXT[text[opened[-1]]]
        elif sign == ",":
            awaited = _MEMBER[text[opened[-1]]]
        elif sign == ":":
            awaited = _VALUE
        elif awaited is _KEY or awaited is _FIRST["{"]:
            awaited = _COLON
        else:
            awaited = _NEXT[text[opened[-1]]]
    return None, opened, max(at, begin + 1)


def _last_line(text: str, search: _Search) -> _Span | None:
    """Return the last line that is a string, number, NaN, infinity, true, false or null."""
    end = len(text)
    while end >= 0:
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end]
        stripped = line.strip()
        if stripped and stripped[0] in '"-0123456789tfnNI':
            first = begin + line.index(stripped)
            span = _Span(first, first + len(stripped), 0)
            if _TOKEN.fullmatch(stripped) and not search.is_part(span):
                return span
        end = begin - 1
    return None


def too_deep(value: Any) -> bool:
    """Return whether `value` has more than DEEPEST nested objects and arrays."""
    level = [value]
    for _ in range(DEEPEST + 1):
        # One object may be in many places.
        nested = {id(each): each for each in level if isinstance(each, dict | list | tuple)}.values()
        if not nested:
            return False
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    return True
