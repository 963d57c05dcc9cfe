"""The listing of the files in /data that a model reads before its first reply."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from libs.tablereader.list_folder import describe
from libs.tablereader.listed_columns import column

LIBS = Path(__file__).parents[3] / "libs"


def listing(folder: Path) -> str:
    command = [sys.executable, "-S", "-m", "tablereader.list_folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(LIBS)})
    return done.stdout.replace(f"{folder}/", "")


def columns(folder: Path, name: str, text: str) -> list[str]:
    """Return the lines about one file, without its name and size."""
    (folder / name).write_text(text)
    first, *lines = listing(folder).split("\n")
    return [first.partition(": ")[2], *lines]


def test_file_whose_state_is_unknown_does_not_end_the_listing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert describe(tmp_path / "removed", {}) is None
    assert describe(tmp_path / "file" / "closed", {}) == f"{tmp_path}/file/closed: cannot be read"


def test_table_is_described(tmp_path: Path) -> None:
    text = (
        "id,day,city,units,price,code\n"
        "1,2024-01-05,Rome,3,1.50,007\n"
        "2,2024-03-01,Oslo,-2,2,012\n"
        "3,2024-02-10,Rome,,10.25,100\n"
        "3,2024-02-10,Rome,,10.25,100\n"
    )
    assert columns(tmp_path, "a.csv", text) == [
        "4 rows, 1 of them exact repeats of another",
        "- id: whole numbers 1 to 3",
        "- day: dates 2024-01-05 to 2024-03-01",
        "- city: text: 'Rome' 3, 'Oslo' 1",
        "- units: whole numbers -2 to 3; 2 empty",
        "- price: numbers 1.5 to 10.25",
        "- code: text of digits such as '007', '012', '100'",
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["5", "$1.50", "n/a", ""], "1 whole numbers 5 to 5; 1 numbers written '$1.50'; 1 n/a; 1 empty"),
        (
            [*map(str, range(12)), "-999", "-999"],
            "whole numbers -999 to 11 (-999 2 times, far from all others)",
        ),
        (["1", "2", "900"], "whole numbers 1 to 900"),  # too few values for an outlier
        (["1.200,50", "3,99"], "numbers written '1.200,50', '3,99'"),
        (["5/13/2024", "1/2/2024"], "dates written month/day/year, such as 5/13/2024"),
        (["1 Feb 2024", "13 March 2024"], "dates written in words, such as 1 Feb 2024"),
        (["850g", "1.4 kg", "2 kg"], "numbers with a unit, such as '850g': kg 2, g 1"),
        (["5g", "4g"], "text: '5g' 1, '4g' 1"),
        (["1/2/2024", "3/4/2024"], "dates written day and month in unknown order, such as 1/2/2024"),
        (
            ["2024-05-01T10:00:00+02:00", "2024-05-02T10:00:00Z"],
            "times 2024-05-01T10:00:00+02:00 to 2024-05-02T10:00:00Z (in different UTC offsets)",
        ),
        (["O", " o ", "X"], "text (2 without regard to capitals and spaces): 'O' 1, ' o ' 1, 'X' 1"),
        ([f"word {n}" for n in range(9)], "text, 9 different, such as 'word 0', 'word 1', 'word 2'"),
    ],
)
def test_column_is_described(values: list[str], said: str) -> None:
    assert column(values) == said


def test_separators_and_encodings(tmp_path: Path) -> None:
    for name, content in {
        "a.csv": b'\xef\xbb\xbf"full, name"\r\nAda\r\n',
        "b.csv": b"id;name\n1;Ada\n",
        "c.tsv": b"id\tname\n",
        "d.csv": "name\nÅsa\n".encode("latin-1"),
        "e.csv": "id,text\n1,a\x0cb\u2028\n2,c\n".encode(),  # line ends of other programs
        "f.csv": b"id,text\n1,a\x85\n2,c\n",  # cp1252
        "g.jsonl": '{"id": "a\u2028b"}\r\n{"id": "c\x85"}\n'.encode(),
        "h.csv": b'id,text\r1,"a\rb"\r2,c\r',
        "i.csv.gz": gzip.compress(b"id\n1\n") + gzip.compress(b"2\n"),
        "j.csv.gz": gzip.compress(b"id\n1\n") + bytes(10),
    }.items():
        (tmp_path / name).write_bytes(content)
    lines = listing(tmp_path).split("\n")
    assert {"- full, name: text: 'Ada' 1", "- name: no values", "- name: text: 'Åsa' 1"} <= set(lines)
    heads = [line.partition(": ")[2].partition(", columns as in")[0] for line in lines if " bytes): " in line]
    assert heads == [
        "1 row",
        "separated by semicolons, 1 row",
        "separated by tabs, 0 rows",
        "not UTF-8 (latin-1?), 1 row",
        "2 rows",
        "not UTF-8 (latin-1?), 2 rows",
        "one JSON object a line: list of 2 objects",
        "2 rows",
        "the first 1 row",
        "1 row",
    ]


def test_columns_that_belong_together(tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("id,name\n" + "".join(f"{n},Name {n}\n" for n in range(10, 40)))
    (tmp_path / "orders.csv").write_text(
        "order,customer_id,units\n" + "".join(f"{n},{n % 25 + 12},{n % 5}\n" for n in range(50))
    )
    (tmp_path / "other.csv").write_text("grid,units\n900,7\n901,8\n")
    assert listing(tmp_path).split("\n")[-2:] == [
        "Columns that belong together:",
        "- customer_id of orders.csv: id of customers.csv",
    ]


def test_json_files(tmp_path: Path) -> None:
    orders = [
        {"id": n, "status": "paid", "who": {"country": "NO"}, "items": [{"sku": "A", "price": 1.5}]}
        for n in range(3)
    ]
    assert columns(tmp_path, "a.json", json.dumps({"orders": orders})) == [
        "object, its 'orders': list of 3 objects, a.b is b in the object a",
        "- id: whole numbers 0 to 2",
        "- status: text: 'paid' 3",
        "- who.country: text: 'NO' 3",
        "- items: list of {sku: text ('A'), price: number}",
    ]
    (tmp_path / "a.json").unlink()
    days = {f"2024-01-0{n}": {"high": n} for n in range(1, 6)}
    assert columns(tmp_path, "b.json", json.dumps(days)) == [
        "object with 5 keys ('2024-01-01', '2024-01-02', …), each {high: number}"
    ]
    (tmp_path / "b.json").unlink()
    assert columns(tmp_path, "c.jsonl", '{"at": "5"}\n{"code": null}\n') == [
        "one JSON object a line: list of 2 objects",
        "- at: whole numbers 5 to 5 in quotes; in 1 of them",
        "- code: 1 null; in 1 of them",
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1, "a", None, {"x": 1}], "list of number, text, null, object"),
        ([None, True, 1.5], "list of null, true/false, number"),
        ([[1], [], [2, "x"]], "list of list of number, text"),
        ([[{}, {"a": 1}], [{}]], "list of list of {a: number}"),
        ({f"k{i}": i or "t" for i in range(45)}, "and 5 more keys}"),
        ([{"a": 1}, {"a": "x"}, {"a": None}, {"a": [1]}], "- a: number, text, list"),
        ([{f"k{i}": i for i in range(45)}], "- and 5 more columns"),
    ],
)
def test_outline_of_json_says_what_it_leaves_out(tmp_path: Path, value: object, said: str) -> None:
    assert columns(tmp_path, "a.json", json.dumps(value))[-1].endswith(said)


def test_packed_file_without_its_end_is_said_to_be_cut(tmp_path: Path) -> None:
    text = "id\n" + "".join(f"{number}\n" for number in range(10_000))
    packed = gzip.compress(text.encode())
    (tmp_path / "a.csv.gz").write_bytes(packed)
    (tmp_path / "b.csv.gz").write_bytes(packed[: len(packed) // 2])
    said = listing(tmp_path)
    assert "a.csv.gz (" in said
    assert " bytes): 10,000 rows" in said
    assert said.count(" bytes): the packed file is cut, what is left: ") == 1


def test_tables_with_the_same_columns_take_few_lines(tmp_path: Path) -> None:
    names = ",".join(f"column{number}" for number in range(30))
    for number in range(60):
        (tmp_path / f"{number:02}.csv").write_text(f"{names}\n{'1,' * 29}1\n")
    said = listing(tmp_path)
    assert said.count("columns as in 00.csv") == 39
    assert said.endswith(f"and more: ls -R {tmp_path}")
    assert len(said) < 5_000


def test_other_files(tmp_path: Path) -> None:
    assert listing(tmp_path) == listing(tmp_path / "missing") == ""
    (tmp_path / "a.log").write_text("one\ntwo\nthree\nfour\n")
    (tmp_path / "c.pdf").write_bytes(b"%PDF-1.7\n")
    (tmp_path / "d.json").write_text("{broken")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "e.log").write_text("x" * 2_000)
    (tmp_path / "f.gz").write_bytes(b"not packed")
    (tmp_path / ".hidden").write_text("x")
    assert listing(tmp_path).split("\n") == [
        "a.log (19 bytes): 4 lines, beginning with",
        "  one",
        "  two",
        "  three",
        "c.pdf (9 bytes)",
        "d.json (7 bytes): cannot be read as what its name says",
        "1 lines, beginning with",
        "  {broken",
        "f.gz (10 bytes): cannot be read",
        "sub/e.log (2,000 bytes): 1 lines, beginning with",
        f"  {'x' * 159}…",
    ]


@pytest.mark.thorough
def test_only_the_beginning_of_a_large_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,word\n" + "".join(f"{n},same\n" for n in range(400_000)))
    said = listing(tmp_path)
    assert ": the first " in said
    assert "- n: whole numbers 0 to " in said
    assert "to 399999" not in said
    (tmp_path / "a.csv").unlink()
    (tmp_path / "b.jsonl").write_text('{"n": 1}\n' * 400_000)
    assert ": one JSON object a line, of the first 2 MB: list of 222,222 objects\n" in listing(tmp_path)


def test_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Its path is longer than a path may be."""
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        for _ in range(25):
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
    finally:
        os.chdir(here)
    (tmp_path / "a.log").write_text("one\n")
    first, second, *rest = listing(tmp_path).split("\n")
    assert (first, second) == ("a.log (4 bytes): 1 lines, beginning with", "  one")
    assert len(rest) == 1
    assert rest[0].endswith("/: this folder cannot be read")


