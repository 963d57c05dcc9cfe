"""Answers of listings and searches are shown with what they leave out, and with marks for odd paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from libs.backends.docker import deepagents_results
from libs.redaction import SecretFilter
from libs.sandbox import FileFailed
from libs.sandbox.guest.files.search import grep
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.requests.redacted_results import redacted_answer
from tests.support.canary_texts import KNOWN, MARK, TOKEN


def test_name_with_a_line_end_is_not_taken_for_another_path(tmp_path: Path) -> None:
    (tmp_path / "a\n").mkdir()
    (tmp_path / "a\n" / "b\r").write_text("needle")
    answer = grep(str(tmp_path), "needle", None, None)
    matches = deepagents_results.grep("/", (answer, b"")).matches or []
    assert [match["path"] for match in matches] == [
        rf"{tmp_path}/a\n/b\r // [the name has a line end, shown here as \n or \r]"
    ]


def test_answer_of_another_shape_is_redacted_as_it_is() -> None:
    """A program may have replaced the process that answers."""
    answer = {"entries": 3, "paths": [1, TOKEN], "matches": [{"text": TOKEN}], "unread_first": None}
    shown = {"entries": 3, "paths": [1, MARK], "matches": [{"text": MARK}], "unread_first": None}
    assert redacted_answer(KNOWN, answer) == {**shown, "hidden": [MARK]}


def test_matches_of_the_workspace_stay_if_the_search_of_the_system_fails() -> None:
    failed = FileFailed("failed", "killed")
    paths = deepagents_results.joined(({"paths": ["/workspace/tmp/a"], "cut": None}, b""), failed)
    found = deepagents_results.glob(None, paths)
    assert [match["path"] for match in found.matches or []] == ["/workspace/tmp/a"]
    assert (found.error, found.truncated, found.truncation_reason) == (None, True, "unreadable")
    one = {"path": "/workspace/tmp/a", "line": 1, "text": "x"}
    lines = {"matches": [one], "cut": False, "unread": 0, "unread_first": []}
    match = deepagents_results.grep(None, deepagents_results.joined((lines, b""), failed))
    assert (match.error, match.truncated, match.matches) == (None, True, [one])
    assert deepagents_results.joined(failed, (lines, b"")) == (lines, b"")


def test_name_with_a_known_secret_is_marked_as_unreachable(tmp_path: Path) -> None:
    for name in (TOKEN, "a.txt"):
        (tmp_path / name).write_text("needle")
    with LocalSandbox(tmp_path, redact=KNOWN) as sandbox:
        listed = deepagents_results.ls("/", sandbox.file("ls", path=str(tmp_path))).entries
        named = deepagents_results.glob("/", sandbox.file("glob", path=str(tmp_path), pattern="*")).matches
        lines = sandbox.file("grep", path=str(tmp_path), text="needle", pattern=None, most=None)
        found = deepagents_results.grep("/", lines).matches
    mark = " // [the name holds a known secret: only a command reaches it, as with *]"
    shown = [f"{tmp_path}/{MARK}{mark}", f"{tmp_path}/a.txt"]
    for answer in (listed, named, found):
        assert sorted(item["path"] for item in answer or []) == shown


def test_page_without_a_secret_of_several_lines_has_as_many_lines_as_the_file(tmp_path: Path) -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----"
    (tmp_path / "settings").write_text(f"a\nkey: {key}\nhost: b\n")
    with LocalSandbox(tmp_path, redact=SecretFilter({"KEY": key})) as sandbox:
        page, _ = sandbox.file("page", path=str(tmp_path / "settings"), offset=0, limit=9, text=True)
    assert page["content"].splitlines() == ["a", f"key: {MARK}", MARK, MARK, "host: b"]
    assert (page["start"], page["end"], page["total"]) == (1, 5, 5)


def test_edit_of_a_known_secret_as_it_is_shown_says_what_the_mark_stands_for() -> None:
    failed = FileFailed("not_found", "")
    said = deepagents_results.edit("/a", f"KEY={MARK}", failed).error
    assert said is not None
    assert said.endswith("name only the text around it, or use a command.")
    assert deepagents_results.edit("/a", "KEY=", failed).error == "Error: String not found in file: 'KEY='"


@pytest.mark.parametrize(
    ("cut", "told"),
    [
        (False, "folders named .git or .output, and linked folders, are left out."),
        (True, "The search was also cut: there may be more matches."),
    ],
)
def test_search_without_a_match_says_only_what_is_known(cut: bool, told: str) -> None:
    found = {"matches": [], "cut": cut, "unread": 1, "unread_first": ["/a"]}
    answer = str(deepagents_results.grep("/", (found, b"")).error)
    assert ": 1 (/a). " in answer
    assert answer.endswith(told)


def test_name_that_looks_like_a_marked_one_has_no_mark() -> None:
    raw = "/a\udcff"
    mark = listed(raw)[0].removeprefix("/a\\xff")
    assert mark == " // [not UTF-8: only a command reaches this name]"
    alike = f"/a\\xff{mark.replace(' // ', ' ')}"
    assert listed(raw, alike) == [f"/a\\xff{mark}", alike]


def test_path_that_no_file_tool_takes_is_marked() -> None:
    """A folder whose path just fits holds names whose paths do not."""
    fits = "/\xe9" + "/a" * 2046
    long = f"{fits}a"
    assert listed(fits, long) == [
        fits,
        f"{long} // [over 4,095 bytes: only a command that changes to its folder reaches it]",
    ]


def listed(*paths: str) -> list[str]:
    entries = [{"path": path, "is_dir": False} for path in paths]
    shown = deepagents_results.ls("/", ({"entries": entries, "cut": False}, b"")).entries or []
    return [entry["path"] for entry in shown]


@pytest.mark.parametrize("modified", [99_999_999_999_999, -99_999_999_999_999, 1e300])
def test_impossible_time_of_a_file_is_left_out(modified: float) -> None:
    entry = {"path": "/a", "is_dir": False, "size": 1, "modified": modified}
    listed = deepagents_results.ls("/", ({"entries": [entry], "cut": False}, b""))
    assert listed.entries == [{"path": "/a", "is_dir": False, "size": 1}]


def test_line_that_is_cut_is_marked() -> None:
    match = {"path": "/a", "line": 1, "text": "x", "cut_after": "text"}
    found = {"matches": [match], "cut": False, "unread": 0, "unread_first": []}
    answer = deepagents_results.grep("/", (found, b""))
    assert [each["text"] for each in answer.matches or []] == ["x [the line continues]"]


def test_line_with_bytes_that_are_not_utf_8_is_marked(tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(b"caf\xe9 needle\ncaf\xc3\xa9 needle\n\xef\xbf\xbd needle\n")
    answer = deepagents_results.grep("/", (grep(str(tmp_path), "needle", None, None), b""))
    assert [each["text"] for each in answer.matches or []] == [
        "caf\ufffd needle [bytes that are not UTF-8 are shown as \ufffd]",
        "caf\xe9 needle",
        "\ufffd needle",
    ]
