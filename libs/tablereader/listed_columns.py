"""Describes the values of a column in one line: kinds, form and range."""

from __future__ import annotations

import re
from collections import Counter

from .read_dates import month, stamp
from .read_numbers import Number, number
from .table_cells import MISSING
from .units_of_measure import alike

MAX_TEXT = 60
MAX_COLUMNS = 40
FAR = 10
"""A number this many times as large as all others is pointed out."""
FEW = 8
"""Limit of different values that are all listed."""

_MONTH = re.compile(r"\d{4}-\d\d")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ].*")
_DIGIT = re.compile(r"\d")
_WORD = re.compile("[A-Za-z]{3}")
_WHOLE = re.compile(r"[-+]?\d+")
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
"""Numbers that `float` can read."""
_OFFSET = re.compile(r"(Z|[-+]\d\d:?\d\d)\s*$")


def plain(text: object, limit: int = MAX_TEXT) -> str:
    """Return the text on one printable line, because the file may contain anything."""
    shown = "".join(char if char.isprintable() else "?" for char in str(text))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def kind_of(value: str, found: Number | None) -> str:
    """Return the kind of a value that is not missing; `found` is the value as a number."""
    if found:
        if found.code:
            return "codes"  # as a number the value would lose its zeros
        if _PLAIN.fullmatch(value):
            return "whole numbers" if _WHOLE.fullmatch(value) else "numbers"
        return "numbers with a unit" if alike([found.sign]) else "numbers written"
    if _MONTH.fullmatch(value) and month(value):
        return "months"
    if stamp(value) is None:
        return "text"
    if _DAY.fullmatch(value):
        return "dates"
    if _TIME.fullmatch(value):
        return "times"
    return "dates in words" if _WORD.search(value) else "dates written"


def column(values: list[str]) -> str:
    """Return a description of the values of a column, the most common kind first."""
    counts = Counter(values)
    digits = {value: value.strip() for value in counts if _DIGIT.search(value)}
    numbers = {value: number(text) for value, text in digits.items()}
    if any(found and found.sign and alike([found.sign]) for found in numbers.values()):
        # 5g alone may be a network; beside 5 kg the value is a weight.
        numbers |= {value: number(digits[value], attached=True) for value in digits if numbers[value] is None}
    kinds: dict[str, Counter[str]] = {}
    gaps: Counter[str] = Counter()
    for value, count in counts.items():
        text = value.strip()
        if text.lower() in MISSING:
            gaps[text] += count
        else:
            kind = kind_of(text, numbers[value]) if value in digits else "text"
            kinds.setdefault(kind, Counter())[value] += count
    for whole in ("codes", "numbers"):
        if whole in kinds:
            kinds[whole] += kinds.pop("whole numbers", Counter())
    if "text" in kinds and kinds["text"].total() * 2 > len(values):
        kinds = {"text": Counter({value: counts[value] for value in counts if value.strip() not in gaps})}
    parts = []
    for kind, members in sorted(kinds.items(), key=lambda item: -item[1].total()):
        several = "" if len(kinds) == 1 else f"{members.total():,} "
        parts.append(several + described(kind, members, numbers))
    parts += [f"{count:,} {plain(value) or 'empty'}" for value, count in gaps.items()]
    return "; ".join(parts) or "no values"


def described(kind: str, values: Counter[str], read: dict[str, Number | None]) -> str:
    """Return the range or the list of the values of one kind."""
    first = next(iter(values))
    numbers = [(found, count) for value, count in values.items() if (found := read.get(value))]
    if kind in ("whole numbers", "numbers"):
        points = Counter[float]()
        for found, count in numbers:
            points[float(found.point)] += count
        return f"{kind} {min(points):.12g} to {max(points):.12g}{far(points)}"
    if kind in ("dates", "times", "months"):
        zones = {
            each[1].replace(":", "").replace("Z", "+0000") for each in map(_OFFSET.search, values) if each
        }
        note = " (in different UTC offsets)" if kind == "times" and len(zones) > 1 else ""
        return f"{kind} {min(values).strip()} to {max(values).strip()}{note}"
    if kind == "dates written":
        return f"dates written {date_order(values)}, such as {plain(first)}"
    if kind == "dates in words":
        return f"dates written in words, such as {plain(first)}"
    if kind == "numbers with a unit":
        units: Counter[str] = Counter()
        for found, count in numbers:
            units[found.sign] += count
        listed = ", ".join(f"{unit} {count:,}" for unit, count in units.most_common())
        return f"numbers with a unit, such as {plain(repr(first))}: {listed}"
    examples = ", ".join(dict.fromkeys(plain(repr(value)) for value in list(values)[:3]))
    if kind == "numbers written":
        return f"numbers written {examples}"
    if kind == "codes":
        return f"text of digits such as {examples}"
    same = len({" ".join(value.lower().split()) for value in values})
    note = f" ({same} without regard to capitals and spaces)" if same < len(values) else ""
    if len(values) <= FEW or (len(values) <= 2 * FEW and note):
        listed = ", ".join(f"{plain(repr(value))} {count:,}" for value, count in values.most_common())
        return f"text{note}: {listed}"
    return f"text, {len(values):,} different{note}, such as {examples}"


def far(counts: Counter[float]) -> str:
    """Return a note on a largest number far from all others, which may be a code such as -999."""
    largest = sorted(counts, key=abs)[-2:]
    if len(counts) <= FAR or abs(largest[1]) <= FAR * abs(largest[0]) or not largest[0]:
        return ""
    times = f"{counts[largest[1]]:,} times" if counts[largest[1]] > 1 else "once"
    return f" ({largest[1]:.12g} {times}, far from all others)"


def date_order(values: Counter[str]) -> str:
    """Return the order of the parts of these dates, if the values show the order."""
    found = [each for value in values if (each := stamp(value.strip()))]
    orders = {each.order for each in found if each.order}
    if len(orders) == 1:
        return {"day first": "day/month/year", "month first": "month/day/year"}[orders.pop()]
    if any(each.separator for each in found):
        return "day and month in unknown order"
    return "year first" if re.match(r"\d{4}", next(iter(values)).strip()) else "day/month/year"
