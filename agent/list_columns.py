"""What the values of a column are: their kinds, how they are written, their range. Runs in the sandbox.

Part of `list_data.py`, which is sent there as it is: standard library only.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_TEXT = 60
MAX_COLUMNS = 40
FAR = 10
"""How many times as large as any other a number is that is pointed out."""
FEW = 8
"""Different values up to which a text column's are all listed."""

GAPS = {"", "n/a", "na", "nan", "null", "none"}
MONEY = re.compile(r"[-+]?[€$£]?\s?[-+]?\d{1,3}(?:[., ']?\d{3})*(?:[.,]\d+)?\s?(?:[€$£%]|[A-Z]{3})?")
MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\\.?"
DAY = r"\d{1,2}(?:st|nd|rd|th|\.)?"
UNIT = "mg|g|kg|t|lb|oz|mm|cm|m|km|ft|mi|ml|l|ms|s|min|h|days?|weeks?|kWh|MWh|[kMGT]B"
OFFSET = re.compile(r"(Z|[-+]\d\d:?\d\d)\s*$")
KINDS = (
    ("dates", re.compile(r"\d{4}-\d\d-\d\d")),
    ("times", re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[-+]\d\d:?\d\d)?")),
    ("months", re.compile(r"\d{4}-(?:0\d|1[0-2])")),
    ("whole numbers", re.compile(r"[-+]?(?:0|[1-9]\d*)")),
    ("numbers", re.compile(r"[-+]?(?:\d+\.\d*|\.?\d+)(?:[eE][-+]?\d+)?")),
    ("dates written", re.compile(r"\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}(?: \d\d:\d\d(?::\d\d)?)?")),
    ("dates in words", re.compile(rf"{DAY}[ -]{MONTH},?[ -]\d{{4}}|{MONTH} {DAY},? \d{{4}}")),
    ("numbers written", MONEY),
    ("numbers with a unit", re.compile(rf"[-+]?\d[\d., ]*?\s?(?:{UNIT})")),
)


def plain(text: object, limit: int = MAX_TEXT) -> str:
    """A text on one line: names and values are chosen by whoever made the file."""
    shown = "".join(char if char.isprintable() else "?" for char in str(text))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def kind_of(value: str) -> str:
    """What a value that is not missing is written like."""
    if value[0] == "0" and value.isdecimal() and len(value) > 1:
        return "codes"  # read as a number, its zeros would be lost
    return next((name for name, pattern in KINDS if pattern.fullmatch(value)), "text")


def column(values: list[str]) -> str:
    """What the values of a column are, the commonest kind first."""
    kinds: dict[str, list[str]] = {}
    for value in values:
        if value.strip().lower() not in GAPS:
            kinds.setdefault(kind_of(value.strip()), []).append(value)
    if "codes" in kinds:
        kinds["codes"] += kinds.pop("whole numbers", [])
    if "numbers" in kinds:
        kinds["numbers"] += kinds.pop("whole numbers", [])
    if "text" in kinds and len(kinds["text"]) * 2 > len(values):
        kinds = {"text": [value for members in kinds.values() for value in members]}
    parts = []
    for kind, members in sorted(kinds.items(), key=lambda item: -len(item[1])):
        count = "" if len(kinds) == 1 else f"{len(members):,} "
        parts.append(count + described(kind, members))
    gaps = Counter(value for value in values if value.strip().lower() in GAPS)
    parts += [f"{count:,} {plain(value) if value.strip() else 'empty'}" for value, count in gaps.items()]
    return "; ".join(parts) or "no values"


def described(kind: str, values: list[str]) -> str:
    """Values of one kind: their range, or which there are."""
    if kind in ("whole numbers", "numbers"):
        numbers = [float(value) for value in values]
        return f"{kind} {min(numbers):.12g} to {max(numbers):.12g}{far(numbers)}"
    if kind in ("dates", "times", "months"):
        found = [OFFSET.search(value) for value in values] if kind == "times" else []
        zones = {each[1].replace(":", "").replace("Z", "+0000") for each in found if each}
        note = " (in different UTC offsets)" if len(zones) > 1 else ""
        return f"{kind} {min(values).strip()} to {max(values).strip()}{note}"
    if kind == "dates written":
        return f"dates written {date_order(values)}, such as {plain(values[0])}"
    if kind == "dates in words":
        return f"dates written in words, such as {plain(values[0])}"
    # 5g alone may be a network.
    if kind == "numbers with a unit" and any(re.search(r"\s\w+$|\d[A-Za-z]{2,}$", value) for value in values):
        units = Counter(re.sub(r"[^A-Za-z]", "", value) for value in values)
        listed = ", ".join(f"{unit} {count:,}" for unit, count in units.most_common())
        return f"numbers with a unit, such as {plain(repr(values[0]))}: {listed}"
    counts = Counter(values)
    examples = ", ".join(dict.fromkeys(plain(repr(value)) for value in list(counts)[:3]))
    if kind == "numbers written":
        return f"numbers written {examples}"
    if kind == "codes":
        return f"text of digits such as {examples}"
    alike = len({" ".join(value.lower().split()) for value in counts})
    note = f" ({alike} without regard to capitals and spaces)" if alike < len(counts) else ""
    if len(counts) <= FEW or (len(counts) <= 2 * FEW and note):
        listed = ", ".join(f"{plain(repr(value))} {count:,}" for value, count in counts.most_common())
        return f"text{note}: {listed}"
    return f"text, {len(counts):,} different{note}, such as {examples}"


def far(numbers: list[float]) -> str:
    """The largest, where it is far from all others: it may stand for something else, as -999 does."""
    counts = Counter(numbers)
    largest = sorted(counts, key=abs)[-2:]
    if len(counts) <= FAR or abs(largest[1]) <= FAR * abs(largest[0]) or not largest[0]:
        return ""
    times = f"{counts[largest[1]]:,} times" if counts[largest[1]] > 1 else "once"
    return f" ({largest[1]:.12g} {times}, far from all others)"


def date_order(values: list[str]) -> str:
    """Which part of a date comes first, as far as the values show."""
    parts = [[int(part) for part in re.findall(r"\d+", value)[:2]] for value in values]
    if max(first for first, _ in parts) > 31:
        return "year first"
    if max(first for first, _ in parts) > 12:
        return "day/month/year"
    if max(second for _, second in parts) > 12:
        return "month/day/year"
    return "day and month in unknown order"
