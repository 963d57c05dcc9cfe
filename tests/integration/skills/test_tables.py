"""`skills.tables` inside the container: types, printed notes, groups, periods and pictures."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend

pytestmark = pytest.mark.docker

START = """
import json
import pandas as pd
from skills.tables import in_period, load, per_period, plot, totals

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


def test_each_line_of_a_pdf_file_is_a_row(session: Session) -> None:
    session.run("from skills.pdf import generate\ngenerate('# Pumps\\n\\nPump B: 230 V', 'manual')")
    printed = session.run("t = load('/results/manual.pdf')\nshow(t[['page', 'c1', 'line']].values.tolist())")
    assert '[1, "B", "Pump B: 230 V"]' in printed
    path = session.put("%PDF-1.7 broken", "broken.pdf")
    assert "broken.pdf cannot be read as a PDF file" in session.run(f"load({path!r})")


def test_printed_notes_and_types_of_a_table(session: Session) -> None:
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
    assert session.show("{name: str(kind) for name, kind in table.dtypes.items()}") == {
        **{"id": "int64", "day": "datetime64[us]", "region": "str"},
        **{"amount": "float64", "qty": "int64", "note": "str"},
    }
    assert session.show("table.amount.fillna(-1).tolist()") == [1000.5, 2.25, -1, 3, 4, 4]
    assert session.show("table.region.isna().tolist()") == [False] * 4 + [True] * 2


def test_booleans_lists_and_empty_tables(session: Session) -> None:
    path = session.put(
        '[{"ok": true, "l": [1, 2]}, {"ok": null, "l": []}, {"ok": true, "l": [1, 2]}]', "a.json"
    )
    assert "repeats: 1 of 3 rows" in session.run(f"table = load({path!r})")
    assert session.show("[str(kind) for kind in table.dtypes]") == ["boolean", "object"]
    assert session.show("table.l.tolist()") == [[1, 2], [], [1, 2]]
    assert session.show("totals(table, 'ok')") == [["True", "(missing)"], [2, 1]]
    path = session.put("branch,sales\nA,1.5\nA,1.5\nA,2.5\nB,2.25\n")
    said = session.run(f"load({path!r});")
    assert "repeats: 1 of 4 rows are exact copies of earlier ones and are kept\n" in said, (
        "no row has a number"
    )
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


@pytest.mark.thorough
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
    session.put(b"PK\x03\x04 broken", "broken.xlsx")
    assert "broken.xlsx is damaged" in session.error("load('/data/broken.xlsx')")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'region'", [["North", "(missing)", "South"], [3, 2, 1]]),
        ("'region', 'amount'", [["North", "(missing)", "South"], [1005.75, 8, None]]),
        ("'region', 'qty', 'mean'", [["(missing)", "South", "North"], [5, 3, 2.3333333333333]]),
        (
            "'region', 'day', 'max'",
            [["North", "South", "(missing)"], ["2024-04-01 00:00:00", "2024-02-29 00:00:00", None]],
        ),
        ("'note', 'region', 'nunique'", [["x", "y", "(missing)"], [1, 1, 1]]),
        (
            "['region', 'note']",
            [[["North", "x"], ["(missing)", "x"], ["South", "y"], ["North", "(missing)"]], [2, 2, 1, 1]],
        ),
        ("' Region ', 'AMOUNT', top=1", [["North"], [1005.75]]),
    ],
)
def test_totals(orders: Session, arguments: str, expected: list[Any]) -> None:
    assert orders.show(f"totals(table, {arguments})") == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'amount'", [["2024-01", "2024-02", "2024-03", "2024-04"], [1002.75, None, 0, 3]]),
        ("", [["2024-01", "2024-02", "2024-03", "2024-04"], [2, 1, 0, 1]]),
        ("'qty', how='mean'", [["2024-01", "2024-02", "2024-03", "2024-04"], [1.5, 3, None, 4]]),
    ],
)
def test_totals_over_time(orders: Session, arguments: str, expected: list[Any]) -> None:
    assert orders.show(f"per_period(table, 'day', {arguments})") == expected


def test_weeks_and_hours_are_text_without_gaps(orders: Session) -> None:
    weeks, counts = orders.show("per_period(table, 'day', every='week')")
    assert (weeks[0], weeks[-1], len(weeks), sum(counts)) == ("2024-W01", "2024-W14", 14, 4)
    orders.run("times = pd.DataFrame({'t': ['2024-12-30T23:10:00Z', '2024-12-31T01:50:00Z']})")
    assert orders.show("per_period(times, 't', every='hour')") == [
        *(["2024-12-30 23:00", "2024-12-31 00:00", "2024-12-31 01:00"], [1, 0, 1])
    ]
    assert orders.show("per_period(times, 't', every='week')") == [["2025-W01"], [2]]
    assert orders.show("per_period(times[:0].assign(t=pd.to_datetime([])), 't')") == [[], []]


