"""Cells of a file as `skills.tables` reads them: numbers, dates, text and missing values."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PROPERTY = settings(
    max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def day(text: str) -> datetime:
    return datetime.fromisoformat(text)


def one_column(values: list[str], name: str = "v") -> str:
    return "\n".join([name, *(f'"{value}"' for value in values)])


def one_row(values: list[str]) -> str:
    """A file with a column for each value."""
    names = ";".join(f"c{place}" for place in range(len(values)))
    return names + "\n" + ";".join(f'"{value}"' for value in values)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        (["12", "-5", "5-", "−5", "+7", "(3)"], [12, -5, -5, -5, 7, -3]),
        (["1,234", "(1,234.50)", "1,234,567", "1'234.50", "1,23,456.78"],
         [1234, -1234.5, 1234567, 1234.5, 123456.78]),
        (["1.234", "1234,567", "1.234.567,8", "1 234,5", "0,5"], [1234, 1234.567, 1234567.8, 1234.5, 0.5]),
        ([".5", "5.", "1.2e5", "3E-2", "1_000"], [0.5, 5, 120000, 0.03, 1000]),
        (["$1,234.50", "-$5", "$-5", "USD 7", "6"], [1234.5, -5, -5, 7, 6]),
        (["1.234 €", "€ 1.234,56", "12,50 EUR"], [1234, 1234.56, 12.5]),
        (["CHF 1'200.-", "CHF 12.50"], [1200, 12.5]),
        (["12,5 %", "7 %"], [12.5, 7]),
        # A lone comma before three digits: decided by the others.
        (["1,234", "0,5"], [1.234, 0.5]),
        (["1,234", "1.5"], [1234, 1.5]),
    ],
)  # fmt: skip
def test_numbers(read: Any, written: list[str], values: list[float]) -> None:
    found = read(one_column(written))
    assert found.columns["v"] == values
    assert found.kinds["v"] == "number"


@given(
    values=st.lists(st.decimals(-(10**7), 10**7, places=2), min_size=1, max_size=20),
    marks=st.sampled_from([(",", "."), (".", ","), (" ", ","), ("'", "."), ("", "."), ("", ",")]),
    shape=st.sampled_from(["{}", "${}", "{} €", "CHF {}", "{}%"]),
    separator=st.sampled_from(",;\t|"),
)
@PROPERTY
def test_written_numbers_read_back(
    read: Any, values: list[Any], marks: tuple[str, str], shape: str, separator: str
) -> None:
    def written(value: Any) -> str:
        text = f"{abs(value):,.2f}".translate(str.maketrans({",": marks[0], ".": marks[1]}))
        return f'"{"-" * (value < 0)}{shape.format(text)}"'

    lines = [f"row{separator}value", *(f"r{place}{separator}{written(v)}" for place, v in enumerate(values))]
    assert read("\n".join(lines)).columns["value"] == [float(value) for value in values]


def test_other_values_stay_text(read: Any) -> None:
    values = [
        *("abc", "1-2", "--5", "(5", "1,2,3", "1,234,56", "12 34", "12E5", "10.0.0.1", "$5€"),
        *("1..2", "0x10"),
        *("1,234.567,8", "12A", "yes", "14:05", "2024-03", "1.2.3", "+49 170 123 456", "1 bottle"),
        *("31/04/2024", "2024-02-30", "13/13/2024", "2024-03-05 25:00", "2024-03-05 10:61", "may 2024"),
        *("5 Mar", "2024-03-05 13:00 pm", "2024-03/05", "0001-01-01T00:00+02:00"),
        *("007", "1234567890123456", "1234567890123456789.0", "-1234567890123456.5"),  # codes
    ]  # fmt: skip
    found = read(one_row(values))
    assert [cells for (cells,) in found.columns.values()] == values
    assert set(found.kinds.values()) == {"text"}


def test_date_formats(read: Any) -> None:
    found = read(
        one_column(
            [
                *("2024-03-05", "2024/3/5", "2024.03.05", "05.03.2024", "5. 3. 2024", "5.3.24", "5 Mar 2024"),
                *("Mar 5, 2024", "5th March 2024", "05-Mar-24", "5/Mar/2024", "Tue, 5 Mar 2024"),
                *("2024-03-05 00:00", "2024-03-05T02:00+02:00", "2024-03-05T00:00:00.000Z"),
                *("05/Mar/2024:01:00:00 +0100", "5 Mar 2024 12 am"),
            ]
        )
    )
    assert set(found.columns["v"]) == {day("2024-03-05")}
    assert "unclear: v has 2 times without offset, taken as UTC" in found.lines


@given(
    days=st.lists(st.dates(date(1990, 1, 1), date(2060, 1, 1)), min_size=1, max_size=20),
    order=st.sampled_from(["%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"]),
)
@PROPERTY
def test_one_clear_date_decides_the_order_of_its_column(read: Any, days: list[Any], order: str) -> None:
    days.append(date(2024, 7, 31))
    content = "\n".join(["day", *(each.strftime(order) for each in days)])
    assert read(content).columns["day"] == [datetime(each.year, each.month, each.day) for each in days]


@pytest.mark.parametrize(
    ("content", "days", "unclear"),
    [
        ("d,n\n01/02/2024,1\n03/04/2024,2\n", ["2024-02-01", "2024-04-03"],
         "d has 2 dates such as '01/02/2024' that may have day or month first, taken as day first"),
        ("d,shipped\n01/02/2024,01/25/2024\n03/04/2024,03/05/2024\n", ["2024-01-02", "2024-03-04"], ""),
        ("d\n13/01/2024\n14/01/2024\n01/15/2024\n02/03/2024\n",
         ["2024-01-13", "2024-01-14", "2024-01-15", "2024-03-02"],
         "d has 1 date such as '02/03/2024' that may have day or month first, taken as day first"),
    ],
)  # fmt: skip
def test_order_of_day_and_month(read: Any, content: str, days: list[str], unclear: str) -> None:
    found = read(content)
    assert found.columns["d"] == [day(text) for text in days]
    said = [line for line in found.lines if line.startswith("unclear: ")]
    assert said == ([f"unclear: {unclear}"] if unclear else [])


def test_missing_values(read: Any) -> None:
    texts = ["", "N/A", "null", "NaN", "None", "#N/A", " "]
    found = read("k,n,t\n" + "".join(f"a,{text},{text}\n" for text in texts) + "a,2,x\n")
    assert (found.columns["n"], found.columns["t"]) == ([None] * 7 + [2], [None] * 7 + ["x"])
    found = read("n,status\n1,unknown\nunknown,pending\n?,paid\n2,-\n")
    assert found.columns == {"n": [1, None, None, 2], "status": ["unknown", "pending", "paid", "-"]}
    assert "missing: n 2 (unknown 1x, ? 1x)" in found.lines
    assert read("n,ok\n1,TRUE\n2,false\n3,\n4,True\n").columns["ok"] == [True, False, None, True]


def test_unreadable_values_become_missing_and_are_listed(read: Any) -> None:
    found = read("n,d\n" + "".join(f"{n},2024-01-{n:02}\n" for n in range(1, 20)) + "abc,2024-02-30\n")
    assert found.columns["n"] == [*range(1, 20), None]
    assert found.columns["d"][-1] is None
    assert "missing: n 1 (unreadable 1x); d 1 (unreadable 1x)" in found.lines
    assert "could not be read, now missing: n 'abc'; d '2024-02-30'" in found.lines


def test_column_with_many_unreadable_values_stays_text(read: Any) -> None:
    found = read("n,m\n1,\n2,\nabc,\n-,\n")
    assert found.columns == {"n": ["1", "2", "abc", "-"], "m": [None] * 4}
    assert found.kinds == {"n": "text", "m": "empty"}
    assert "stays text: n, 67% numbers; the others are 'abc'" in found.lines
    assert read("zip\n01067\n10115\n").lines[-1] == "stays text: zip, codes such as '01067'"


def test_different_units_stay_text_or_are_noted(read: Any) -> None:
    found = read("a,b\n$5,10%\n€5,1\n$7,2\n")
    assert found.columns == {"a": ["$5", "€5", "$7"], "b": [10, 1, 2]}
    assert "stays text: a has several units: $ 2x, € 1x" in found.lines
    assert "unclear: b has 2 values without %, taken as written" in found.lines
    assert read("w\n1,5 kg\n2 kg\n3\n").columns["w"] == [1.5, 2, 3]


@pytest.mark.parametrize(
    ("written", "values", "unit"),
    [
        (["500 g", "250 g", "1 kg"], [0.5, 0.25, 1], "kg"),
        (["90 min", "1.5 h", "45 min"], [1.5, 1.5, 0.75], "h"),
    ],
)
def test_units_of_one_kind_are_converted(
    read: Any, written: list[str], values: list[float], unit: str
) -> None:
    found = read(one_column(written))
    assert found.columns["v"] == values
    assert any(line.startswith("number: v ") and f"{unit})" in line for line in found.lines)
    assert any(line.startswith("converted: v ") and f"are in {unit} now" in line for line in found.lines)


@pytest.mark.parametrize(
    "written",
    [
        ["5g", "4g", "3g"],  # networks, as far as a program can tell
        ["5 kg", "3 g", "7"],  # of which unit is the 7?
        ["5 MB", "3 GB"],  # 1,000 or 1,024
    ],
)
def test_other_units_stay_text(read: Any, written: list[str]) -> None:
    assert read(one_column(written)).columns["v"] == written


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        (2024, "2024-01-01", "2025-01-01"),
        ("2024-12", "2024-12-01", "2025-01-01"),
        ("2024-Q4", "2024-10-01", "2025-01-01"),
        ("Q1 2024", "2024-01-01", "2024-04-01"),
        ("2024-H2", "2024-07-01", "2025-01-01"),
        ("2024-W01", "2024-01-01", "2024-01-08"),
        ("March 2024", "2024-03-01", "2024-04-01"),
        ("2024-01-10 to 2024-02-20", "2024-01-10", "2024-02-21"),
        (("2024-01-10", "2024-02-20"), "2024-01-10", "2024-02-21"),
        (date(2024, 1, 10), "2024-01-10", "2024-01-11"),
    ],
)
def test_periods(tables: Any, period: Any, start: str, end: str) -> None:
    assert tables("_periods").bounds(period) == (day(start), day(end))


def test_digits_are_dates_in_a_column_named_date(read: Any) -> None:
    found = read("order_date,number\n20240305,20240305\n20240306,20240306\n")
    assert found.columns == {
        "order_date": [day("2024-03-05"), day("2024-03-06")],
        "number": [20240305, 20240306],
    }