def test_names_that_differ_in_foreign_bytes_are_listed_apart(tmp_path: Path) -> None:
    for name in (b"a\xff.log", b"a\xfe.log"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("")
    lines = listing(tmp_path).split("\n")
    assert len(lines) == len(set(lines)) == 2


def test_hostile_files_are_listed(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(",".join(f"column{n}" for n in range(500)) + "\n")
    (tmp_path / "long.csv").write_text("x" * 1_000_000)
    (tmp_path / "a\nb\x1b.csv").write_text("c\x07d\n")
    (tmp_path / "e.csv").write_text("name\n```\u202e\n")
    (tmp_path / "link.csv").symlink_to("/etc/passwd")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "deep2.json").write_text('{"a":' * 900 + "1" + "}" * 900)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "quotes.csv").write_text('"never closed,\n1,2\n')
    (tmp_path / "zeros.csv").write_bytes(b"a,b\0\n1,2\n")
    (tmp_path / "stars**{}.csv").write_text("id\n1\n")
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"0" * 50_000_000))
    subprocess.run(["mkfifo", tmp_path / "pipe.csv"], check=True)
    for number in range(100):
        (tmp_path / f"many{number}.txt").touch()
    said = listing(tmp_path)
    assert len(said) < 12_000
    assert "a?b?.csv (4 bytes): 0 rows\n- c?d: no values" in said
    assert "- and 460 more columns" in said
    assert "passwd" not in said
    assert "pipe" not in said
    assert "\u202e" not in said
    assert said.endswith(f"and more: ls -R {tmp_path}")


def test_file_larger_than_memory_costs_no_other_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(4 * 2**30)  # holes: it takes no room on the disk
    program = f"ulimit -v 500000; exec {sys.executable} -m tablereader.list_folder {tmp_path}"
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(LIBS)}
    )
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path}/a.csv (5 bytes): 1 row" in done.stdout
    assert f"{tmp_path}/huge.json (4,294,967,296 bytes)" in done.stdout
