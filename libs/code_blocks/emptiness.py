"""Whether what a block printed is an empty result: no rows, an empty list, or nan where a figure should be.

Small models take that for the answer, though mostly a condition was written so that nothing meets it. Tables
in which some values are missing are not empty, nor are several results of which one is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["labelled", "results_of", "shows_nothing"]

_HEAD = re.compile(r"\S.*: [\d,]+ rows?, [\d,]+ columns?")
_ABOUT = re.compile(
    r"(?:date|true/false|text|empty|lists?|missing|could not be read, now missing|converted|stays text"
    r"|unclear|names|repeats|left out|short|spelled differently|perhaps misspelled|odd|totals): .*"
    r"|number: .* to .*"
)
_BESIDE = re.compile(r"(?:merge|latest|in_period|per_period|totals): .*|.*: counted as one: .*")
"""What the library `tables` says of a file, below its head, and of what it does: no results."""

_LABEL = re.compile(r"[^:=\[\](){}]*(?::(?: |$)|= ?)")
_FRAME = re.compile(r"(?:.*[:=] ?)?Empty DataFrame")
_FRAME_REST = re.compile(r"(?:Columns|Index): \[.*|\[0 rows x .*\]")
_SERIES = re.compile(r"(?:.*[:=] ?)?Series\(\[\], .*\)")
_FOOT = re.compile(r"(?:Name: .*, )?(?:Length: .*, )?dtype: \S+")
_NAN = frozenset(("nan", "NaN", "NaT", "<NA>", "np.float64(nan)"))
_EMPTY = frozenset(("[]", "{}", "()", "set()"))
_ZERO = frozenset(("0", "0.0", "0.00"))
_LONG = 10_000
"""Characters above which an output shows something."""


def shows_nothing(output: str) -> bool:
    """Whether all results in `output` are empty, zeros beside them (as in "rows: 0") left aside.

    So is a labelled nan at the end, whatever table was printed before it, unless another figure has a label.
    """
    lines = results_of(output) if len(output) <= _LONG else []
    kinds = [_kind(line) for line in lines]
    if not {"empty", "nan"} & set(kinds):
        return False
    if {"value", "table"}.isdisjoint(kinds):
        return True
    return kinds[-1] == "nan" and "value" not in kinds and bool(_LABEL.match(lines[-1]))


def labelled(lines: Sequence[str]) -> bool:
    """Whether each of these results has a label: none is a row of a table."""
    return all(_kind(line) in ("value", "zero") for line in lines)


def results_of(output: str) -> list[str]:
    """The lines that are results, an empty DataFrame as one: without what `load` says of files."""
    lines: list[str] = []
    about_file = False
    for line in filter(None, map(str.strip, output.splitlines())):
        said = about_file and _ABOUT.fullmatch(line) and _kind(line) == "value"
        about_file = bool(said or _HEAD.fullmatch(line))
        of_frame = lines and _FRAME.fullmatch(lines[-1]) and _FRAME_REST.fullmatch(line)
        if not (about_file or of_frame or _BESIDE.fullmatch(line)):
            lines.append(line)
    return lines


def _kind(line: str) -> str:
    """empty, nan, zero (or a label alone); value for any other with a label; table for what may be one's."""
    if _FRAME.fullmatch(line) or _SERIES.fullmatch(line):
        return "empty"
    label = _LABEL.match(line)
    words = set(line[label.end() :].split() if label else [line])
    if words <= _NAN | _EMPTY | _ZERO:
        return "nan" if words & _NAN else "empty" if words & _EMPTY else "zero"
    return "value" if label and not _FOOT.fullmatch(line) else "table"
