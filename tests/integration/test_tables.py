"""`skills.tables` inside the container: types of the table, what is printed, groups, periods and pictures."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend

ROOT = Path(__file__).parents[2]
SALES = ROOT / "workspace" / "data" / "sales.csv"

pytestmark = pytest.mark.docker

START = """
import json
import pandas as pd
from skills.tables import in_period, latest, load, merge, per_period, plot, totals

def show(found):
    if isinstance(found, pd.Series):
        index = [list(key) if isinstance(key, tuple) else key for key in found.index.tolist()]
        found = [index, found.astype(object).where(found.notna(), None).tolist()]
    print(json.dumps(found, default=str))
"""

ORDERS = """\
id,day,region,amount,qty,note
1,2024-01-05,North,"$1,000.50",1,x
2,2024-01-31,north ,$2.25,2,
3,2024-02-29,South,N/A,3,y
4,2024-04-01,North,$3,4,x
5,,  ,$4,5,x
5,,  ,$4,5,x
"""


class Session:
    """A live interpreter with the library imported: what a block prints, or its error."""

    def __init__(self, backend: DockerExecutionBackend) -> None:
        self.backend = backend
        assert self.run(START) == ""

    def run(self, code: str) -> str:
        result = self.backend.sandbox.run_python(code, session="tables", timeout=60)
        return result.output + result.stderr

    def put(self, content: str | bytes, name: str = "case.csv") -> str:
        path = f"/workspace/data/{name}"
        (uploaded,) = self.backend.upload_files(
            [(path, content.encode() if isinstance(content, str) else content)]
        )
        assert uploaded.error is None
        return path

    def show(self, expression: str) -> Any:
        """The value of an expression, from JSON in the last line that is printed."""
        output = self.run(f"show({expression})")
        try:
            return json.loads(output.splitlines()[-1])
        except (ValueError, IndexError):
            pytest.fail(output)

    def error(self, expression: str) -> str:
        output = self.run(expression)
        assert "Traceback" in output
        return output


@pytest.fixture(scope="module")
def session(backend: DockerExecutionBackend) -> Session:
    return Session(backend)


@pytest.fixture
def orders(session: Session) -> Session:
    session.put(ORDERS)
    session.run("table = load('/data/case.csv')")
    return session


def test_a_pdf_file_has_a_row_for_each_line(session: Session) -> None:
    session.run("from skills.pdf import generate\ngenerate('# Pumps\\n\\nPump B: 230 V', 'manual')")
    printed = session.run("t = load('/results/manual.pdf')\nshow(t[['page', 'c1', 'line']].values.tolist())")
    assert '[1, "B", "Pump B: 230 V"]' in printed
    path = session.put("%PDF-1.7 broken", "broken.pdf")
    assert "broken.pdf cannot be read as a PDF file" in session.run(f"load({path!r})")


def test_several_files_are_one_table(session: Session) -> None:
    session.put("day,n\n2024-01-05,1\n", "part-1.csv")
    session.put("n,day\n2,2024-02-05\n3,13.02.2024\n", "part-2.csv")
    said, found = session.run("t = load('/data/part-*.csv')\nshow(t[['n', 'file']].values.tolist())").split(
        "\n["
    )
    assert said.startswith("/data/part-*.csv, 2 files: 3 rows, 3 columns\ndate: day 2024-01-05 to 2024-02-13")
    assert json.loads(f"[{found}") == [[1, "part-1.csv"], [2, "part-2.csv"], [3, "part-2.csv"]]
    assert "no file is called like /data/none-*.csv" in session.run("load('/data/none-*.csv')")
    assert "load reads one file" in session.run("load(['/data/part-1.csv'])")


def test_rows_that_nothing_numbers_may_be_the_same_by_chance(session: Session) -> None:
    for head, rows, said in (
        (
            "branch,sales",
            "A,1.5\nA,1.5\nA,2.5\nB,2.25\n",
            "repeats: 1 of 4 rows are exact copies of earlier ones and are kept\n",
        ),
        (
            "id,sales",
            "".join(f"{n},2\n" for n in (*range(20), 3)),
            "table = table.drop_duplicates() removes them\n",
        ),
    ):
        path = session.put(f"{head}\n{rows}")
        assert said in session.run(f"load({path!r});")


def test_a_list_of_tables_is_none(session: Session) -> None:
    said = session.run("totals([pd.DataFrame({'a': [1]})], 'a')")
    assert "as load(path) returns it, not list; pd.concat(…) makes one of several" in said


def test_the_types_of_a_table(orders: Session) -> None:
    assert orders.show("{name: str(kind) for name, kind in table.dtypes.items()}") == {
        **{"id": "int64", "day": "datetime64[us]", "region": "str"},
        **{"amount": "float64", "qty": "int64", "note": "str"},
    }
    assert orders.show("table.amount.fillna(-1).tolist()") == [1000.5, 2.25, -1, 3, 4, 4]
    assert orders.show("table.region.isna().tolist()") == [False] * 4 + [True] * 2
    assert orders.show("(table.day >= '2024-02-01').sum().item()") == 2


def test_what_load_prints(session: Session) -> None:
    session.put(ORDERS)
    assert session.run("table = load('/data/case.csv')") == (
        "/data/case.csv: 6 rows, 6 columns\n"
        "date: day 2024-01-05 to 2024-04-01\n"
        "number: id 1 to 5; amount 2.25 to 1000.5 ($); qty 1 to 5\n"
        "text: region (North, north, South); note (x, y)\n"
        "missing: day 2; region 2; amount 1 (N/A 1x); note 1\n"
        "repeats: 1 of 6 rows are exact copies of earlier ones and are kept;"
        " table = table.drop_duplicates() removes them\n"
        "spelled differently: region North = north\n"
    )


def test_booleans_lists_and_empty_tables(session: Session) -> None:
    path = session.put(
        '[{"ok": true, "l": [1, 2]}, {"ok": null, "l": []}, {"ok": true, "l": [1, 2]}]', "a.json"
    )
    assert "repeats: 1 of 3 rows" in session.run(f"table = load({path!r})")
    assert session.show("[str(kind) for kind in table.dtypes]") == ["boolean", "object"]
    assert session.show("table.l.tolist()") == [[1, 2], [], [1, 2]]
    assert session.show("totals(table, 'ok')") == [["True", "(missing)"], [2, 1]]
    assert session.show("totals(table, 'ok', 'ok')") == [["True", "(missing)"], [2, None]]
    path = session.put("flag,n\ntrue,1\nFALSE,2\n")
    assert session.show(f"[str(kind) for kind in load({path!r}).dtypes]") == ["bool", "int64"]
    path = session.put("a,b\n")
    assert session.show(f"[len(load({path!r})), list(load({path!r}).columns)]") == [0, ["a", "b"]]


def test_a_list_of_objects_is_loaded_too(session: Session) -> None:
    session.put('{"orders": [{"p": "$5"}, {"p": "$1,000"}], "users": [{"n": "a"}]}', "two.json")
    error = session.error("load('/data/two.json')")
    code = re.search(r"table = (load\(json\.load\(.*\))", error)
    assert code is not None
    assert session.show(f"{code[1]}.p.tolist()") == [5, 1000]
    assert 'files by a pattern: load("/data/*.csv")' in session.error("load(['/data/a.csv', '/data/b.csv'])")


def test_a_bare_name_is_looked_for_in_data(session: Session) -> None:
    session.put("a\n1\n", "only-in-data.csv")
    assert session.run("_ = load('only-in-data.csv')").startswith("/data/only-in-data.csv: 1 row, 1 column\n")
    assert "did you mean /data/only-in-data.csv?" in session.error("load('/data/only_in_data.csv')")


def test_an_excel_file(session: Session) -> None:
    session.run(
        "from datetime import date, datetime\nimport openpyxl\n"
        "book = openpyxl.Workbook(); sheet = book.active; sheet.title = 'Sales'\n"
        "for row in (['Sales 2024'], ['day', 'amount', 'zip', 'n'],"
        " [datetime(2024, 3, 5), '1.234,50 €', '01067', 3],"
        " [date(2024, 3, 6), '2,00 €', '10115', None], ['07.03.2024', None, '80331', 5]): sheet.append(row)\n"
        "book.create_sheet('Notes').append(['x'])\n"
        "book.save('/data/book.xlsx')"
    )
    output = session.run("table = load('/data/book.xlsx')")
    assert "above the names: line 1: 'Sales 2024'\nsheet: Sales is read; there are also Notes" in output
    assert session.show("[table.columns.tolist(), table.amount.fillna(0).tolist(), table.zip.tolist()]") == [
        *(["day", "amount", "zip", "n"], [1234.5, 2, 0], ["01067", "10115", "80331"])
    ]
    assert session.show("table.day.dt.strftime('%d').tolist()") == ["05", "06", "07"]
    session.run("import sys; kept = sys.modules['openpyxl']; sys.modules['openpyxl'] = None")
    assert "needs the package openpyxl; save it as CSV" in session.error("load('/data/book.xlsx')")
    session.run("sys.modules['openpyxl'] = kept")
    session.put(b"PK\x03\x04 broken", "broken.xlsx")
    assert "broken.xlsx is damaged" in session.error("load('/data/broken.xlsx')")


@pytest.mark.parametrize(
    ("period", "ids"),
    [
        ("'2024'", [1, 2, 3, 4]),
        ("2024", [1, 2, 3, 4]),
        ("'2024-01'", [1, 2]),
        ("'2024-Q1'", [1, 2, 3]),
        ("'2024-01-31'", [2]),
        ("'2024-01-31 to 2024-02-29'", [2, 3]),
        ("('2024-01-31', '2024-02-29')", [2, 3]),
        ("pd.Timestamp('2024-04-01')", [4]),
    ],
)
def test_rows_of_a_period(orders: Session, period: str, ids: list[int]) -> None:
    assert orders.show(f"in_period(table, 'day', {period}).id.tolist()") == ids


def test_rows_of_a_period_in_other_columns(session: Session) -> None:
    session.run(
        "other = pd.DataFrame({'text': ['13/01/2024', '01/02/2024', None], 'year': [2023, 2024, None],"
        " 'zone': pd.to_datetime(['2024-01-01T00:30+02:00', '2024-01-02T00:00Z', None], utc=True),"
        " 'n': [1, 2, 3]})"
    )
    assert session.show("in_period(other, 'text', '2024-02').n.tolist()") == [2]
    assert session.show("in_period(other, 'year', '2024').n.tolist()") == [2]
    assert session.show("in_period(other, 'zone', '2023').n.tolist()") == [1]
    assert session.show("in_period(other.iloc[::-1], 'text', '2024').n.tolist()") == [2, 1]


@pytest.mark.parametrize(
    "dates",
    [
        "['2024-02', '2024-03']",
        "['Feb 2024', 'March 2024']",
        "[202402, 202403]",
        "[20240229, 20240301]",
        "['20240229', '20240301']",
        "[1709164800, 1709251200]",
        "[1709164800000, 1709251200000]",
        "['2024-02-01', '1. 3. 2024']",
    ],
)
def test_a_column_that_is_named_as_dates_may_have_months_or_numbers(session: Session, dates: str) -> None:
    session.run(f"other = pd.DataFrame({{'d': {dates}, 'n': [1, 2]}})")
    assert session.show("in_period(other, 'd', '2024-02').n.tolist()") == [1]
    assert session.show("per_period(other, 'd', 'n')") == [["2024-02", "2024-03"], [1, 2]]


def test_a_period_without_rows_says_what_there_is(orders: Session) -> None:
    assert orders.run("print(len(in_period(table, 'day', '2023')))") == (
        "in_period: 2 of 6 rows without day are left out\n"
        "in_period: no row in 2023; day has 2024-01-05 to 2024-04-01\n0\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'region'", [["North", "(missing)", "South"], [3, 2, 1]]),
        ("'region', 'amount'", [["North", "(missing)", "South"], [1005.75, 8, None]]),
        ("'region', 'amount', top=1", [["North"], [1005.75]]),
        ("'region', 'amount', 'count'", [["North", "(missing)", "South"], [3, 2, 0]]),
        ("'region', 'qty', 'mean'", [["(missing)", "South", "North"], [5, 3, 2.3333333333333]]),
        ("'region', 'qty', how='avg', top=1", [["(missing)"], [5]]),
        ("'region', 'qty', 'median'", [["(missing)", "South", "North"], [5, 3, 2]]),
        ("'region', 'qty', 'min'", [["(missing)", "South", "North"], [5, 3, 1]]),
        (
            "'region', 'day', 'max'",
            [["North", "South", "(missing)"], ["2024-04-01 00:00:00", "2024-02-29 00:00:00", None]],
        ),
        ("'note', 'region', 'nunique'", [["x", "y", "(missing)"], [1, 1, 1]]),
        (
            "['region', 'note']",
            [[["North", "x"], ["(missing)", "x"], ["South", "y"], ["North", "(missing)"]], [2, 2, 1, 1]],
        ),
        ("['note'], 'qty'", [["x", "y", "(missing)"], [15, 3, 2]]),
        ("' Region ', 'AMOUNT', top=1", [["North"], [1005.75]]),
        ("'qty'", [[5, 1, 2, 3, 4], [2, 1, 1, 1, 1]]),
        ("'day', top=2", [["(missing)", "2024-01-05"], [2, 1]]),
    ],
)
def test_totals(orders: Session, arguments: str, expected: list[Any]) -> None:
    assert orders.show(f"totals(table, {arguments})") == expected


def test_totals_have_the_names_of_their_columns(orders: Session) -> None:
    assert orders.show("[totals(table, 'region', 'qty').name, totals(table, 'region').name]") == [
        "qty",
        "rows",
    ]
    assert orders.show("list(totals(table, ['Region', 'note'], 'qty').index.names)") == ["region", "note"]
    assert orders.show("list(totals(table, 'region', 'qty').reset_index().columns)") == ["region", "qty"]
    assert orders.run("_ = totals(table, 'region')") == "region: counted as one: North = north\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'amount'", [["2024-01", "2024-02", "2024-03", "2024-04"], [1002.75, None, 0, 3]]),
        ("", [["2024-01", "2024-02", "2024-03", "2024-04"], [2, 1, 0, 1]]),
        ("'qty', how='mean'", [["2024-01", "2024-02", "2024-03", "2024-04"], [1.5, 3, None, 4]]),
        ("'region', how='nunique'", [["2024-01", "2024-02", "2024-03", "2024-04"], [1, 1, 0, 1]]),
        ("every='quarter'", [["2024-Q1", "2024-Q2"], [3, 1]]),
        ("'qty', every='year'", [["2024"], [10]]),
        ("'qty', 'yearly', 'max'", [["2024"], [4]]),
    ],
)
def test_totals_over_time(orders: Session, arguments: str, expected: list[Any]) -> None:
    assert orders.show(f"per_period(table, 'day', {arguments})") == expected


def test_weeks_days_and_hours_are_text_without_gaps(orders: Session) -> None:
    weeks, counts = orders.show("per_period(table, 'day', every='week')")
    assert (weeks[0], weeks[1], weeks[-1], len(weeks), sum(counts)) == (
        "2024-W01",
        "2024-W02",
        "2024-W14",
        14,
        4,
    )
    days, counts = orders.show("per_period(table, 'day', every='D')")
    assert (days[0], days[-1], len(days), sum(counts)) == ("2024-01-05", "2024-04-01", 88, 4)
    session = orders
    session.run("times = pd.DataFrame({'t': ['2024-12-30T23:10:00Z', '2024-12-31T01:50:00Z']})")
    assert session.show("per_period(times, 't', every='hour')") == [
        *(["2024-12-30 23:00", "2024-12-31 00:00", "2024-12-31 01:00"], [1, 0, 1])
    ]
    assert session.show("per_period(times, 't', every='weekly')") == [["2025-W01"], [2]]
    assert session.show("per_period(times[:0].assign(t=pd.to_datetime([])), 't')") == [[], []]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "totals(table, 'nope')",
            "there is no column 'nope'; the columns are: id, day, region, amount, qty, note",
        ),
        ("totals(table, 'regions')", "did you mean 'region'?"),
        ("totals(table, 'region', 'mean')", "did you mean how='mean'?"),
        ("totals(table, 'region', how='mean')", "needs value='...', a column; without one, rows are counted"),
        (
            "totals(table, 'region', 'qty', 'mode')",
            "how is one of sum, mean, median, min, max, count, nunique",
        ),
        ("totals(table, 'region', 'qty', top=0)", "top is how many groups to keep, 1 or more, not 0"),
        ("totals(table, [])", "by is a column or a list of columns"),
        (
            "totals(table, 'region', 'note')",
            "column 'note' is no number but text: 'x', 'y', 'x'; columns with numbers: id, amount, qty."
            " To make numbers of it: table['note'] = pd.to_numeric(table['note'], errors='coerce')",
        ),
        (
            "totals('/data/case.csv', 'region')",
            "the first argument is a table, as load(path) returns it, not str",
        ),
        ("latest(table, 'id', 'Tag')", "there is no column 'Tag'; the columns are: id, day"),
        (
            "in_period(table, 'note', '2024')",
            "column 'note' is no date but 'x', 'y', 'x'; columns with dates: day",
        ),
        ("in_period(table, 'day', 'last month')", "cannot be read; write 2024, 2024-03, 2024-Q2"),
        ("per_period(table, 'day', 'month')", "did you mean every='month'?"),
        ("per_period(table, 'day', every='decade')", "every is one of hour, day, week, month, quarter, year"),
        ("per_period(table, 'qty')", "column 'qty' is no date but 1, 2, 3; columns with dates: day"),
        ("latest(table, 'nothing', 'day')", "latest: there is no column 'nothing'"),
        ("latest(table, [], 'day')", "by is a column or a list of columns"),
        ("latest(table, 'region', 'note')", "column 'note' is no date"),
        ("merge(table, table, on='Qty2')", "merge: there is no column 'Qty2'"),
        ("merge(table, table, how='both')", "how is one of inner, left, right, outer, not 'both'"),
        ("merge(table, table, left_on=['id', 'day'], right_on='id')", "as many of each table"),
        ("merge(table, pd.DataFrame({'x': [1]}))", "The first table has id, day, region"),
        ("merge(table, pd.DataFrame({'id': ['1']}))", "id is a number in the first table and id is text"),
        ("plot(table.region, 'x.png')", "region has no numbers; give a Series"),
        ("plot(totals(table, 'region'), 'x.pdf')", "neither .png nor .svg; give a name such as sales.png"),
        ("plot(totals(table, 'region'), '../x.png')", "leads out of /results"),
        ("plot(totals(table, 'region'), '/tmp/x.png')", "leads out of /results"),
        ("plot(totals(table, 'region'), 'x.png', kind='pie')", "kind is 'bar' or 'line', not 'pie'"),
        ("plot(totals(table[:0], 'region', 'qty'), 'x.png')", "there is nothing to draw"),
        (
            "plot(totals(table, 'region'), 'x.png', bins=9)",
            "no option bins; there are title, xlabel, ylabel, color",
        ),
        ("plot(5, 'x.png')", "give a Series, such as totals(table, 'region', 'amount')"),
    ],
)
def test_errors_say_what_would_have_worked(orders: Session, code: str, message: str) -> None:
    assert message in orders.error(code)


def test_labels_of_rows_may_be_there_twice(orders: Session) -> None:
    orders.run("twice = pd.concat([table, table]).iloc[::-1]")
    assert orders.show("per_period(twice, 'day', 'qty', 'year')") == [["2024"], [20]]
    assert orders.show("totals(twice, 'region', 'qty', top=1)") == [["(missing)"], [20]]
    assert orders.show("in_period(twice, 'day', '2024-02').id.tolist()") == [3, 3]


def test_a_missing_column_is_a_key_error_of_its_name(orders: Session) -> None:
    assert (
        orders.run("try: totals(table, 'nope')\nexcept KeyError as error: print(error.args)") == "('nope',)\n"
    )


def test_half_of_a_column_is_enough_where_it_is_asked_for(session: Session) -> None:
    session.run("plain = pd.DataFrame({'d': ['2024-01-05', 'soon', '2024-02-01'], 'v': ['$1', '2', 'x']})")
    assert session.run("print(totals(plain, 'd', 'v').sum(), len(in_period(plain, 'd', '2024')))") == (
        "totals: could not be read, now missing: v 'x'\n"
        "in_period: could not be read, now missing: d 'soon'\n"
        "in_period: 1 of 3 rows without d are left out\n3.0 2\n"
    )


def test_text_is_converted_on_the_way_and_what_could_not_be_is_said(session: Session) -> None:
    session.run(
        "plain = pd.DataFrame({'g': list('ab') * 10, 'v': ['$1'] * 19 + ['?'], 'w': ['1'] * 19 + ['abc']})"
    )
    assert session.show("totals(plain, 'g', 'v')") == [["a", "b"], [10, 9]]
    assert session.run("_ = totals(plain, 'g', 'w')") == "totals: could not be read, now missing: w 'abc'\n"


def test_figures_of_the_sample_are_those_of_plain_python(session: Session) -> None:
    with SALES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    session.put(SALES.read_bytes(), "sales.csv")
    session.run("sales = load('/data/sales.csv')")
    expected: dict[str, float] = defaultdict(float)
    for row in rows:
        text = row["revenue"].replace("$", "").replace(",", "")
        if row["order_date"][:4] == "2024" and text not in ("", "N/A"):
            expected[row["region"].strip()] += float(text)
    names, sums = session.show("totals(in_period(sales, 'order_date', '2024'), 'region', 'revenue')")
    assert dict(zip(names, sums, strict=True)) == {
        key: pytest.approx(value) for key, value in expected.items()
    }
    assert sums == sorted(sums, reverse=True)


@pytest.mark.parametrize(
    ("series", "name", "options", "path", "size"),
    [
        ("totals(table, 'region', 'amount')", "a.png", "", "/results/a.png", "800 x 500"),
        ("per_period(table, 'day')", "/results/b.svg", ", 'line', 'T'", "/results/b.svg", ""),
        ("totals(table, ['region', 'note'])", "results/c", "", "/results/c.png", "800 x 500"),
        ("{'x': 1, 'y': None}", "sub/d.png", ", size=(1200, 400)", "/results/sub/d.png", "1200 x 400"),
        ("table[['amount', 'qty']]", "e.png", ", color='red', size=(6, 4)", "/results/e.png", "600 x 400"),
        ("pd.Series(range(500))", "f.png", ", kind='line'", "/results/f.png", "2000 x 500"),
        ("table.set_index('day').qty", "g.png", ", xlabel='', ylabel='$ _{^'", "/results/g.png", "800 x 500"),
    ],
)
def test_pictures(orders: Session, series: str, name: str, options: str, path: str, size: str) -> None:
    assert orders.run(f"_ = plot({series}, {name!r}{options})").endswith(f"saved {path}\n")
    kind = orders.backend.execute(f"file --brief {path}").output
    assert kind.startswith(f"PNG image data, {size}," if size else "SVG")


def test_a_picture_has_its_labels_and_leaves_no_figure_open(orders: Session) -> None:
    code = "print(plot(totals(table, 'region', 'amount'), 'l.svg', title='By region', ylabel='EUR'))"
    assert orders.run(code) == "region: counted as one: North = north\nsaved /results/l.svg\n/results/l.svg\n"
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", orders.backend.execute("cat /results/l.svg").output)
    assert {"By region", "EUR", "region", "North", "South", "(missing)"} <= set(texts)
    assert "pyplot" not in orders.run(
        "import sys; print([m for m in sys.modules if m == 'matplotlib.pyplot'])"
    )


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        ("latest(s, 'item', 'day')", [["b", 5, 9], ["a", 7, 4]]),
        ("latest(s, 'item', 'version')", [["b", 5, 9], ["a", 7, 4]]),
        ("latest(s, ['item', 'version'], 'day')", [["A ", 6, 3], ["b", 5, 9], ["a", 7, 4], ["a", 9, 1]]),
        ("latest(pd.concat([s, s]), 'item', 'day')", [["b", 5, 9], ["a", 7, 4]]),
    ],
)
def test_of_several_rows_for_one_thing_the_newest_is_kept(
    session: Session, call: str, rows: list[Any]
) -> None:
    session.run(
        "s = pd.DataFrame({'item': ['A ', 'b', 'a', 'b', 'a'], 'qty': [6, 5, 7, 2, 9],"
        " 'version': [3, 9, 4, 8, 1], 'day': ['2024-01-02', '2024-02-01', '2024-03-01', None, '2024-01-05']})"
    )
    *_, counted, found = session.run(
        f"show({call}[['item', 'qty', 'version']].astype(object).values.tolist())"
    ).splitlines()
    assert json.loads(found) == rows
    assert counted.startswith(f"latest: {len(rows)} of ")


@pytest.mark.parametrize(
    ("call", "rows", "said"),
    [
        (
            "merge(a, b)",
            [[1, "x", "p"], [2, "y", "q"]],
            "1 of 3 rows of the first table found no partner and are left out: 3",
        ),
        (
            "merge(a, b, on='k', how='left')",
            [[1, "x", "p"], [2, "y", "q"], [3, "z", None]],
            "are kept, with gaps: 3",
        ),
        ("merge(b, a, 'K')", [[1, "p", "x"], [2, "q", "y"]], ""),
        (
            "merge(b, c, left_on='k', right_on='no')",
            [[1, "p", 1, 7], [1, "p", 1, 8], [2, "q", 2, 9]],
            "2 rows became 3",
        ),
        (
            "merge(a, d)",
            [[1, "x", 5]],
            "2 of 3 rows of the first table found no partner and are left out: 2 y; 3 z",
        ),
    ],
)
def test_two_tables_are_joined_and_what_found_no_partner_is_said(
    session: Session, call: str, rows: list[Any], said: str
) -> None:
    session.run(
        "a = pd.DataFrame({'k': [1, 2, 3], 's': ['x', 'y', 'z']})\n"
        "b = pd.DataFrame({'k': [1, 2], 'm': ['p', 'q']})\n"
        "c = pd.DataFrame({'no': [1, 1, 2], 'n': [7, 8, 9]})\n"
        "d = pd.DataFrame({'k': [1], 's': ['x'], 'n': [5]})"
    )
    cells = f"{call}.astype(object).where(lambda t: t.notna(), None).values.tolist()"
    *printed, found = session.run(f"show({cells})").splitlines()
    assert json.loads(found) == rows
    assert len(printed) == bool(said)
    assert said in "".join(printed)


@pytest.mark.parametrize(
    ("options", "texts", "dots"),
    [
        ("", {"amount", "qty"}, 0),  # two columns have a legend
        (", kind='line', legend=False", set(), 0),
        (", kind='line', markers=True", {"amount", "qty"}, 12),
    ],
)
def test_a_legend_and_markers_are_there_where_they_are_wanted(
    orders: Session, options: str, texts: set[str], dots: int
) -> None:
    orders.run(f"_ = plot(table[['amount', 'qty']].fillna(1), 'm.svg', xlabel='', ylabel=''{options})")
    picture = orders.backend.execute("cat /results/m.svg").output
    assert {"amount", "qty"} & set(re.findall(r"<text[^>]*>([^<]*)</text>", picture)) == texts
    marks = re.findall(r'<g clip-path="[^"]*">\s*((?:<use [^>]*/>\s*)+)</g>', picture)
    assert sum(group.count("<use") for group in marks) == dots


def test_a_hundred_thousand_rows_are_read_within_bounds(session: Session) -> None:
    session.run(
        "with open('/data/large.csv', 'w') as file:\n"
        "    file.write('id,day,name,amount\\n')\n"
        "    for n in range(100_000):\n"
        "        day = f'2024-{n % 12 + 1:02}-{n % 28 + 1:02} {n % 24:02}:00'\n"
        "        file.write(f'{n},{day},Name {n % 999},\"${n / 7:,.2f}\"\\n')"
    )
    code = (
        "import resource; from skills.tables import *;"
        "table = load('/data/large.csv'); totals(table, 'name', 'amount');"
        "print(len(table), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    rows, kilobytes = session.backend.execute(f'python -c "{code}"').output.splitlines()[-1].split()
    assert (rows, int(kilobytes) < 500_000) == ("100000", True)
    session.run("import os; os.remove('/data/large.csv')")
