"""`code-agent rewind` after the program that ran the turns has ended: each call is a program of its own."""

from __future__ import annotations

import json

import pytest

from libs.persistence.locked_thread import thread_lock
from tests.clients.cli_program import Program, execute

pytestmark = pytest.mark.docker


def go(program: Program, words: str) -> None:
    program.lines("--approve", "auto", "--thread", "t", words)


def files(program: Program) -> dict[str, str]:
    folder = program.workspace / "results"
    return {path.name: path.read_text() for path in folder.iterdir()}


def rewind(program: Program, *arguments: str, status: int = 0) -> str:
    done = program.run("rewind", "t", *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def words(program: Program) -> list[str]:
    return [turn["words"] for turn in json.loads(rewind(program, "--json"))["turns"]]


@pytest.fixture
def two_turns(program: Program) -> Program:
    """Two turns, and a file that a person saved after them."""
    first = execute("echo 1 > /results/a; echo 1 > /results/gone")
    second = execute("cat /results/*; echo 2 > /results/a; rm /results/gone; echo 2 > /results/new")
    program.script(first, "First.", second, "Second.", second, "Again.")
    go(program, "make files")
    go(program, "spoil files")
    (program.workspace / "results" / "report").write_text("mine")
    return program


SPOILT = {"a": "2\n", "new": "2\n", "report": "mine"}
BACK = {"a": "1\n", "gone": "1\n", "report": "mine"}


@pytest.mark.thorough
def test_conversation_and_files_go_back_and_forward(two_turns: Program) -> None:
    (two_turns.folder / "script.yaml").unlink()  # no model is asked
    turns = json.loads(rewind(two_turns, "--json"))["turns"]
    assert [turn["number"] for turn in turns] == [0, 1, 2]
    assert turns[1]["files"] == {
        "created": ["/results/a", "/results/gone"],
        "changed": [],
        "deleted": [],
        "not_kept": {},
    }
    assert turns[2]["files"] == {
        "created": ["/results/new"],
        "changed": ["/results/a"],
        "deleted": ["/results/gone"],
        "not_kept": {},
    }
    told = rewind(two_turns, "--to", "1", "--dry-run")
    assert told.splitlines() == [
        "/results/gone  would be brought back",
        "/results/a  would be changed back",
        "/results/new  would be deleted",
        "/results/report  would be kept: it was changed by somebody else",
        "Nothing was changed.",
    ]
    assert files(two_turns) == SPOILT

    assert "--undo` takes this back" in rewind(two_turns, "--to", "1", "--yes")
    assert (files(two_turns), words(two_turns)) == (BACK, ["", "make files"])
    undone = json.loads(rewind(two_turns, "--undo", "--yes", "--json"))
    assert undone["changed"] == ["/results/a"]
    assert files(two_turns) == SPOILT
    listed = rewind(two_turns)
    assert "spoil files" in listed
    assert "+/results/new ~/results/a -/results/gone" in listed


@pytest.mark.thorough
def test_next_turn_ends_the_way_back(two_turns: Program) -> None:
    rewind(two_turns, "--to", "1", "--yes")
    go(two_turns, "spoil files again")
    assert (files(two_turns), words(two_turns)) == (SPOILT, ["", "make files", "spoil files again"])
    assert "nothing to undo" in rewind(two_turns, "--undo", "--yes", status=2)
    rewind(two_turns, "--to", "0", "--yes")
    assert files(two_turns) == {"report": "mine"}
    assert words(two_turns) == [""]


@pytest.mark.thorough
def test_files_only_leaves_the_conversation(two_turns: Program) -> None:
    rewind(two_turns, "--to", "1", "--files-only", "--yes")
    assert (files(two_turns), words(two_turns)) == (BACK, ["", "make files", "spoil files"])
    go(two_turns, "and again")  # the run does not bring the files forward
    assert files(two_turns) == SPOILT


@pytest.mark.thorough
def test_mistakes_change_nothing(two_turns: Program) -> None:
    assert "give 0 (before the first turn) to 2" in rewind(two_turns, "--to", "7", "--yes", status=2)
    assert "give 0 (before the first turn) to 2" in rewind(two_turns, "--to", "-1", "--yes", status=2)
    assert "add --yes" in rewind(two_turns, "--to", "1", status=2)
    assert "Give --to N" in rewind(two_turns, "--yes", status=2)
    assert "leave --to and --files-only away" in rewind(two_turns, "--undo", "--to", "1", status=2)
    with thread_lock(two_turns.folder / ".code-agent" / "locks", "t"):
        assert "Stop the run first" in rewind(two_turns, "--to", "1", "--yes", status=2)
    assert (files(two_turns), words(two_turns)) == (SPOILT, ["", "make files", "spoil files"])
    missing = two_turns.run("rewind", "other", "--to", "1")
    assert (missing.returncode, "There is no thread 'other'" in missing.stderr) == (2, True)


@pytest.mark.thorough
def test_open_question_lapses(program: Program) -> None:
    program.script(execute("echo 1 > /results/a"), "First.", execute("echo asked >> /results/log"), "Second.")
    go(program, "make files")
    program.lines("--thread", "t", "ask", status=3)
    rewind(program, "--to", "1", "--yes")
    program.run("run", "--thread", "t", "--approve", "auto")
    assert program.log == ""
    rewind(program, "--undo", "--yes")
    assert words(program) == ["", "make files", "ask"]


@pytest.mark.thorough
def test_person_is_shown_the_files_and_asked(two_turns: Program) -> None:
    terminal = two_turns.at_terminal("rewind", "t", "--to", "1")
    terminal.wait_for("/results/report  will be kept: it was changed by somebody else")
    terminal.wait_for("Go back?")
    terminal.type("n\n")
    terminal.wait_for("Nothing was changed.")
    assert terminal.end() == 0
    assert files(two_turns) == SPOILT
    terminal = two_turns.at_terminal("rewind", "t", "--to", "1")
    terminal.wait_for("Go back?")
    terminal.type("y\n")
    terminal.wait_for("--undo` takes this back")
    assert terminal.end() == 0
    assert files(two_turns) == BACK


@pytest.mark.thorough
def test_files_of_a_turn_are_copied_without_the_workspace(two_turns: Program) -> None:
    (two_turns.folder / "workspace").rename(two_turns.folder / "elsewhere")
    listed = json.loads(two_turns.run("files", "t", "--json").stdout)["files"]
    assert {path: size for path, size in listed.items() if path.startswith("/results/")} == {
        "/results/a": 2,
        "/results/new": 2,
    }
    copied = two_turns.run("files", "t", "--at", "1", "--to", "copy")
    assert copied.returncode == 0, copied.stderr
    results = two_turns.folder / "copy" / "results"
    assert {path.name: path.read_text() for path in results.iterdir()} == {"a": "1\n", "gone": "1\n"}
    again = two_turns.run("files", "t", "--to", "copy")
    assert (again.returncode, "is not empty" in again.stderr) == (2, True)
    for arguments, told in ((("t", "--at", "7"), "no turn 7"), (("unknown",), "no thread 'unknown'")):
        refused = two_turns.run("files", *arguments)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert told in refused.stderr
