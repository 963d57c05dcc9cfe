"""Reads one date as people write it: ISO, day or month first, names of months, times and offsets."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

_LONG = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS = [name[:3] for name in _LONG]
_NAME = r"(?P<{}>" + "|".join([*_LONG, "sept", *_MONTHS]) + r")\.?"
_DATE = re.compile(
    r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,? )?"
    r"(?:(?P<y1>\d{4})(?P<s1>[-/.])(?P<m1>\d{1,2})(?P=s1)(?P<d1>\d{1,2})"
    r"|(?P<a>\d{1,2})(?P<s2>[-/]|\. ?)(?P<b>\d{1,2})(?P=s2)(?P<y2>\d{4}|\d\d)"
    rf"|(?P<d3>\d{{1,2}})(?:st|nd|rd|th|\.)?[ /-]?{_NAME.format('m3')},?[ /-]?(?P<y3>\d{{4}}|\d\d)"
    rf"|{_NAME.format('m4')} ?(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?(?:, ?| )(?P<y4>\d{{4}})"
    r"|(?P<y5>(?:19|20)\d\d)(?P<m5>\d\d)(?P<d5>\d\d))"
    r"(?:(?:T|,? |:)(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?)?)?"
    r" ?(?P<half>[ap]\.?m\.?)?"
    r" ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?",
    re.IGNORECASE,
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?", re.ASCII)
_MONTH = re.compile(
    r"(?P<y6>\d{4})[-/](?P<m6>\d\d?)|(?P<m8>\d\d?)[-/](?P<y8>\d{4})"
    rf"|{_NAME.format('m7')}[ -]?(?P<y7>\d{{4}})",
    re.IGNORECASE,
)
_DAY_FIRST, _MONTH_FIRST = "day first", "month first"


class Stamp(NamedTuple):
    """The date of a text, read with the day first and with the month first; None if impossible."""

    day_first: datetime | None
    month_first: datetime | None
    separator: str  # between day, month and year if their order is unknown, else ""
    zoned: bool  # the text has an offset; the times are in UTC
    timed: bool

    @property
    def order(self) -> str:
        """`day first` or `month first` if only one order is possible, else ""."""
        if not self.separator or (self.day_first is not None) == (self.month_first is not None):
            return ""
        return _DAY_FIRST if self.day_first is not None else _MONTH_FIRST

    @property
    def open(self) -> bool:
        """Whether both orders are possible and give different dates."""
        return None not in (self.day_first, self.month_first) and self.day_first != self.month_first

    def when(self, order: str) -> datetime:
        """Return the time in this order, or in the only possible order."""
        first, second = self.day_first, self.month_first
        if order == _MONTH_FIRST:
            first, second = second, first
        found = first if first is not None else second
        if found is None:  # never: a stamp has at least one time
            raise ValueError("a stamp without a time")
        return found


def month(text: str) -> datetime | None:
    """Return the first day of a month: 2024-03, 2024/3, Mar 2024, March 2024 or 03/2024."""
    match = _MONTH.fullmatch(text)
    if match is None:
        return None
    number = int(match["m6"] or match["m8"] or 0) or _month(match["m7"] or "")
    return _date(match["y6"] or match["y7"] or match["y8"], number, 1)


def stamp(text: str, *, compact: bool = False) -> Stamp | None:
    """Read one text, or return None if the text is not a date. `compact` also allows 20240305."""
    if _ISO.fullmatch(text):  # most dates, read faster
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            return None
        return Stamp(found, found, "", False, len(text) > len("2024-03-05"))
    match = _DATE.fullmatch(text)
    if match is None or (match["y5"] and not compact):
        return None
    clock = _clock(match)
    if clock is None:
        return None
    dates: list[datetime | None]
    if match["y2"]:
        first, second = int(match["a"]), int(match["b"])
        dates = [_date(match["y2"], second, first), _date(match["y2"], first, second)]
        if match["s2"].startswith(".") and dates[0] is not None:
            dates[1] = None  # with points the day comes first if possible
    else:
        only = next(_date(*part) for part in _parts(match) if part[0])
        dates = [only, only]
    try:
        times = [None if date is None else date + clock for date in dates]
    except OverflowError:  # the first hours of the year 1, or the last of 9999
        return None
    if times == [None, None]:
        return None
    separator = match["s2"] if match["y2"] and not match["s2"].startswith(".") else ""
    return Stamp(times[0], times[1], separator, match["zone"] is not None, match["hour"] is not None)


def _parts(match: re.Match[str]) -> list[tuple[str, int, int]]:
    numbers = [(match[f"y{n}"], int(match[f"m{n}"] or 0), int(match[f"d{n}"] or 0)) for n in (1, 5)]
    names = [(match[f"y{n}"], _month(match[f"m{n}"] or ""), int(match[f"d{n}"] or 0)) for n in (3, 4)]
    return numbers + names


def _month(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1 if name else 0


def _date(year: str, month: int, day: int) -> datetime | None:
    full = int(year) + (0 if len(year) == 4 else 2000 if int(year) < 69 else 1900)
    try:
        return datetime(full, month, day)
    except ValueError:
        return None


def _clock(match: re.Match[str]) -> timedelta | None:
    """Return the time of day minus the offset from UTC, or None for an impossible time."""
    if match["hour"] is None:
        return timedelta()
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    half = (match["half"] or "").lower()
    if match["minute"] is None and not half:
        return None
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half[0] == "p" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    zone = (match["zone"] or "").replace(":", "")
    offset = timedelta()
    if zone[:1] in ("+", "-"):
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:] or 0)) * (1 if zone[0] == "+" else -1)
    micro = int((match["part"] or "0").ljust(6, "0")[:6])
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micro) - offset
