"""`code-agent run` at a terminal: approvals, and Ctrl-C."""

from __future__ import annotations

import signal
import time

import pytest
from cli_program import Program, containers_of, execute, processes_of

pytestmark = pytest.mark.docker

PROMPT = "[q]uit and leave it pending: "


def test_approve_runs_what_is_shown(program: Program) -> None:
    program.script(execute("echo $((6*7)) > /results/n; echo 'a\u202eb'"), "The end.")
    terminal = program.at_terminal("run", "go")
    terminal.wait_for("command: echo $((6*7)) > /results/n; echo 'a‹U+202E›b'")
    terminal.wait_for(PROMPT)
    assert not (program.workspace / "results" / "n").exists()
    terminal.type("a\n")
    terminal.wait_for("exit 0")
    terminal.wait_for("The end.")
    assert terminal.end() == 0
    assert (program.workspace / "results" / "n").read_text() == "42\n"


def test_reject_tells_the_model_why_and_wrong_keys_ask_again(program: Program) -> None:
    program.script(execute("touch /results/a"), "I leave it.")
    terminal = program.at_terminal("run", "--thread", "t", "go")
    for wrong in ("x\n", "\n", "approved\n"):
        terminal.wait_for(PROMPT)
        terminal.type(wrong)
        terminal.wait_for("Please answer a, e, t, r or q.")
    terminal.wait_for(PROMPT)
    terminal.type("r\n")
    terminal.wait_for("Reason")
    terminal.type("not on Fridays\n")
    terminal.wait_for("I leave it.")
    assert terminal.end() == 0
    assert not (program.workspace / "results" / "a").exists()
    # The model has read the reason: the script of the next task can only be played by the same thread.
    assert b"not on Fridays" in (program.folder / ".code-agent" / "threads.sqlite").read_bytes()


def test_several_calls_are_decided_one_by_one(program: Program) -> None:
    program.script([execute(f"touch /results/{name}") for name in "abc"], "done")
    terminal = program.at_terminal("run", "go")
    for number, (name, key) in enumerate((("a", "a"), ("b", "n"), ("c", "y")), 1):
        terminal.wait_for(f"({number} of 3)")
        terminal.wait_for(f"touch /results/{name}")
        terminal.wait_for(PROMPT)
        terminal.type(f"{key}\n")
        if key == "n":
            terminal.wait_for("Reason")
            terminal.type("\n")
    assert terminal.end() == 0
    assert sorted(path.name for path in (program.workspace / "results").iterdir()) == ["a", "c"]


@pytest.mark.parametrize(("keys", "status"), [("q\n", 3), ("\x04", 3), ("\x03", 130)])
def test_leaving_at_the_question_keeps_it_pending(program: Program, keys: str, status: int) -> None:
    program.script(execute("touch /results/a"), "done")
    terminal = program.at_terminal("run", "--thread", "t", "go")
    terminal.wait_for(PROMPT)
    terminal.type(keys)
    terminal.wait_for("code-agent run --thread t --approve auto")
    assert terminal.end() == status
    assert not (program.workspace / "results" / "a").exists()

    terminal = program.at_terminal("run", "--thread", "t")
    terminal.wait_for("touch /results/a")
    terminal.wait_for(PROMPT)
    terminal.type("a\n")
    assert terminal.end() == 0
    assert (program.workspace / "results" / "a").exists()


def test_keys_typed_before_a_question_do_not_answer_it(program: Program) -> None:
    program.script(execute("sleep 2"), execute("touch /results/a"), "done")
    terminal = program.at_terminal("run", "go")
    terminal.wait_for(PROMPT)
    terminal.type("a\n")
    terminal.wait_for("$ sleep 2")
    terminal.type("a\n")
    terminal.wait_for(PROMPT)
    time.sleep(1)
    assert not (program.workspace / "results" / "a").exists()
    terminal.type("q\n")
    assert terminal.end() == 3


def test_ctrl_c_stops_the_command_and_keeps_the_thread(program: Program) -> None:
    program.script(execute("trap '' INT TERM; echo up; sleep 61; touch /results/late"), "I was stopped.")
    terminal = program.at_terminal("run", "--approve", "auto", "--thread", "t", "go")
    terminal.wait_for("│ up")
    assert any("sleep 61" in line for line in processes_of(terminal.pid))
    since = time.monotonic()
    terminal.type("\x03")
    while any("sleep 61" in line for line in processes_of(terminal.pid)):
        assert time.monotonic() - since < 1
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text
    assert containers_of(terminal.pid) == []

    # Going on does not run the command again: the model is told, and says its next line.
    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert (result["text"], result["executions"]) == ("I was stopped.", [])


def test_ctrl_c_twice_ends_the_program_at_once(program: Program) -> None:
    program.script(execute("echo up; sleep 61"), "never")
    terminal = program.at_terminal("run", "--approve", "auto", "go")
    terminal.wait_for("│ up")
    since = time.monotonic()
    terminal.type("\x03\x03")
    assert terminal.end() in (130, -signal.SIGINT)
    assert time.monotonic() - since < 3
    while containers_of(terminal.pid):
        assert time.monotonic() - since < 3
