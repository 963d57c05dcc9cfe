"""`skills.tables`: how numbers, dates and periods are read, one by one; files are read in the container."""

from __future__ import annotations

import importlib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tables() -> Any:
    """The module that `name` says, of those that need no pandas."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield lambda name: importlib.import_module(f"skills.tables.{name}")


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("12", 12, 12),
        ("-5", -5, -5),
        ("5-", -5, -5),
        ("−5", -5, -5),
        ("+7", 7, 7),
        ("(1,234.50)", -1234.5, -1234.5),
        ("1,234", 1234, 1.234),
        ("1.234", 1.234, 1234),
        ("0,123", 0.123, 0.123),
        ("1234,567", 1234.567, 1234.567),
        ("1,234,567", 1234567, 1234567),
        ("1.234.567,8", 1234567.8, 1234567.8),
        ("1,23,456.78", 123456.78, 123456.78),
        ("1 234,5", 1234.5, 1234.5),
        ("1 234,567", 1234.567, 1234.567),
        ("1'234.50", 1234.5, 1234.5),
        ("1_000", 1000, 1000),
        (".5", 0.5, 0.5),
        ("5.", 5, 5),
        ("1.2e5", 120000, 120000),
        ("3E-2", 0.03, 0.03),
        ("$1,234.50", 1234.5, 1234.5),
        ("-$5", -5, -5),
        ("$-5", -5, -5),
        ("US$ 5", 5, 5),
        ("1.234 €", 1234, 1234),
        ("€ 1,234", 1234, 1234),
        ("$1.234", 1.234, 1234),
        ("R$ 1.234,56", 1234.56, 1234.56),
        ("CHF 1'200.-", 1200, 1200),
        ("12,-", 12, 12),
        ("12.50 EUR", 12.5, 12.5),
        ("12,5 %", 12.5, 12.5),
    ],
)
def test_a_number_is_read_as_it_is_meant(tables: Any, text: str, point: float, comma: float) -> None:
    read = tables("_numbers").number(text)
    assert (read.point, read.comma, read.code) == (point, comma, False)


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", "$", "abc", "1-2", "--5", "(5", "5)", "1,2,3", "1,234,56", "12 34", "12E5", "192.168.1.1"),
        *(
            "2024-01-05",
            "01.02.2024",
            "12:30",
            "1 kg",
            "-(5)",
            "$5€",
            "1..2",
            "0x10",
            "1,234.567,8",
            "1 234 56",
        ),
    ],
)
def test_what_is_no_number_is_none(tables: Any, text: str) -> None:
    assert tables("_numbers").number(text) is None


@pytest.mark.parametrize("text", ["007", "00", "0170123", "1234567890123456"])
def test_digits_that_are_a_code_are_told_from_a_quantity(tables: Any, text: str) -> None:
    assert tables("_numbers").number(text).code


@given(
    value=st.decimals(min_value=-(10**9), max_value=10**9, places=2),
    marks=st.sampled_from([(",", "."), (".", ","), (" ", ","), ("'", "."), ("", "."), ("", ","), (" ", ".")]),
    shape=st.sampled_from(["{}", "${}", "{} €", "EUR {}", "{} %", "{} kr", "£ {}"]),
)
def test_what_is_written_with_two_decimals_reads_back(
    tables: Any, value: Any, marks: Any, shape: str
) -> None:
    thousands, point = marks
    text = f"{abs(value):,.2f}".replace(".", "p").replace(",", thousands).replace("p", point)
    read = tables("_numbers").number(("-" if value < 0 else "") + shape.format(text))
    assert read.point == read.comma == float(value)
    assert read.mark == point


DAY = datetime(2024, 3, 5)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2024-03-05",
            "2024/3/5",
            "2024.03.05",
            "05.03.2024",
            "5. 3. 2024",
            "5.3.24",
            "5 Mar 2024",
            "Mar 5, 2024",
        ),
        *("5th March 2024", "march 5 2024", "05-Mar-24", "5/Mar/2024", "5. Mar 2024", "Tue, 5 Mar 2024"),
        *("Tuesday 2024-03-05", "2024-03-05 00:00", "2024-03-05T02:00+02:00", "2024-03-05T00:00:00.000Z"),
        *("05/Mar/2024:01:00:00 +0100", "5 Mar 2024 12 am"),
    ],
)
def test_a_date_is_the_same_in_every_form(tables: Any, text: str) -> None:
    assert tables("_dates").stamp(text).when("day first") == DAY
    assert tables("_dates").stamp(text).when("month first") == DAY


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "2024",
            "2024-03",
            "12:30",
            "31/04/2024",
            "2024-02-30",
            "13/13/2024",
            "1.2.3",
            "20240305",
            "2024-13-01",
        ),
        *(
            "2024-03-05 25:00",
            "2024-03-05 10",
            "2024-03-05 10:61",
            "may 2024",
            "5 Mar",
            "1-2-3",
            "2024-03-05 13:00 pm",
        ),
        *("10.0.0.1", "2024-03/05", "05/03-2024"),
    ],
)
def test_what_is_no_date_is_none(tables: Any, text: str) -> None:
    assert tables("_dates").stamp(text) is None


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("13/03/2024", "day first"),
        ("03/13/2024", "month first"),
        ("05/03/2024", ""),
        ("05/05/2024", ""),
        ("05.03.2024", ""),
    ],
)
def test_a_date_tells_its_order_where_it_can(tables: Any, text: str, order: str) -> None:
    assert tables("_dates").stamp(text).order == order
    assert tables("_dates").stamp(text).open == (text == "05/03/2024")


@given(
    when=st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2068, 12, 31)),
    form=st.sampled_from(
        [
            "%Y-%m-%d %H:%M:%S",
            "%d.%m.%Y %H:%M:%S",
            "%d/%m/%Y %H:%M:%S",
            "%d-%m-%y %H:%M:%S",
            "%d %b %Y %I:%M:%S %p",
        ]
    ),
)
def test_a_written_time_reads_back(tables: Any, when: datetime, form: str) -> None:
    assert tables("_dates").stamp(when.strftime(form)).when("day first") == when.replace(microsecond=0)


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("2024", "2024-01-01", "2025-01-01"),
        (2024, "2024-01-01", "2025-01-01"),
        ("2024-12", "2024-12-01", "2025-01-01"),
        ("2024-Q4", "2024-10-01", "2025-01-01"),
        ("Q1 2024", "2024-01-01", "2024-04-01"),
        ("2024-W01", "2024-01-01", "2024-01-08"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
        ("2024-01-10 to 2024-02-20", "2024-01-10", "2024-02-21"),
        ("2024-01 to 2024-03", "2024-01-01", "2024-04-01"),
        ("from 2024-01-10 until 2024-02-20", "2024-01-10", "2024-02-21"),
        ("2023 - 2024", "2023-01-01", "2025-01-01"),
        ("2024-01-10..2024-01-10", "2024-01-10", "2024-01-11"),
        (("2024-01-10", "2024-02-20"), "2024-01-10", "2024-02-21"),
        (datetime(2024, 1, 10).date(), "2024-01-10", "2024-01-11"),
        ("5 March 2024", "2024-03-05", "2024-03-06"),
    ],
)
def test_a_period_has_both_ends(tables: Any, period: Any, start: str, end: str) -> None:
    assert tables("_periods").bounds(period) == (datetime.fromisoformat(start), datetime.fromisoformat(end))


@pytest.mark.parametrize(
    ("period", "message"),
    [
        ("last month", "cannot be read; write 2024, 2024-03"),
        ("", "cannot be read"),
        ("2024-13", "no period 2024-13"),
        ("2024-W54", "no period 2024-W54"),
        ("05/03/2024", "does not tell day from month"),
        ("2024-03 to 2024-01", "ends before it begins"),
        ("2024 to 2025 to 2026", "cannot be read"),
    ],
)
def test_a_period_that_cannot_be_read_says_how_to_write_one(tables: Any, period: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tables("_periods").bounds(period)
