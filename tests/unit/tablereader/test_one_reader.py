"""Skills, the listing of /data and the page read a CSV file in the same way."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from libs.tablereader import OpenTable, number

LIBS = Path(__file__).parents[3] / "libs"


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        # The first line alone has more commas than semicolons.
        (b"a, b, c;d\n1;2\n3;4\n", {"a, b, c": [1, 3], "d": [2, 4]}),
        # Lines above the names; a file without names.
        (b"Report 2024;;\n\nname;n;m\nA;1,5;2\nB;2;3\n", {"name": ["A", "B"], "n": [1.5, 2], "m": [2, 3]}),
        (b"1,2.5\n2,3.5\n", {"column_1": [1, 2], "column_2": [2.5, 3.5]}),
        # UTF-16; single bytes that are not UTF-8.
        ("n;t\r\n1;ä\r\n".encode("utf-16"), {"n": [1], "t": ["ä"]}),
        ("t,n\nMüller,1\n".encode() + "Größe,2\n".encode("cp1252"), {"t": ["Müller", "Größe"], "n": [1, 2]}),
        # A quotation mark that is never closed.
        (b'a,b\n"open,1\nx,2\n', {"a": ['"open', "x"], "b": [1, 2]}),
        # Lines that end with a carriage return; the separator as Excel states it.
        (b"a,b\r1,2\r", {"a": [1], "b": [2]}),
        (b"sep=;\r\na;b\r\n1,5;2\r\n", {"a": [1.5], "b": [2]}),
    ],
)
def test_all_readers_find_the_same_columns(
    read: Any, tmp_path: Path, content: bytes, columns: dict[str, list[Any]]
) -> None:
    assert read(content).columns == columns
    listed = subprocess.run(
        [sys.executable, "-S", "-m", "tablereader.list_folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(LIBS)},
    ).stdout
    names = [line[2:].partition(": ")[0] for line in listed.splitlines() if line.startswith("- ")]
    assert [name for name in names if not name.startswith("(")] == list(columns)
    with OpenTable((tmp_path / "case.csv").open("rb")) as opened:
        assert opened.names == list(columns)
        assert len(list(opened.body())) == len(next(iter(columns.values())))


def test_file_longer_than_its_head_is_read_to_the_end(tmp_path: Path) -> None:
    rows = 400
    (tmp_path / "a.csv").write_text("n;t\n" + "".join(f'{n};"two\nlines"\n' for n in range(rows)))
    with OpenTable((tmp_path / "a.csv").open("rb"), head_bytes=100) as opened:
        found = list(opened.body())
    assert [cells for _, cells in found] == [[str(n), "two\nlines"] for n in range(rows)]


@pytest.mark.parametrize("text", ["9" * 5_000, "1,000" * 2_000, "1" * 400 + ".5", "1.5e+400", "9" * 301])
def test_value_that_no_number_can_hold_stays_text(text: str) -> None:
    assert number(text) is None


def test_names_that_repeat_take_linear_time() -> None:
    """A quadratic search for free names would take minutes."""
    begun = time.process_time()
    with OpenTable(io.BytesIO(b"a,b_2,b," + b"b," * 50_000 + b"\n")) as table:
        assert table.names[:5] == ["a", "b_2", "b", "b_3", "b_4"]
        assert len(set(table.names)) == len(table.names)
    assert time.process_time() - begun < 10
