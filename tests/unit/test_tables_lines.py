"""Logs as `skills.tables` reads them: a column for each word, and for each key of pairs such as a=1."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

ACCESS = """\
10.0.1.23 - - [25/May/2024:01:44:09 +0000] "GET /api/search HTTP/1.1" 404 4792
10.0.0.5 - - [21/May/2024:19:02:28 +0000] "GET /static/app.js HTTP/1.1" 304 1623

"""


@pytest.mark.parametrize("name", ["access.log", "access.log.1", "access.log.2.gz", "access.out"])
def test_a_log_has_a_column_for_each_word(read: Any, name: str) -> None:
    content = gzip.compress(ACCESS.encode()) if name.endswith(".gz") else ACCESS
    found = read(content, name)
    assert list(found.columns) == [*(f"c{index}" for index in range(10)), "line"]
    assert found.columns["c0"] == ["10.0.1.23", "10.0.0.5"]
    assert found.columns["c5"] == ["GET", "GET"]
    assert found.columns["c6"] == ["/api/search", "/static/app.js"]
    assert found.columns["c8"] == [404, 304]
    assert found.columns["line"] == ACCESS.splitlines()[:2]


@pytest.mark.parametrize(
    ("word", "bare"),
    [
        ('"GET', "GET"),
        ("[25/May/2024", "25/May/2024"),
        ("+0000]", "+0000"),
        ("sshd[702]:", "sshd[702]"),
        ("payment:", "payment"),
        ("(a)", "(a)"),
        ("10:44:09", "10:44:09"),
        ("::1", "::1"),
        ('"', ""),
        ("", ""),
    ],
)
def test_a_word_without_its_marks(tables: Any, word: str, bare: str) -> None:
    assert tables("_lines").bare(word) == bare


def test_lines_of_different_length(read: Any) -> None:
    found = read("a b c\nd\n" + " ".join(map(str, range(60))) + "\n", "a.log")
    assert list(found.columns)[-2:] == ["c29", "line"]
    assert found.columns["c1"] == ["b", None, "1"]


JOBS = """\
2024-04-02 08:51:05 printed job=1200 user=tom note="two sides" took=35ms
2024-04-02 09:17:56 printed job=1201 user=maria took=7ms
2024-04-02 09:20:00 paused
"""


def test_pairs_are_columns_and_no_words(read: Any) -> None:
    found = read(JOBS, "jobs.log")
    assert list(found.columns) == ["c0", "c1", "c2", "c3", "c4", "job", "user", "took", "line"]
    assert found.columns["c2"] == ["printed", "printed", "paused"]
    assert found.columns["job"] == [1200, 1201, None]
    assert found.columns["user"] == ["tom", "maria", None]
    assert found.columns["took"] == [35, 7, None]
    assert found.columns["line"] == JOBS.splitlines()


def test_a_value_in_quotation_marks_has_its_spaces(read: Any) -> None:
    found = read("level=info msg=\"paper is out\" tray=2\nlevel=warn msg='ink is low' tray=\n", "a.log")
    assert found.columns["msg"] == ["paper is out", "ink is low"]
    assert found.columns["tray"] == [2, None]
    assert list(found.columns) == ["level", "msg", "tray", "line"]


@pytest.mark.parametrize(
    "line",
    [
        "GET /a?x=1&y=2 HTTP/1.1",
        "1=2 and a==b",
        "c0=1 line=2",
        "http://a.example/?q=1",
    ],
)
def test_what_is_no_pair_stays_a_word(read: Any, line: str) -> None:
    found = read(f"{line}\n{line}\n", "a.log")
    assert [name for name in found.columns if not name.startswith("c")] == ["line"]


def test_what_one_line_in_many_has_is_no_column(read: Any) -> None:
    found = read("a b\n" * 30 + "a x=1\n", "a.log")
    assert list(found.columns) == ["c0", "c1", "line"]
    assert found.columns["c1"][-1] == "x=1"
