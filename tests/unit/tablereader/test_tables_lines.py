"""Logs as `skills.tables` reads them: a column for each word and for each key of pairs such as a=1."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

ACCESS = """\
10.0.1.23 - - [25/May/2024:01:44:09 +0000] "GET /api/search HTTP/1.1" 404 4792
10.0.0.5 - - [21/May/2024:19:02:28 +0000] "GET /static/app.js HTTP/1.1" 304 1623

"""


@pytest.mark.parametrize("name", ["access.log", "access.log.2.gz", "access.out"])
def test_each_word_of_a_log_line_is_a_column(read: Any, name: str) -> None:
    content = gzip.compress(ACCESS.encode()) if name.endswith(".gz") else ACCESS
    found = read(content, name)
    assert list(found.columns) == [*(f"c{index}" for index in range(10)), "line"]
    assert found.columns["c0"] == ["10.0.1.23", "10.0.0.5"]
    assert found.columns["c5"] == ["GET", "GET"]
    assert found.columns["c6"] == ["/api/search", "/static/app.js"]
    assert found.columns["c8"] == [404, 304]
    assert found.columns["line"] == ACCESS.splitlines()[:2]


JOBS = """\
2024-04-02 08:51:05 printed job=1200 user=tom note="two sides" took=35ms
2024-04-02 09:17:56 printed job=1201 user=maria took=7ms
2024-04-02 09:20:00 paused
"""


def test_each_key_of_pairs_is_a_column(read: Any) -> None:
    found = read(JOBS, "jobs.log")
    assert list(found.columns) == ["c0", "c1", "c2", "c3", "c4", "job", "user", "took", "line"]
    assert found.columns["c2"] == ["printed", "printed", "paused"]
    assert found.columns["job"] == [1200, 1201, None]
    assert found.columns["user"] == ["tom", "maria", None]
    assert found.columns["took"] == [35, 7, None]
    assert found.columns["line"] == JOBS.splitlines()
    found = read("level=info msg=\"paper is out\" tray=2\nlevel=warn msg='ink is low' tray=\n", "a.log")
    assert found.columns["msg"] == ["paper is out", "ink is low"]
    assert found.columns["tray"] == [2, None]
    found = read("a b\n" * 30 + "a x=1\n", "a.log")
    assert list(found.columns) == ["c0", "c1", "line"], "one line in 31 makes no column"


@pytest.mark.parametrize(
    "line", ["GET /a?x=1&y=2 HTTP/1.1", "1=2 and a==b", "c0=1 line=2", "http://a.example/?q=1"]
)
def test_words_that_are_no_pair_stay_words(read: Any, line: str) -> None:
    found = read(f"{line}\n{line}\n", "a.log")
    assert [name for name in found.columns if not name.startswith("c")] == ["line"]
