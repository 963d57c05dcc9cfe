"""Reads a period as people write it, such as 2024-Q2, as its start and end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from tablereader import month, stamp

_FORMS = "write 2024, 2024-03, 2024-Q2, 2024-W05, 2024-03-05 or 2024-01-10 to 2024-02-20"
_SHAPES = re.compile(
    r"(?P<year>\d{4})(?:[-/ ]?Q(?P<quarter>[1-4])|[-/ ]?H(?P<half>[12])|[-/ ]?W(?P<week>\d\d?))?"
    r"|Q(?P<quarter2>[1-4])[-/ ]?(?P<year2>\d{4})",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s+(?:to|until|till|and|-|–)\s+|\s*(?:\.\.+|…|→)\s*|(?<=\d)/(?=\d{4}-)")
_DAY, _MOMENT = timedelta(days=1), timedelta(microseconds=1)

Period = str | int | date | Sequence[str | int | date]


def bounds(period: Period) -> tuple[datetime, datetime]:
    """Return the first moment of a period, and the first moment after the period.

    Raises:
        ValueError: the period is unreadable, or ends before its begin.
    """
    if isinstance(period, str):
        parts: Sequence[str | int | date] = _BETWEEN.split(
            re.sub(r"(?i)^(from|between) ", "", period.strip())
        )
    elif isinstance(period, int | date):
        parts = [period]
    else:
        parts = list(period)
    if not 1 <= len(parts) <= 2:
        raise ValueError(f"the period {period!r} cannot be read; {_FORMS}")
    start, end = _one(parts[0])[0], _one(parts[-1])[1]
    if end <= start:
        raise ValueError(f"the period {period!r} ends before it begins")
    return start, end


def _one(part: str | int | date) -> tuple[datetime, datetime]:
    if isinstance(part, datetime):
        day = part.replace(tzinfo=None)
        return day, day + (_MOMENT if day.time() != datetime.min.time() else _DAY)
    if isinstance(part, date):
        day = datetime(part.year, part.month, part.day)
        return day, day + _DAY
    text = str(part).strip()
    match = _SHAPES.fullmatch(text)
    try:
        if match:
            return _shape(match)
    except ValueError as error:
        raise ValueError(f"there is no period {text}: {error}") from None
    if first := month(text):
        return first, _months_on(first.year, first.month + 1)
    found = stamp(text)
    if found is None:
        raise ValueError(f"the period {text!r} cannot be read; {_FORMS}")
    if found.open:
        raise ValueError(f"the period {text!r} does not tell day from month; {_FORMS}")
    day = found.when("")
    return day, day + (_MOMENT if found.timed else _DAY)


def _shape(match: re.Match[str]) -> tuple[datetime, datetime]:
    year = int(match["year"] or match["year2"])
    if match["week"]:
        monday = date.fromisocalendar(year, int(match["week"]), 1)
        day = datetime(monday.year, monday.month, monday.day)
        return day, day + timedelta(days=7)
    if quarter := match["quarter"] or match["quarter2"]:
        return datetime(year, int(quarter) * 3 - 2, 1), _months_on(year, int(quarter) * 3 + 1)
    if half := match["half"]:
        return datetime(year, int(half) * 6 - 5, 1), _months_on(year, int(half) * 6 + 1)
    return datetime(year, 1, 1), _months_on(year, 13)


def _months_on(year: int, month: int) -> datetime:
    return datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
