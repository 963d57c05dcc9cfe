"""`skills.tables` without pandas: numbers, dates and periods one by one, files up to their clean columns."""

from __future__ import annotations

import gzip
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st


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
        ("1.234 kg", 1.234, 1234),
        ("35min", 35, 35),
        ("21,5 °C", 21.5, 21.5),
        ("3 h", 3, 3),
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
            "1 bottle",
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
        ("March 2024", "2024-03-01", "2024-04-01"),
        ("2024-H2", "2024-07-01", "2025-01-01"),
        ("2024-01 to 2024-03", "2024-01-01", "2024-04-01"),
        ("from 2024-01-10 until 2024-02-20", "2024-01-10", "2024-02-21"),
        ("2023 - 2024", "2023-01-01", "2025-01-01"),
        ("2024-01-10..2024-01-10", "2024-01-10", "2024-01-11"),
        (("2024-01-10", "2024-02-20"), "2024-01-10", "2024-02-21"),
        (date(2024, 1, 10), "2024-01-10", "2024-01-11"),
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
        ("2024-13", "cannot be read"),
        ("2024-W54", "no period 2024-W54"),
        ("05/03/2024", "does not tell day from month"),
        ("2024-03 to 2024-01", "ends before it begins"),
        ("2024 to 2025 to 2026", "cannot be read"),
    ],
)
def test_a_period_that_cannot_be_read_says_how_to_write_one(tables: Any, period: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tables("_periods").bounds(period)


def day(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_german_file(read: Any) -> None:
    content = (
        "Datum;Kunde;Betrag;Anteil;PLZ\r\n"
        "05.03.2024;Müller  GmbH ;1.234,50 €;12,5 %;01067\r\n"
        "13.04.2024; Groß;-3,00 €;5 %;10115\r\n"
        ";;;;\r\n"
        "1.6.24;müller gmbh;(12,00 €);-;80331\r\n"
    )
    for encoding in ("utf-8", "utf-8-sig", "cp1252", "utf-16"):
        found = read(content.encode(encoding))
        assert found.columns == {
            "Datum": [day("2024-03-05"), day("2024-04-13"), day("2024-06-01")],
            "Kunde": ["Müller GmbH", "Groß", "müller gmbh"],
            "Betrag": [1234.5, -3.0, -12.0],
            "Anteil": [12.5, 5, None],
            "PLZ": ["01067", "10115", "80331"],
        }
        assert list(found.kinds.values()) == ["date", "text", "number", "number", "text"]
        assert "missing: Anteil 1 (- 1x)" in found.lines
        assert "spelled differently: Kunde Müller GmbH = müller gmbh" in found.lines
        assert (
            "number: Betrag -12 to 1234.5 (decimal comma, €);"
            " Anteil 5 to 12.5 (decimal comma, percent: 12 is 12 %)"
        ) in found.lines


def test_an_american_file(read: Any) -> None:
    found = read(
        'id,when,amount,ok\n1,3/5/2024,"$1,234.50",TRUE\n2,3/25/2024,$5,false\n3,N/A,NULL,\n'
        "4,12/1/2024 1:30 PM,$7.,True\n"
    )
    assert found.columns == {
        "id": [1, 2, 3, 4],
        "when": [day("2024-03-05"), day("2024-03-25"), None, day("2024-12-01T13:30")],
        "amount": [1234.5, 5, None, 7],
        "ok": [True, False, None, True],
    }
    assert "missing: when 1 (N/A 1x); amount 1 (NULL 1x); ok 1" in found.lines


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_separators_and_line_ends(read: Any, mark: str, end: str) -> None:
    rows = [["a", "b", "c"], ["1", "x, y; z", "2.5"], ["2", "p|q", ""], ["3", "t", "1"]]
    cells = [[f'"{cell}"' if set(cell) & set(",;|") else cell for cell in row] for row in rows]
    found = read(end.join(mark.join(row) for row in cells) + end)
    assert found.columns == {"a": [1, 2, 3], "b": ["x, y; z", "p|q", "t"], "c": [2.5, None, 1]}


@given(
    values=st.lists(st.decimals(-(10**7), 10**7, places=2), min_size=1, max_size=20),
    marks=st.sampled_from([(",", "."), (".", ","), (" ", ","), ("'", "."), ("", "."), ("", ",")]),
    shape=st.sampled_from(["{}", "${}", "{} €", "CHF {}", "{}%"]),
    separator=st.sampled_from(",;\t|"),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_written_table_of_numbers_reads_back(
    read: Any, values: list[Any], marks: tuple[str, str], shape: str, separator: str
) -> None:
    def written(value: Any) -> str:
        text = f"{abs(value):,.2f}".translate(str.maketrans({",": marks[0], ".": marks[1]}))
        return f'"{"-" * (value < 0)}{shape.format(text)}"'

    lines = [f"row{separator}value", *(f"r{place}{separator}{written(v)}" for place, v in enumerate(values))]
    assert read("\n".join(lines)).columns["value"] == [float(value) for value in values]


@given(
    days=st.lists(st.dates(date(1990, 1, 1), date(2060, 1, 1)), min_size=1, max_size=20),
    order=st.sampled_from(["%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_days_and_months_are_told_apart_where_one_value_can_tell(
    read: Any, days: list[Any], order: str
) -> None:
    days.append(date(2024, 7, 31))
    content = "\n".join(["day", *(each.strftime(order) for each in days)])
    assert read(content).columns["day"] == [datetime(each.year, each.month, each.day) for each in days]


def test_forms_of_dates_may_be_mixed_in_a_column(read: Any) -> None:
    found = read("d\n2024-03-05\n06/03/2024\n07.03.2024\n8 Mar 2024\n13/03/2024\n14/03/2024 10:00\n")
    assert found.columns["d"] == [day(f"2024-03-{n:02}") for n in (5, 6, 7, 8, 13)] + [
        day("2024-03-14T10:00")
    ]
    assert [line for line in found.lines if line.startswith("unclear")] == []


def test_dates_that_do_not_tell_are_day_first_and_named(read: Any) -> None:
    found = read("d,n\n01/02/2024,1\n03/04/2024,2\n")
    assert found.columns["d"] == [day("2024-02-01"), day("2024-04-03")]
    assert found.lines[-1] == (
        "unclear: d has 2 dates such as '01/02/2024' that may have day or month first, taken as day first"
    )


def test_another_column_may_tell_the_order(read: Any) -> None:
    found = read("ordered,shipped\n01/02/2024,01/25/2024\n03/04/2024,03/05/2024\n")
    assert found.columns["ordered"] == [day("2024-01-02"), day("2024-03-04")]
    assert found.columns["shipped"] == [day("2024-01-25"), day("2024-03-05")]


def test_orders_that_contradict_each_other_are_named(read: Any) -> None:
    found = read("d\n13/01/2024\n14/01/2024\n01/15/2024\n02/03/2024\n")
    assert found.columns["d"] == [day("2024-01-13"), day("2024-01-14"), day("2024-01-15"), day("2024-03-02")]
    assert "'02/03/2024' that may have day or month first, taken as day first" in found.lines[-1]


def test_times_with_offsets_become_utc(read: Any) -> None:
    found = read(
        "t\n2024-03-05T10:00:00+02:00\n2024-03-05T10:00:00Z\n2024-03-05 10:00:00.5 -0530\n2024-03-05 10:00\n"
    )
    assert found.columns["t"] == [
        *(day("2024-03-05T08:00"), day("2024-03-05T10:00")),
        *(day("2024-03-05T15:30:00.500"), day("2024-03-05T10:00")),
    ]
    assert "unclear: t has 1 time without offset, taken as UTC" in found.lines


def test_a_lone_comma_before_three_digits_is_decided_by_the_others_or_named(read: Any) -> None:
    assert read("a;b\n1,234;2\n0,5;1\n").columns["a"] == [1.234, 0.5]
    assert read('a,b\n"1,234",2\n1.5,1\n').columns["a"] == [1234, 1.5]
    assert read("a;b\n1.234;2,5\n2.000;1\n").columns["a"] == [1234, 2000]  # b has a decimal comma
    assert read("a,b\n1.234,2\n52.520,1\n").columns["a"] == [1.234, 52.52]
    found = read("a;b\n1,234;2\n2,000;1\n")
    assert found.columns["a"] == [1234, 2000]
    assert "unclear: a '1,234' is taken as 1234" in found.lines


def test_what_cannot_be_read_is_missing_and_named_where_the_rest_can(read: Any) -> None:
    found = read("n,d\n" + "".join(f"{n},2024-01-{n:02}\n" for n in range(1, 20)) + "abc,2024-02-30\n")
    assert found.columns["n"] == [*range(1, 20), None]
    assert found.columns["d"][-1] is None
    assert "missing: n 1 (unreadable 1x); d 1 (unreadable 1x)" in found.lines
    assert "could not be read, now missing: n 'abc'; d '2024-02-30'" in found.lines


def test_a_column_of_which_much_cannot_be_read_stays_text_and_is_named(read: Any) -> None:
    found = read("n,m\n1,\n2,\nabc,\n-,\n")
    assert found.columns == {"n": ["1", "2", "abc", "-"], "m": [None] * 4}
    assert found.kinds == {"n": "text", "m": "empty"}
    assert "stays text: n, 67% numbers; the others are 'abc'" in found.lines


def test_codes_among_numbers_are_named(read: Any) -> None:
    found = read("zip\n01067\n10115\n")
    assert found.columns["zip"] == ["01067", "10115"]
    assert found.lines[-1] == "stays text: zip, codes such as '01067'"
    assert read('[{"id": 1234567890123456789}, {"id": null}]', "a.json").columns["id"] == [
        "1234567890123456789",
        None,
    ]


def test_several_currencies_are_not_added_up(read: Any) -> None:
    found = read("a,b\n$5,10%\n€5,1\n$7,2\n")
    assert found.columns["a"] == ["$5", "€5", "$7"]
    assert "stays text: a has several units: $ 2x, € 1x" in found.lines
    assert read("w\n1,5 kg\n2 kg\n3\n").columns["w"] == [1.5, 2, 3]
    assert read("w\n1 kg\n5 cm\n").lines[-1] == "stays text: w has several units: kg 1x, cm 1x"
    assert found.columns["b"] == [10, 1, 2]
    assert "unclear: b has 2 values without %, taken as written" in found.lines
    assert read("a\n$5\n6\nUSD 7\n").columns["a"] == [5, 6, 7]


@pytest.mark.parametrize(
    "values",
    [
        ("007", "12", "13"),
        ("1234567890123456", "2"),
        ("A1", "B2"),
        ("14:05", "15:10"),
        ("10.0.0.1", "10.0.0.2"),
        ("1-2", "3-4"),
        ("12E5", "13E7"),
        ("2024-03", "2024-04"),
        ("1.2.3", "1.2.4"),
        ("yes", "no"),
        ("5 kg", "6 km"),
        ("-", "–"),
        ("+49 170 123 456", "+44 170 123 456"),
        ("12A", "13A"),
        ("0001-01-01T00:00+02:00", "x"),
    ],
)
def test_what_is_no_number_and_no_date_stays_as_it_is(read: Any, values: tuple[str, ...]) -> None:
    found = read("\n".join(["code", *values]))
    assert found.columns["code"] == list(values)
    assert found.kinds["code"] == "text"


@pytest.mark.parametrize(
    "text", ["", "N/A", "n/a", "NA", "null", "NULL", "nan", "NaN", "none", "None", "#N/A", " "]
)
def test_texts_for_missing(read: Any, text: str) -> None:
    found = read(f"name,n,t\na,{text},{text}\nb,2,x\n")
    assert (found.columns["n"], found.columns["t"]) == ([None, 2], [None, "x"])


def test_no_value_in_other_words_counts_only_among_numbers(read: Any) -> None:
    found = read("n,status\n1,unknown\nunknown,pending\n?,paid\n2,-\n")
    assert found.columns == {"n": [1, None, None, 2], "status": ["unknown", "pending", "paid", "-"]}
    assert "missing: n 2 (unknown 1x, ? 1x)" in found.lines


def test_digits_without_separators_are_a_date_where_the_name_says_so(read: Any) -> None:
    found = read("order_date,number\n20240305,20240305\n20240306,20240306\n")
    assert found.columns == {
        "order_date": [day("2024-03-05"), day("2024-03-06")],
        "number": [20240305, 20240306],
    }


def test_what_stands_above_the_names_is_named(read: Any) -> None:
    found = read("Report 2024;;\n\nname;value;x\nA;1,5;1\nB;2;2\n")
    assert found.columns == {"name": ["A", "B"], "value": [1.5, 2], "x": [1, 2]}
    assert found.lines[0] == "above the names: line 1: 'Report 2024'"


def test_rows_that_do_not_fit_are_named(read: Any) -> None:
    found = read("a,b,c\n1,2,3\na,b,c\n4,5\n6,7,8,9\n7,8,9,\n")
    assert found.columns == {"a": [1, 4, 7], "b": [2, 5, 8], "c": [3, None, 9]}
    assert found.lines[:3] == [
        "left out: 1 row, the names again, line 3",
        "left out: 1 row with more cells than names, line 5: '6 7 8 9'",
        "short: 1 row with fewer cells than names, line 4",
    ]


def test_names_are_stripped_told_apart_and_made_up_where_there_are_none(read: Any) -> None:
    assert list(read(" a ,a, b  c,\n1,2,3,4\n").columns) == ["a", "a_2", "b c", "column_4"]
    assert list(read("a,b,\n1,2,\n3,4,\n").columns) == ["a", "b"]
    found = read("1,2.5,x\n2,3.5,y\n")
    assert found.columns == {"column_1": [1, 2], "column_2": [2.5, 3.5], "column_3": ["x", "y"]}
    assert found.lines[0].startswith("names: the first row has values")
    assert list(read("region,2022,2023\nN,1,2\n").columns) == ["region", "2022", "2023"]
    assert list(read("2022,2023\n1,2\n").columns) == ["2022", "2023"]
    assert read("note\nhi, there\nwell\nso\n").columns == {"note": ["hi, there", "well", "so"]}
    assert read("x y\n1 2 3\n").columns == {"x y": ["1 2 3"]}
    assert read("a b\n1\n2\n").columns == {"a b": [1, 2]}
    assert read('"a"\t"b"\n"r1"\t1\t2\n"r2"\t3\t4\n').columns == {
        "row": ["r1", "r2"],
        "a": [1, 3],
        "b": [2, 4],
    }


def test_quotation_marks(read: Any) -> None:
    assert read('a,b\n"say ""hi"", x","two\nlines"\n').columns == {"a": ['say "hi", x'], "b": ["two\nlines"]}
    found = read('a,b\n15" screen,1\n"open,2\n"x, y",3\n')
    assert found.columns == {"a": ['15" screen', '"open', "x, y"], "b": [1, 2, 3]}
    assert found.lines[0] == "quotation marks: not closed in line 3, where they are taken as they stand"


def test_bytes_that_are_not_utf_8_spoil_no_other_letters(read: Any) -> None:
    found = read("a,b\nMüller,1\n".encode() + "Größe €,2\n".encode("cp1252"))
    assert found.columns["a"] == ["Müller", "Größe €"]
    assert found.lines[0] == "letters: 3 bytes not in UTF-8, read as Latin"


def test_excel_says_its_separator(read: Any) -> None:
    assert read("sep=;\r\na;b\r\n1,5;2\r\n").columns == {"a": [1.5], "b": [2]}


def test_what_is_odd_is_named(read: Any) -> None:
    rows = "".join(f"{n},North,{n}\n" for n in range(1, 40))
    found = read("id,region,n\n" + rows + "40,Nroth,-5\n41,Nort,100000\nTotal,,100775\n")
    assert "perhaps misspelled: region Nroth 1x (North?), Nort 1x (North?)" in found.lines
    assert "odd: n has 1 below zero, such as -5" in found.lines
    assert "totals: row 41 (Total) may be a sum of others; table = table.drop([41]) removes it" in found.lines
    found = read("id,n\n" + "".join(f"x{n},{n}\n" for n in range(1, 40)) + "last,100000\nTotal:,100780\n")
    assert (
        "totals: row 40 (Total:) may be a sum of others; table = table.drop([40]) removes it" in found.lines
    )
    found = read(
        "created_at,n\n" + "".join(f"17{n}000000,{n}\n" for n in range(11, 30)) + "1720000001,1700000\n"
    )
    assert found.lines[-1] == (
        "odd: created_at may be times, counted since 1970: table['created_at'] ="
        " pd.to_datetime(table['created_at'], unit='s'); n 1700000 is far from all others, the next is 29"
    )


def test_json(read: Any) -> None:
    records = (
        '[{"id": 1, "customer": {"country": "DE", "address": {"city": " Bonn "}},'
        ' "items": [{"n": 1}], "p": "1,5"},'
        ' {"id": 2, "customer": {"country": null}, "items": [], "p": 2, "ok": true}]'
    )
    columns = {
        "id": [1, 2],
        "customer.country": ["DE", None],
        "customer.address.city": ["Bonn", None],
        "items": [[{"n": 1}], []],
        "p": [1.5, 2],
        "ok": [None, True],
    }
    assert read(records, "a.json").columns == columns
    assert read(gzip.compress(records.encode()), "a.json.gz").columns == columns
    assert read(records, "no_suffix").columns == columns
    found = read(f'{{"meta": {{"page": 1}}, "data": {{"orders": {records}, "tags": ["x"]}}}}', "a.json")
    assert found.columns == columns
    assert found.lines[0] == "list: data.orders; beside it: meta"
    assert read('{"a": {"n": 1}, "b": {"n": 2}}', "a.json").columns == {"key": ["a", "b"], "n": [1, 2]}
    assert read('{"n": [1, 2], "t": ["x", "y"]}', "a.json").columns == {"n": [1, 2], "t": ["x", "y"]}
    for pandas_has_it in (
        '{"n": {"0": 1, "1": 2}, "t": {"0": "x", "1": "y"}}',
        '{"columns": ["n", "t"], "index": [0, 1], "data": [[1, "x"], [2, "y"]]}',
    ):
        assert read(pandas_has_it, "a.json").columns == {"n": [1, 2], "t": ["x", "y"]}
    assert read('{"n": 1, "t": {"u": 2}}', "a.json").columns == {"n": [1], "t.u": [2]}
    assert read('[["a", "b"], [1, null], [2, 3]]', "a.json").columns == {"a": [1, 2], "b": [None, 3]}
    assert read("[1, 2, 3]", "a.json").columns == {"value": [1, 2, 3]}
    assert read('[{"n": NaN}, {"n": 2}, {"n": 3.5}]', "a.json").columns == {"n": [None, 2, 3.5]}


def test_json_lines(read: Any) -> None:
    lines = '{"a": 1, "b": {"c": "x"}}\n\n{"a": "2", "d": "2024-01-02"}\nbroken {\n{"a": 3}\n'
    for name in ("a.jsonl", "a.ndjson", "a.json"):
        found = read(lines, name)
        assert found.columns == {
            "a": [1, 2, 3],
            "b.c": ["x", None, None],
            "d": [None, day("2024-01-02"), None],
        }
        assert found.lines[0] == "left out: 1 line, no JSON, line 4: broken {"


def test_the_objects_of_a_list_inside_as_rows(read: Any) -> None:
    orders = (
        '{"orders": [{"id": 1, "who": {"country": "DK"},'
        ' "items": [{"sku": "a", "n": 2}, {"sku": "b", "n": 1}]},'
        ' {"id": 2, "who": {"country": "NO"}, "items": []},'
        ' {"id": 3, "who": {"country": "DK"}, "items": [{"sku": "a", "n": 4, "id": 9}]}]}'
    )
    assert read(orders, "a.json", rows="items").columns == {
        "id": [1, 1, 3],
        "who.country": ["DK", "DK", "DK"],
        "sku": ["a", "b", "a"],
        "n": [2, 1, 4],
        "items.id": [None, None, 9],
    }
    lines = '{"id": 1, "tags": ["x", "y"]}\n{"id": 2, "tags": null}\n{"id": 3}\n'
    assert read(lines, "a.jsonl", rows="tags").columns == {"id": [1, 1], "tags": ["x", "y"]}
    with pytest.raises(ValueError, match=r"has no list 'parts' in its objects; lists: items$"):
        read(orders, "a.json", rows="parts")
    with pytest.raises(ValueError, match="rows='items' is for JSON files"):
        read("a,b\n1,2\n", "a.csv", rows="items")


def test_objects_of_one_kind_under_keys_are_rows(read: Any) -> None:
    days = '{"2024-07-01": {"readings": [{"t": 1}, {"t": 3}]}, "2024-07-02": {"readings": [{"t": 2}]}}'
    assert read(days, "a.json").columns["key"] == [day("2024-07-01"), day("2024-07-02")]
    assert read(days, "a.json", rows="readings").columns == {
        "key": [day("2024-07-01"), day("2024-07-01"), day("2024-07-02")],
        "t": [1, 3, 2],
    }


def test_values_that_are_equal_and_not_the_same(read: Any) -> None:
    found = read('[{"a": 1}, {"a": 1.0}, {"a": true}, {"a": "1"}]', "a.json")
    assert found.columns["a"] == ["1", "1.0", "True", "1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.json",
            '{"orders": [{"a": 1}], "x": {"customers": [{"b": 2}]}}',
            r"2 lists: orders, x\.customers\. Load one",
        ),
        ("a.json", "{} {", "no valid JSON: Extra data"),
        ("a.json", '{\n"a": 1,\n"b": 2\n', "no valid JSON: Expecting"),
        ("a.json", "[]", "holds no list of objects"),
        ("a.json", "{}", "holds no list of objects"),
        ("a.json", "5", "holds no list of objects"),
        ("a.jsonl", "a,b\n1,2\n", "no valid JSON; line 1: a,b"),
        ("a.csv", "", "is empty"),
        ("a.csv", " \n\n", "is empty"),
        ("a.csv", b"a,b\n1,\0\n", "it reads CSV, TSV and other separated text, JSON"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", "it reads CSV"),
        ("a.html", "<html><body>hello, world</body></html>", "it reads CSV"),
        ("a.csv.gz", b"\x1f\x8b broken", "is damaged"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99)[:-9], "is damaged"),
    ],
)
def test_what_cannot_be_read_is_refused(read: Any, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(content, name)


def test_a_file_that_is_not_there(tables: Any, tmp_path: Path) -> None:
    for name in ("sales.csv", "orders.json"):
        (tmp_path / name).write_text("a\n1\n")
    find = tables("_files").find
    with pytest.raises(
        FileNotFoundError, match=r"has: orders\.json, sales\.csv; did you mean .*/sales\.csv\?"
    ):
        find(tmp_path / "sale.csv")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*/nope"):
        find(tmp_path / "nope" / "sales.csv")
    with pytest.raises(
        FileNotFoundError, match=r"is a folder; give one of its files: orders\.json, sales\.csv"
    ):
        find(tmp_path)


def test_a_file_that_is_too_large_is_refused_unread(
    tables: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables("_files"), "MAX_BYTES", 1000)
    for name, content in (("a.csv", b"a\n" * 501), ("a.csv.gz", gzip.compress(b"a\n" * 10**6))):
        with pytest.raises(ValueError, match="too much for load: use the scripts of /skills/csv-analytics"):
            read(content, name)


@given(
    content=st.one_of(st.text(max_size=200), st.binary(max_size=200)),
    name=st.sampled_from(["a.csv", "a.json", "a"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_file_is_read_or_refused(read: Any, content: str | bytes, name: str) -> None:
    content = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    assume(b"%PDF" not in content)  # what reads those is in the image alone
    try:
        found = read(content, name)
    except ValueError:
        return
    assert len({len(values) for values in found.columns.values()}) == 1
