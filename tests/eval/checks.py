"""Checks of answers and files: any wording and number format is accepted, values must be right."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from datetime import date

from tests.eval.task import Check, Outcome, Unsolved

__all__ = ["all_of", "csv_file", "figure", "first_named", "month", "numbers_in", "on_day", "prints"]

MOST_NUMBERS = 25
"""More numbers in an answer are a listing, where one may be right by chance."""

_NUMBER = re.compile(
    r"(?<![\w.,])[-−+]?(?:\d{1,3}(?:(?P<mark>[,.'’_ \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*(?!\d)(?:[.,]\d+)?"
    r"|\d+(?:[.,]\d+)?)(?:[eE][+-]?\d+)?"
)
_NO_AMOUNT = re.compile(
    r"/(?:data|results|scripts|workspace)/\S*|\b\d{4}-\d\d(?:-\d\d)?\b|\b\d\d?:\d\d(?::\d\d)?\b"
)
_SENTENCE = re.compile(r"\n|(?<=[.!?])\s+")
_OPPOSITE = re.compile(r"\b(?:least|lowest|fewest|smallest|lower|worst|second|only|not)\b", re.IGNORECASE)
"""A last sentence with one of these words may not be about the answer."""
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def all_of(*checks: Check) -> Check:
    """Apply all checks."""

    def check(outcome: Outcome) -> None:
        for each in checks:
            each(outcome)

    return check


def numbers_in(text: str) -> list[float]:
    """Return the numbers in a text (1234.5, 1,234.5, 1.234,5, 1 234.5, 1e3) except dates, times, paths."""
    text = _NO_AMOUNT.sub(" ", text.replace("{,}", ","))
    return [reading for found in _NUMBER.finditer(text) for reading in _readings(found[0], found["mark"])]


def _readings(written: str, mark: str | None) -> list[float]:
    plain = written.replace("−", "-")
    if mark in ("'", "’", "_", ",") or (mark == "." and (plain.count(".") > 1 or "," in plain)):
        plain = plain.replace(mark, "")
    elif mark in (" ", "\u00a0", "\u202f"):
        # "12 345" may also be two numbers.
        whole = float(plain.replace(mark, "").replace(",", "."))
        return [whole, *(number for part in plain.split(mark) for number in numbers_in(part))]
    return [float(plain.replace(",", "."))]


def figure(value: float, *, within: float | None = None) -> Check:
    """The answer has this number: exactly if it is whole, otherwise to the second decimal."""
    allowed = within if within is not None else (0 if value == int(value) else 0.0051)

    def check(outcome: Outcome) -> None:
        found = numbers_in(outcome.answer)
        if len(found) > MOST_NUMBERS:
            raise Unsolved(f"a listing of {len(found)} numbers is not an answer")
        if not any(abs(each - value) <= allowed for each in found):
            raise Unsolved(f"{value:,} is not in the answer")

    return check


def first_named(right: str, *rivals: str) -> Check:
    """The answer names `right` before any rival, or names only `right` in the last sentence that names any.

    The names are regular expressions for whole words in any case.
    """
    one_of = {name: re.compile(rf"(?<![\w-])(?:{name})(?![\w])", re.IGNORECASE) for name in (right, *rivals)}

    def places(text: str) -> list[str]:
        found = {name: match.start() for name, words in one_of.items() if (match := words.search(text))}
        return sorted(found, key=lambda name: found[name])

    def check(outcome: Outcome) -> None:
        order = places(outcome.answer)
        if order[:1] == [right]:
            return
        last = next((each for each in reversed(_SENTENCE.split(outcome.answer)) if places(each)), "")
        if places(last) != [right] or _OPPOSITE.search(last):
            raise Unsolved(f"the answer is not {right}" + (f" but {order[0]}" if order else ""))

    return check


def month(year: int, number: int) -> str:
    """A pattern for a month: 2024-03, 03/2024, March 2024, March, Mar 2024."""
    name = _MONTHS[number - 1]
    # Case matters, because "may" is also a word.
    return rf"{year}-{number:02}|0?{number}/{year}|(?-i:{name})(?: {year})?|{name[:3]}\.? {year}"


def on_day(day: str) -> Check:
    """The first day that the answer names is this one."""
    wanted = date.fromisoformat(day)
    names = "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
    forms = re.compile(
        r"(?P<iso>\d{4}-\d\d-\d\d)"
        rf"|(?P<d1>\d\d?)(?:st|nd|rd|th|\.)?(?: of)? (?P<m1>{names}),? (?P<y1>\d{{4}})"
        rf"|(?P<m2>{names})\.? (?P<d2>\d\d?)(?:st|nd|rd|th)?,? (?P<y2>\d{{4}})",
        re.IGNORECASE,
    )

    def check(outcome: Outcome) -> None:
        found = forms.search(outcome.answer)
        if not found:
            raise Unsolved("no date is named")
        if found["iso"]:
            same = found["iso"] == day
        else:
            name, in_month, year = (found[f"{part}1"] or found[f"{part}2"] for part in "mdy")
            short = [each[:3].lower() for each in _MONTHS].index(name[:3].lower()) + 1
            same = (int(year), short, int(in_month)) == (wanted.year, wanted.month, wanted.day)
        if not same:
            raise Unsolved(f"the answer is {found[0]}, not {day}")

    return check


def csv_file(name: str, expected: str) -> Check:
    """/results/<name> is this table. Columns may have any order; numbers are compared by value."""

    def check(outcome: Outcome) -> None:
        made, wanted = _table(outcome.machine.file(name).decode("utf-8-sig", "replace")), _table(expected)
        if made[0] != wanted[0]:
            raise Unsolved(f"{name} has the columns {', '.join(made[0])}, not {', '.join(wanted[0])}")
        rows, right = made[1], wanted[1]
        if len(rows) != len(right):
            raise Unsolved(f"{name} has {len(rows)} rows, not {len(right)}")
        for row, other in zip(rows, right, strict=True):
            if not all(_same_cell(*pair) for pair in zip(row, other, strict=True)):
                raise Unsolved(f"{name} has the row {', '.join(row)} where {', '.join(other)} should be")

    return check


def _table(text: str) -> tuple[list[str], list[list[str]]]:
    """Return columns sorted by name, and the rows in that order."""
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    if not lines or any(len(line) != len(lines[0]) for line in lines):
        raise Unsolved("the file is not a table with commas")
    head = [name.strip().lower() for name in lines[0]]
    order = sorted(range(len(head)), key=lambda index: head[index])
    return [head[index] for index in order], [[line[index].strip() for index in order] for line in lines[1:]]


def _same_cell(one: str, other: str) -> bool:
    try:
        return abs(float(one) - float(other)) <= 0.0051
    except ValueError:
        return one == other


def prints(name: str, cases: Sequence[tuple[Sequence[str], str, str]]) -> Check:
    """The program /results/<name> prints the right output for each arguments and input."""

    def check(outcome: Outcome) -> None:
        outcome.machine.file(name)
        for arguments, stdin, right in cases:
            printed = outcome.machine.program(name, *arguments, stdin=stdin)
            if printed.split() != right.split():
                raise Unsolved(
                    f"{name} {' '.join(arguments)} prints {printed.strip()[:200]!r}, not {right!r}"
                )

    return check
