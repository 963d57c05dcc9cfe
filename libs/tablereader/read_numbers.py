"""Reads one number as people write it: currency, unit, thousands, percent, decimal comma, brackets."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

_SIGNS = {
    **{sign: sign for sign in "$€£¥₹₽₩₺₫₪฿₴"},
    **{"US$": "$", "USD": "$", "EUR": "€", "EURO": "€", "GBP": "£", "JPY": "¥", "CNY": "CNY", "INR": "₹"},
    **{"RUB": "₽", "KRW": "₩", "TRY": "₺", "ILS": "₪", "THB": "฿", "UAH": "₴", "RS": "₹", "RS.": "₹"},
    **{"R$": "BRL", "A$": "AUD", "C$": "CAD", "ZŁ": "PLN", "KČ": "CZK", "KR": "kr", "KR.": "kr", "FT": "HUF"},
    **{code: code for code in ("CHF", "AUD", "CAD", "NZD", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF")},
    **{code: code for code in ("RON", "BRL", "MXN", "ZAR", "SGD", "HKD")},
}
_UNITS = {
    **{
        unit.lower(): unit
        for unit in ("kg", "mg", "oz", "km", "cm", "mm", "mi", "ft", "ml", "ms", "°C", "°F")
    },
    **{
        unit.lower(): unit
        for unit in ("kWh", "MWh", "kW", "kB", "MB", "GB", "TB", "km/h", "mph", "pcs", "items")
    },
    **{"lb": "lb", "lbs": "lb", "h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "units": "units"},
    **{"min": "min", "mins": "min", "minute": "min", "minutes": "min", "s": "s", "sec": "s", "secs": "s"},
    **{"second": "s", "seconds": "s", "day": "days", "days": "days", "week": "weeks", "weeks": "weeks"},
    **{"month": "months", "months": "months", "year": "years", "years": "years", "yrs": "years"},
    **{unit: unit for unit in "gtml"},
}
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_CURRENCY = "|".join(re.escape(sign) for sign in sorted(_SIGNS, key=len, reverse=True))
_WRITTEN = re.compile(
    rf"(?P<open>\()? ?(?P<sign>[+-])? ?(?P<before>{_CURRENCY})? ?(?P<sign2>[+-])?"
    r" ?(?P<body>[.,]?\d(?:[\d.,' ]*\d)?[.,]?)(?P<power>e[+-]?\d{1,3})?(?P<round>(?<=[.,])--?)?"
    rf" ?(?P<percent>%)? ?(?P<after>{_CURRENCY})? ?(?P<unit>{_UNIT})? ?(?P<sign3>[+-])? ?(?P<close>\))?",
    re.IGNORECASE,
)
_SPACED = re.compile(r"(\d{1,3}(?:([ '])\d{3})(?:\2\d{3})*)(?:([.,])(\d*))?")
_GROUPED = {  # by decimal mark; groups of two digits are Indian
    ".": re.compile(r"([1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3})(?:\.(\d*))?"),
    ",": re.compile(r"([1-9]\d{0,2}(?:\.\d{3})+)(?:,(\d*))?"),
}
_PLAIN = re.compile(r"(\d*)(?:([.,])(\d*))?")
_ALIKE = str.maketrans({"−": "-", "–": "-", "’": "'", "`": "'", "_": "'"})
EXACT_DIGITS = 15
_LONGEST = 300
"""Characters of the longest number. A value of more digits is no double, and longer ones cannot be shown."""


class Number(NamedTuple):
    """The number of a text: its value with a decimal point and with a decimal comma."""

    point: int | float
    comma: int | float
    mark: str  # the only possible decimal mark, "." or ",", or "" if the text does not decide
    sign: str  # of a currency, a unit such as kg, or %
    code: bool  # digits that a number would not keep: leading zeros, or more than 15 before the decimal mark


def number(text: str, *, attached: bool = False) -> Number | None:
    """Read one text, or return None if the text is not a number.

    `attached`: a unit of one letter may stand without a space, as in 5g.
    """
    if text.isascii() and text.isdigit() and (text[0] != "0" or text == "0") and len(text) <= EXACT_DIGITS:
        return Number(value := int(text), value, "", "", False)  # most numbers, read faster
    match = _WRITTEN.fullmatch(text.translate(_ALIKE)) if len(text) <= _LONGEST else None
    if match is None or bool(match["open"]) != bool(match["close"]):
        return None
    if len(match["unit"] or "") == 1 and match["unit"] in "GMTHS":
        return None  # 5 G is a network, 5 M are millions
    if not attached and len(match["unit"] or "") == 1 and match.string[match.start("unit") - 1] != " ":
        return None
    signs = [match[name] for name in ("sign", "sign2", "sign3") if match[name]]
    if len(signs) + bool(match["open"]) > 1:
        return None
    written = [match[name] for name in ("before", "after", "percent", "unit") if match[name]]
    if len(written) > 1:
        return None
    currency = _SIGNS.get(written[0].upper(), "") if written and not match["unit"] else ""
    unit = _UNITS[match["unit"].lower()] if match["unit"] else currency or match["percent"] or ""
    if match["power"] is not None:
        return _power(match, unit, signs)
    read = _body(match["body"], currency)
    if read is None or ("+" in signs and re.search(r"\d \d", match["body"])):  # a telephone number
        return None
    point, comma, mark = read
    bare = not unit and not signs and not match["open"] and match["body"].isdigit()
    code = bare and (
        len(match["body"]) > EXACT_DIGITS or (match["body"][0] == "0" and len(match["body"]) > 1)
    )
    if any(isinstance(value, float) and value >= 10.0**EXACT_DIGITS for value in (point, comma)):
        code = True  # 1234567890123456789.0 is an identifier that a program wrote as a number
    if "-" in signs or match["open"]:
        point, comma = -point, -comma
    return Number(point, comma, mark, unit, code)


def _power(match: re.Match[str], unit: str, signs: list[str]) -> Number | None:
    # 12E5 is a code more often than a number: a power of ten has a point, a comma or a sign.
    body = match["body"].replace(",", ".")
    if not re.fullmatch(r"\d*\.?\d*", body) or not ("." in body or match["power"][1] in "+-"):
        return None
    value = float(body + match["power"]) * (-1 if "-" in signs or match["open"] else 1)
    if not math.isfinite(value):
        return None
    return Number(value, value, "," if "," in match["body"] else "." if "." in body else "", unit, False)


def _body(body: str, currency: str) -> tuple[int | float, int | float, str] | None:
    if match := _SPACED.fullmatch(body):
        value = _value(match[1], match[4])
        return value, value, match[3] or "" if match[4] else ""
    for mark, shape in _GROUPED.items():
        if match := shape.fullmatch(body):
            value = _value(match[1], match[2])
            if match[2] or len(re.findall(r"[.,]", match[1])) > 1:
                return value, value, mark
            # One group of three, as in 1,234: thousands or a fraction. Prices have no three decimals; $ and £
            # are written with a decimal point.
            part = float(match[1].replace(",", "."))
            if currency and (mark == "." or currency not in "$£"):
                return value, value, ""
            return (value, part, "") if mark == "." else (part, value, "")
    match = _PLAIN.fullmatch(body)
    if match is None:
        return None
    value = _value(match[1], match[3])
    return value, value, match[2] or "" if match[3] else ""


def _value(digits: str, fraction: str | None) -> int | float:
    whole = re.sub(r"\D", "", digits) or "0"
    return float(f"{whole}.{fraction}") if fraction else int(whole)


class Reading(NamedTuple):
    """How the numbers of a column are written."""

    mark: str  # the decimal mark: "." or ","
    told: bool  # whether values of this or other columns decided the mark
    both: bool  # some values have a decimal point, others a decimal comma


def reading(numbers: Mapping[Number, int], others: str = "") -> Reading:
    """Decide between point and comma by the values and their counts.

    `others` is the mark of the other columns, which decides if these values do not.
    """
    votes: Counter[str] = Counter()
    for value, count in numbers.items():
        votes[value.mark] += count
    if votes["."] == votes[","]:
        return Reading(others or ".", bool(others), votes["."] > 0)
    return Reading("," if votes[","] > votes["."] else ".", True, votes["."] > 0 < votes[","])
