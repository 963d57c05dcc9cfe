"""`skills.tables` inside the container: how files are loaded, and the printed notes."""

from __future__ import annotations

import re

import pytest

from tests.integration.skills.table_session import ORDERS, Session

pytestmark = pytest.mark.docker


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


def test_a_bare_name_is_looked_for_in_data(session: Session) -> None:
    session.put("a\n1\n", "only-in-data.csv")
    assert session.run("_ = load('only-in-data.csv')").startswith("/data/only-in-data.csv: 1 row, 1 column\n")
    assert "did you mean /data/only-in-data.csv?" in session.error("load('/data/only_in_data.csv')")
