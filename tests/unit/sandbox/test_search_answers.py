"""Listings and searches are bounded, return what they found, and say what they left out."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from libs.backends.docker import deepagents_results
from libs.sandbox.guest.files import matching_lines, search
from libs.sandbox.guest.files.search import glob, grep, ls
from libs.sandbox.guest.files.text_files import read_page

MIB = 1 << 20
BINARY = "[a binary file matches]"


@pytest.mark.thorough
def test_time_is_linear_in_the_length_of_a_text_of_several_lines(tmp_path: Path) -> None:
    def seconds(length: int) -> float:
        text = f"{'a' * length}\nb\n{'c' * length}"
        (tmp_path / "text").write_text(f"x\n{text}d\n")
        (tmp_path / "binary").write_bytes(b"\0\n" + text.replace("\n", "\r\n").encode())
        (tmp_path / "wide").write_bytes(f"x{text}".encode("utf-16"))
        begin = time.process_time()
        answer = grep(str(tmp_path), text, None, None)
        end = time.process_time()
        assert [Path(match["path"]).name for match in answer["matches"]] == ["binary", "text", "wide"]
        return end - begin

    # Linear: 8 to 10, quadratic: 40 to 64. A busy machine may take three times as long for one of the two.
    assert any(seconds(48_000) < 24 * seconds(6_000) for _ in range(3))


def test_long_text_is_searched_for_at_once(tmp_path: Path) -> None:
    """No time limit ends what happens before the first file."""
    text = "\n".join(["\u65e5" * 999] * 100)
    (tmp_path / "wide").write_bytes(f"x{text}".encode("utf-16"))
    begin = time.process_time()
    answer = grep(str(tmp_path), text, None, None)
    assert time.process_time() - begin < 1
    assert len(answer["matches"]) == 1


def test_text_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the text has 100,001 characters: search for at most 100,000"):
        grep(str(tmp_path), "a" * 100_001, None, None)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a\nneedle\n", [(2, "needle")]),
        (b"\xef\xbb\xbfneedle\r\n", [(1, "\ufeffneedle")]),
        (b"a\nneedle\0\nneedle", [(2, BINARY)]),
        (b"needle\n" + bytes(3 * MIB) + b"\nneedle", [(1, BINARY)]),
        (b"needle\n" + b"a" * MIB + b"\n\0\nneedle", [(1, "needle"), (4, BINARY)]),
        (bytes(2 * MIB - 3) + b"needle", [(1, BINARY)]),
        ("\ufeffa\nneedle\n".encode("utf-16-le"), [(2, BINARY)]),
        ("\ufeffneedle".encode("utf-16-be"), [(1, BINARY)]),
        (bytes(2 * MIB), []),
        (b"", []),
    ],
)
def test_grep_finds_text_in_every_kind_of_file(
    tmp_path: Path, content: bytes, found: list[tuple[int, str]]
) -> None:
    (tmp_path / "file").write_bytes(content)
    answer = grep(str(tmp_path), "needle", None, None)
    assert [(match["line"], match["text"]) for match in answer["matches"]] == found
    assert (answer["cut"], answer["unread"]) == (False, 0)


def test_binary_file_matches_at_the_line_of_its_page(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\0\r" + b"a" * (MIB - 3) + b"\r" + b"\r\nneedle")
    assert [match["line"] for match in grep(str(tmp_path), "needle", None, None)["matches"]] == [4]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_grep_finds_wide_text_across_two_blocks(tmp_path: Path, encoding: str) -> None:
    """U+4E0A has the byte of a line end."""
    (tmp_path / "file").write_bytes(("\ufeff" + "a" * (MIB // 2 - 2) + "\u4e0a\u6d77\n").encode(encoding))
    assert len(grep(str(tmp_path), "\u4e0a\u6d77", None, None)["matches"]) == 1


@pytest.mark.parametrize(
    ("content", "text", "lines"),
    [
        ("\u4e00\u4e00", "N", []),  # the end of one character and the begin of the next
        ("\u4e00\u4e00N", "N", [1]),
        ("\u0a05\u0a05\nN", "N", [2]),  # U+0A05 has the byte of a line end
        ("\u4e2d\u6587", "\u6587", [1]),  # no byte is zero
        ("\u4e00" * (MIB // 2) + "\u0a05\nN", "N", [2]),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_grep_takes_wide_units_for_characters(
    tmp_path: Path, encoding: str, content: str, text: str, lines: list[int]
) -> None:
    (tmp_path / "file").write_bytes(("\ufeff" + content).encode(encoding))
    found = grep(str(tmp_path), text, None, None)["matches"]
    assert [(match["line"], match["text"]) for match in found] == [(line, BINARY) for line in lines]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\nb", [(1, "a"), (4, "xa")]),
        ("a\nb\n\nx", [(1, "a")]),
        ("\nx", [(3, "")]),
        ("b\n", [(2, "b")]),
        ("a\r\nb", [(1, "a"), (4, "xa")]),
        ("b\na", []),
    ],
)
def test_grep_finds_text_of_several_lines_as_a_page_shows_it(
    tmp_path: Path, text: str, found: list[tuple[int, str]]
) -> None:
    (tmp_path / "file").write_bytes(b"a\r\nb\n\nxa\nbx")
    answer = grep(str(tmp_path), text, None, None)
    assert [(match["line"], match["text"]) for match in answer["matches"]] == found


@pytest.mark.parametrize("begin", [0, MIB - 4, MIB - 3, MIB - 2, MIB - 1])
def test_lines_are_counted_as_a_page_counts_them(tmp_path: Path, begin: int) -> None:
    """Progress bars end their lines with carriage returns."""
    file = tmp_path / "log"
    file.write_bytes(b"x" * begin + b"1%\r2%\r\nneedle\rneedle 2\r\r\nneedle\r")
    answer = grep(str(file), "needle", None, None)
    found = [(match["line"], match["text"]) for match in answer["matches"]]
    assert found == [(3, "needle"), (4, "needle 2"), (6, "needle")]
    if not begin:
        for line, text in found:
            assert read_page(str(file), line - 1, 1, text=True)["content"] == text
    assert [match["line"] for match in grep(str(file), "2%\nneedle", None, None)["matches"]] == [2]


def test_text_of_several_lines_is_found_in_every_encoding(tmp_path: Path) -> None:
    text = "a\nneedle\r\nb\rneedle\rb\0"
    for name, content in (
        ("bytes", text.encode()),
        ("little", ("\ufeff" + text).encode("utf-16-le")),
        ("big", ("\ufeff" + text).encode("utf-16-be")),
    ):
        (tmp_path / name).write_bytes(content)
    for searched in ("a\nneedle", "needle\nb", "needle\r\nb", "b\nneedle\nb"):
        assert len(grep(str(tmp_path), searched, None, None)["matches"]) == 3


@pytest.mark.parametrize("before", range(MIB - 8, MIB + 2))
def test_grep_finds_text_of_several_lines_across_two_blocks(tmp_path: Path, before: int) -> None:
    """In text, and in a binary file."""
    (tmp_path / "text").write_bytes(b"\n" * before + b"ab\n\ncd\nx\nab\n\ncd")
    (tmp_path / "binary").write_bytes(b"\0" + b"\n" * (before - 1) + b"ab\n\ncd\n")
    answer = grep(str(tmp_path), "ab\n\ncd", None, None)
    assert sorted(match["line"] for match in answer["matches"]) == [before, before + 1, before + 5]


def test_folders_before_the_first_wildcard_may_be_links(tmp_path: Path) -> None:
    """Each file is found once, and only folders that can hold a match are read."""
    root = tmp_path / "root"
    (root / "data" / "sub").mkdir(parents=True)
    (root / ".git").mkdir()
    for name in ("a.csv", "data/b.csv", "data/sub/c.csv", ".git/config"):
        (root / name).write_text("needle")
    (root / "link").symlink_to("data")
    (root / "data" / "inner").symlink_to("sub")
    (root / "circle").symlink_to("circle")
    for pattern, names in (
        ("link/*.csv", ["link/b.csv"]),
        ("/link/inner/*", ["link/inner/c.csv"]),
        ("link/**/*.csv", ["link/b.csv", "link/sub/c.csv"]),
        ("{data,data/sub,link}/**/c*", ["data/sub/c.csv", "link/sub/c.csv"]),
        ("*/b.csv", ["data/b.csv"]),
        (".git/*", [".git/config"]),
        ("a.csv/*", []),
        ("missing/*", []),
    ):
        assert glob(str(root), pattern) == {"paths": [f"{root}/{name}" for name in names], "cut": None}
        found = grep(str(root), "needle", pattern, None)
        assert sorted(match["path"] for match in found["matches"]) == [f"{root}/{name}" for name in names]
    assert glob(str(root), "circle/*") == {"paths": [], "cut": "unreadable"}
    for path, error in ((root / "missing", FileNotFoundError), (root / "a.csv", NotADirectoryError)):
        with pytest.raises(error):
            glob(str(path), "data/*")


def test_large_binary_file_is_named_as_not_searched(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    (tmp_path / "text").write_text("needle")
    answer = grep(str(tmp_path), "needle", None, None)
    assert len(answer["matches"]) == 1
    assert (answer["cut"], answer["unread_first"]) == (False, [f"{tmp_path}/sparse"])
    assert grep(f"{tmp_path}/sparse", "x", None, None)["unread_first"] == [f"{tmp_path}/sparse"]


def test_file_with_a_very_long_line_is_named_as_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching_lines, "_LONGEST_LINE", 2 * MIB)
    (tmp_path / "long").write_text("needle\n" + "x" * 4 * MIB + "\nneedle\n")
    (tmp_path / "short").write_text("needle\n")
    answer = grep(str(tmp_path), "needle", None, None)
    assert [match["line"] for match in answer["matches"]] == [1, 1]
    assert (answer["cut"], answer["unread_first"]) == (False, [f"{tmp_path}/long"])
    assert "have lines of over 16 MB" in str(deepagents_results.grep("/", (answer, b"")).error)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("\n", "only ends of lines"),
        ("a\n" * 100, "101 lines"),
        ("a\n" + "b" * 100_000, "100,002 characters"),
    ],
)
def test_grep_refuses_text_that_it_cannot_search_for(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        grep(str(tmp_path), text, None, None)


def test_folder_with_a_dot_is_searched_by_grep_and_not_by_glob(tmp_path: Path) -> None:
    file = tmp_path / ".github" / "workflows" / "ci.yml"
    file.parent.mkdir(parents=True)
    file.write_text("needle")
    for pattern in ("*.yml", "**/*.yml", "**/workflows/*", "**"):
        assert [each["path"] for each in grep(str(tmp_path), "needle", pattern, None)["matches"]] == [
            str(file)
        ]
    assert glob(str(tmp_path), "**/*.yml")["paths"] == []


def test_search_of_one_folder_stops_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_SECONDS", 0.2)
    for number in range(3_000):
        (tmp_path / f"{number}").touch()
    slow = "{" + ",".join(f"*{number}x*y" for number in range(1_000)) + "}"
    assert glob(str(tmp_path), slow) == {"paths": [], "cut": "budget"}
    assert grep(str(tmp_path), "x", slow, None)["cut"] is True


def test_answers_that_are_too_long_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / f"{number}").write_text("needle")
    monkeypatch.setattr(search, "_MOST_ANSWER", 500)
    found = glob(str(tmp_path), "*")
    assert 0 < len(found["paths"]) < 50
    assert found["cut"] == "budget"
    answer = grep(str(tmp_path), "needle", None, None)
    assert 0 < len(answer["matches"]) < 50
    assert answer["cut"] is True
    listed = ls(str(tmp_path))
    assert 0 < len(listed["entries"]) < 50
    assert listed["cut"] is True
    names = [Path(entry["path"]).name for entry in listed["entries"]]
    assert names == sorted(map(str, range(50)))[: len(names)], "the first ones: none in between is missing"
    shown = deepagents_results.ls("/a", (listed, b"")).entries or []
    last = f"/a // [only {len(shown) - 1} entries are listed: find the others with glob or a command]"
    assert shown[-1]["path"] == last
