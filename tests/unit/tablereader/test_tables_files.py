"""Files as `skills.tables` reads them: separators, encodings, names, rows, JSON and errors."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st


def day(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_german_file_in_every_encoding(read: Any) -> None:
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


@pytest.mark.parametrize(
    ("content", "columns", "notes"),
    [
        (
            "Report 2024;;\n\nname;value;x\nA;1,5;1\nB;2;2\n",
            {"name": ["A", "B"], "value": [1.5, 2], "x": [1, 2]},
            ["above the names: line 1: 'Report 2024'"],
        ),
        (
            "a,b,c\n1,2,3\na,b,c\n4,5\n6,7,8,9\n7,8,9,\n",
            {"a": [1, 4, 7], "b": [2, 5, 8], "c": [3, None, 9]},
            [
                "left out: 1 row, the names again, line 3",
                "left out: 1 row with more cells than names, line 5: '6 7 8 9'",
                "short: 1 row with fewer cells than names, line 4",
            ],
        ),
        ('a,b\n"say ""hi"", x","two\nlines"\n', {"a": ['say "hi", x'], "b": ["two\nlines"]}, []),
        (
            'a,b\n15" screen,1\n"open,2\n"x, y",3\n',
            {"a": ['15" screen', '"open', "x, y"], "b": [1, 2, 3]},
            ["quotation marks: not closed in line 3, where they are taken as they stand"],
        ),
        (
            "a,b\nMüller,1\n".encode() + "Größe €,2\n".encode("cp1252"),
            {"a": ["Müller", "Größe €"], "b": [1, 2]},
            ["letters: 3 bytes not in UTF-8, read as Latin"],
        ),
    ],
)
def test_odd_rows_are_read_and_noted(
    read: Any, content: str | bytes, columns: dict[str, list[Any]], notes: list[str]
) -> None:
    found = read(content)
    assert found.columns == columns
    assert found.lines[: len(notes)] == notes


def test_odd_values_are_listed(read: Any) -> None:
    rows = "".join(f"{n},North,{n}\n" for n in range(1, 40))
    found = read("id,region,n\n" + rows + "40,Nroth,-5\n41,Nort,100000\nTotal,,100775\n")
    assert "perhaps misspelled: region Nroth 1x (North?), Nort 1x (North?)" in found.lines
    assert "odd: n has 1 below zero, such as -5" in found.lines
    assert "totals: row 41 (Total) may be a sum of others; table = table.drop([41]) removes it" in found.lines
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
    for written_by_pandas in (
        '{"n": {"0": 1, "1": 2}, "t": {"0": "x", "1": "y"}}',
        '{"columns": ["n", "t"], "index": [0, 1], "data": [[1, "x"], [2, "y"]]}',
    ):
        assert read(written_by_pandas, "a.json").columns == {"n": [1, 2], "t": ["x", "y"]}
    assert read('{"n": 1, "t": {"u": 2}}', "a.json").columns == {"n": [1], "t.u": [2]}
    assert read('[["a", "b"], [1, null], [2, 3]]', "a.json").columns == {"a": [1, 2], "b": [None, 3]}
    equal = '[{"a": 1}, {"a": 1.0}, {"a": true}, {"a": "1"}]'
    assert read(equal, "a.json").columns["a"] == ["1", "1.0", "True", "1"]
    assert read('[{"n": NaN}, {"n": 2}, {"n": 3.5}]', "a.json").columns == {"n": [None, 2, 3.5]}


def test_objects_of_an_inner_list_become_rows(read: Any) -> None:
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


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_key_that_comes_twice_is_noted_and_a_long_integer_stays_text(read: Any, name: str) -> None:
    text = '{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', f'{{"a": {"9" * 5_000}}}'
    found = read("\n".join(text) if name == "a.jsonl" else f"[{', '.join(text)}]", name)
    assert found.columns["a"] == ["3", "9" * 5_000]
    assert found.columns["b.c"][0] == 2
    assert "keys: c, a twice in an object, the last value counts" in found.lines


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.json",
            '{"orders": [{"a": 1}], "x": {"customers": [{"b": 2}]}}',
            r"2 lists: orders, x\.customers\. Load one",
        ),
        ("a.json", "{} {", "not valid JSON: Extra data"),
        ("a.json", "[" * 100_000, "is nested too deeply"),
        ("a.csv", " \n\n", "is empty"),
        ("a.csv", b"a,b\n1,\0\n", "it reads CSV, TSV and other separated text, JSON"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9], "is damaged"),
    ],
)
def test_unreadable_file_is_refused(read: Any, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(content, name)


def test_error_for_a_missing_file_names_the_files_there(tables: Any, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("content", ["|", ",,,\n,,,\n", '""\n'])
def test_file_without_names_and_values_is_refused(read: Any, content: str) -> None:
    with pytest.raises(ValueError, match="no names and no values"):
        read(content)


@given(
    content=st.one_of(st.text(max_size=200), st.binary(max_size=200)),
    name=st.sampled_from(["a.csv", "a.json", "a"]),
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_random_file_is_read_or_refused(read: Any, content: str | bytes, name: str) -> None:
    content = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    assume(b"%PDF" not in content)  # only the image has the reader of PDF files
    try:
        found = read(content, name)
    except ValueError:
        return
    assert len({len(values) for values in found.columns.values()}) == 1


def test_pattern_reads_files_as_one_table(
    tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, files = tmp_path, tables("_files")
    (folder / "2023-01.csv").write_text("day,sold\n2023-01-05,3\n")
    (folder / "2023-02.csv").write_text("sold,day,note\n4,2023-02-01,late\n5,2023-02-02,\n")
    (folder / "a[1].csv").write_text("x\n1\n")
    raw = files.read_all(files.several(folder / "2023-*.csv"))
    assert raw.names == ["day", "sold", "note", "file"]
    assert raw.columns == [
        ["2023-01-05", "2023-02-01", "2023-02-02"],
        ["3", "4", "5"],
        [None, "late", ""],
        ["2023-01.csv", "2023-02.csv", "2023-02.csv"],
    ]
    assert raw.notes == ["2023-01.csv: has no note"]
    assert files.several(folder / "a[1].csv") == []  # one file with this name, not a pattern
    with pytest.raises(FileNotFoundError, match=r"no file is called like .*2024-\*\.csv; .* has: 2023-01\.c"):
        files.several(folder / "2024-*.csv")
    monkeypatch.setattr(files, "MAX_BYTES", 60)
    for name in ("big-1.csv", "big-2.csv"):
        (folder / name).write_text("n\n" + "123456789\n" * 5)
    with pytest.raises(ValueError, match="2 files have over 0 MB: load them one by one"):
        files.read_all(files.several(folder / "big-*.csv"))
    for name in ("north", "south"):
        (folder / name).mkdir()
        (folder / name / "shop.csv").write_text("file\n1\n")
    raw = files.read_all(files.several(folder / "*" / "shop.csv"))
    assert raw.names == ["file", "file_name"]
    assert raw.columns[1] == ["north/shop.csv", "south/shop.csv"]


def test_too_large_file_is_refused(tables: Any, read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables("_files"), "MAX_BYTES", 1000)
    for name, content in (("a.csv", b"a\n" * 501), ("a.csv.gz", gzip.compress(b"a\n" * 10**6))):
        with pytest.raises(ValueError, match="too much for load: use the scripts of /skills/csv-analytics"):
            read(content, name)


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