def test_errors_name_the_choices(orders: Session) -> None:
    for code, message in (
        ("totals(table, 'nope')", "no column 'nope'; the columns are: id, day, region, amount, qty, note"),
        ("totals(table, 'regions')", "did you mean 'region'?"),
        (
            "totals(table, 'region', 'qty', 'mode')",
            "how is one of sum, mean, median, min, max, count",
        ),
        ("totals(table, 'region', 'qty', top=0)", "top is how many groups to keep, 1 or more, not 0"),
        (
            "totals(table, 'region', 'note')",
            "is not a number but text: 'x', 'y', 'x'; columns with numbers",
        ),
        (
            "totals('/data/case.csv', 'region')",
            "the first argument is a table, as load(path) returns it",
        ),
        ("in_period(table, 'note', '2024')", "is not a date but 'x', 'y', 'x'; columns with dates: day"),
        ("per_period(table, 'day', every='decade')", "every is one of hour, day, week, month, quarter, year"),
        ("plot(table.region, 'x.png')", "region has no numbers; give a Series"),
        ("plot(totals(table, 'region'), '../x.png')", "leads out of /results"),
        ("plot(totals(table[:0], 'region', 'qty'), 'x.png')", "there is nothing to draw"),
        ("plot(5, 'x.png')", "give a Series, such as totals(table, 'region', 'amount')"),
    ):
        assert message in orders.error(code)


def test_text_column_is_converted_when_half_is_readable(session: Session) -> None:
    session.run("plain = pd.DataFrame({'d': ['2024-01-05', 'soon', '2024-02-01'], 'v': ['$1', '2', 'x']})")
    assert session.run("print(totals(plain, 'd', 'v').sum(), len(in_period(plain, 'd', '2024')))") == (
        "totals: could not be read, now missing: v 'x'\n"
        "in_period: could not be read, now missing: d 'soon'\n"
        "in_period: 1 of 3 rows without d are left out\n3.0 2\n"
    )


@pytest.mark.parametrize(
    ("series", "name", "options", "kind"),
    [
        ("{'x': 1, 'y': None}", "sub/d.png", ", size=(1200, 400)", "PNG image data, 1200 x 400"),
        ("table[['amount', 'qty']]", "results/e.png", ", 'line', color='red'", "PNG image data, 800 x 500"),
        ("table.set_index('day').qty", "/results/g.jpg", ", xlabel='', ylabel='$ _{^'", "JPEG image data"),
    ],
)
def test_pictures(orders: Session, series: str, name: str, options: str, kind: str) -> None:
    path = f"/results/{name.removeprefix('/').removeprefix('results/')}"
    assert orders.run(f"_ = plot({series}, {name!r}{options})").endswith(f"saved {path}\n")
    assert kind in orders.backend.execute(f"file --brief {path}").output


def test_picture_has_its_labels(orders: Session) -> None:
    code = "print(plot(totals(table, 'region', 'amount'), 'l.svg', title='By region', ylabel='EUR'))"
    assert orders.run(code) == "region: counted as one: North = north\nsaved /results/l.svg\n/results/l.svg\n"
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", orders.backend.execute("cat /results/l.svg").output)
    assert {"By region", "EUR", "region", "North", "South", "(missing)"} <= set(texts)


@pytest.mark.thorough
def test_hundred_thousand_rows_stay_within_500_mb(session: Session) -> None:
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


def test_period_without_rows_prints_the_range(orders: Session) -> None:
    assert orders.run("print(len(in_period(table, 'day', '2023')))") == (
        "in_period: 2 of 6 rows without day are left out\n"
        "in_period: no row in 2023; day has 2024-01-05 to 2024-04-01\n0\n"
    )


def test_row_labels_may_repeat(orders: Session) -> None:
    orders.run("twice = pd.concat([table, table]).iloc[::-1]")
    assert orders.show("per_period(twice, 'day', 'qty', 'year')") == [["2024"], [20]]
    assert orders.show("totals(twice, 'region', 'qty', top=1)") == [["(missing)"], [20]]
    assert orders.show("in_period(twice, 'day', '2024-02').id.tolist()") == [3, 3]


def test_a_bare_name_is_looked_for_in_data(session: Session) -> None:
    session.put("a\n1\n", "only-in-data.csv")
    assert session.run("_ = load('only-in-data.csv')").startswith("/data/only-in-data.csv: 1 row, 1 column\n")
    assert "did you mean /data/only-in-data.csv?" in session.error("load('/data/only_in_data.csv')")
