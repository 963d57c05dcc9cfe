"""Whether the figures of an answer were printed: a small model now and then says one that it never saw."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["unfounded"]

_FIGURE = re.compile(r"(?<![\w.,/-])(?:\d{4}-\d\d-\d\d|\d[\d,]*(?:\.\d+)?)(?![\w/]|-\d|\.\d)")
_IN_TEXT = re.compile(r"\d+(?:[.,']\d+)*")
_PATH = re.compile(r"/(?:data|results|scripts|workspace|tmp)/\S*|`[^`\n]*`")
_ITEM = re.compile(r"^\s*\d+[.)]\s", re.MULTILINE)
_FEW = 3
"""Digits below which a number may have been counted or read off by eye."""


def unfounded(answer: str, seen: Sequence[str]) -> list[str]:
    """The dates and longer numbers of an answer that are in none of the texts that its writer has seen.

    One that is rounded from a number there is, the same with thousands marked, or a hundredth of one or a
    hundred times it (a share in percent), is founded.
    """
    text = "\n".join(seen)
    numbers = {_value(found) for found in _IN_TEXT.findall(text)} - {None}
    answer = _ITEM.sub(" ", _PATH.sub(" ", answer))
    return [
        found
        for found in dict.fromkeys(_FIGURE.findall(answer))
        if found not in text and not _founded(found, numbers)
    ]


def _founded(figure: str, numbers: set[float | None]) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", figure):
        return False
    if sum(char.isdigit() for char in figure) < _FEW:
        return True
    value = float(figure.replace(",", ""))
    decimals = len(figure.partition(".")[2])
    half = 0.5 * 10.0**-decimals + 1e-9
    return any(
        abs(value - number * factor) <= half
        for number in numbers
        if number is not None
        for factor in (1, 100, 0.01)
    )


def _value(written: str) -> float | None:
    plain = written.replace(",", "").replace("'", "")
    try:
        return float(plain)
    except ValueError:
        return None
