"""`code-agent run` at a terminal: approvals, and Ctrl-C."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.clients.cli_program import Program, containers_of, execute, processes_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

PROMPT = "[q]uit and leave it pending:"


def test_approved_call_runs_and_rejected_call_does_not(program: Program) -> None:
    run = execute("echo $((6*7)) >> /results/log; echo 'a\u202eb'")
    program.script(run, execute("echo no >> /results/log"), "I leave it.")
    terminal = program.at_terminal("run", "--thread", "t", "go")
    terminal.wait_for("Task: go\n")
    terminal.wait_for("command: echo $((6*7)) >> /results/log; echo 'a‹U+202E›b'")
    terminal.wait_for(PROMPT)
    terminal.type("c\n")  # [c]hange is not offered for commands
    terminal.wait_for("Please answer a, e, t, r, w or q.")
    terminal.wait_for(PROMPT)
    assert program.log == ""
    terminal.type("a\n")
    terminal.wait_for("exit 0")
    terminal.wait_for(PROMPT)
    terminal.type("a at once\n")  # a reason can stand only after r
    terminal.wait_for("Please answer a, e, t, r, w or q.")
    terminal.wait_for('The model reads a reason after r, as in "r use the tables skill".')
    terminal.wait_for(PROMPT)
    terminal.type("r not on Fridays\n")
    terminal.wait_for("  rejected: not on Fridays\n")
    terminal.wait_for("I leave it.")
    assert terminal.end() == 0
    assert program.log == "42\n"
    assert b"not on Fridays" in (program.folder / ".code-agent" / "threads.sqlite").read_bytes()


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ("q\n", 3),
        ("\x03", 130),
        ("\x04", 3),
    ],
)
@pytest.mark.thorough
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


PYTHON = "import subprocess\nprint('up', flush=True)\nsubprocess.run(['sleep', '61'])"


@pytest.mark.parametrize(
    ("agent", "call"),
    [
        ("deep", execute("trap '' INT TERM; echo up; sleep 61; touch /results/late")),
        pytest.param("code", f"I wait.\n```python\n{PYTHON}\n```", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.thorough
def test_ctrl_c_stops_the_command_and_keeps_the_thread(program: Program, agent: str, call: Any) -> None:
    program.script(call, "I was stopped.")
    terminal = program.at_terminal("run", "--agent", agent, "--approve", "auto", "--thread", "t", "go")
    terminal.wait_for("│ up")
    assert any("sleep 61" in line for line in processes_of(terminal.pid))
    since = time.monotonic()
    terminal.type("\x03")
    while any("sleep 61" in line for line in processes_of(terminal.pid)):  # each look asks the Engine twice
        assert time.monotonic() - since < 5
    assert terminal.end() == 130
    assert "Thread t: stopped." in terminal.text
    assert "Traceback" not in terminal.text
    eventually(lambda: not containers_of(terminal.pid))

    # The resumed run does not repeat the command.
    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert (result["text"], result["executions"]) == ("I was stopped.", [])
