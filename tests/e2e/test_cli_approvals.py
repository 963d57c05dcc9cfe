"""`code-agent` and approvals for the rest of a thread: given at the terminal, said, listed, taken back."""

from __future__ import annotations

import json

import pytest
from cli_program import Program, execute

from libs.persistence.thread_lock import thread_lock

PROMPT = "[q]uit and leave it pending: "
RUN, OTHER = execute("echo ran >> /results/log"), execute("echo other")


@pytest.mark.docker
@pytest.mark.parametrize("agent", ["deep", "code"])
def test_given_at_the_terminal_said_listed_and_taken_back(program: Program, agent: str) -> None:
    code = RUN["args"]["command"]
    blocks = [f"I look.\n```bash\n{each}\n```" for each in (code, "echo other")]
    run, other = (RUN, OTHER) if agent == "deep" else blocks
    program.script(run, run, "First.", other, run, "Second.", run, "Third.")
    terminal = program.at_terminal("run", "--agent", agent, "--thread", "t", "go")
    terminal.wait_for(PROMPT)
    terminal.type("e\n")
    terminal.wait_for("exit 0")
    terminal.wait_for("approved earlier in this thread: exactly this")
    terminal.wait_for("First.")
    assert terminal.end() == 0
    assert (program.workspace / "results" / "log").read_text() == "ran\nran\n"

    listed = program.run("approvals", "list", "t").stdout
    assert listed.startswith("1. exactly this call:\n")
    assert code in listed
    [approval] = [
        line for line in program.lines("--thread", "t", "on", status=3) if line["type"] == "approval"
    ]
    [grant] = approval["grants"]
    assert (grant["tool"], code in grant["shown"]) == (approval["action_requests"][0]["name"], True)

    terminal = program.at_terminal("run", "--thread", "t")
    terminal.wait_for(PROMPT)
    terminal.type("t\n")
    terminal.wait_for("Second.")
    assert terminal.end() == 0
    [_, tool] = json.loads(program.run("approvals", "list", "t", "--json").stdout)
    assert (tool["number"], tool["digest"]) == (2, None)
    done = program.run("approvals", "revoke", "t", "2")
    assert (done.returncode, done.stdout) == (0, "Revoked. Approvals that still hold: 1.\n")
    lines = program.lines("--thread", "t", "on and on")
    assert [line["granted"] for line in lines if line["type"] == "command"] == ["command"]
    assert program.run("approvals", "revoke", "t", "--all").returncode == 0
    assert (
        program.run("approvals", "list", "t").stdout == "Nothing is approved for the rest of this thread.\n"
    )
    assert (program.workspace / "results" / "log").read_text() == "ran\n" * 4


@pytest.mark.docker
def test_taken_back_while_others_wait(program: Program) -> None:
    program.script(RUN, [RUN, OTHER], "done")
    terminal = program.at_terminal("run", "--thread", "t", "go")
    terminal.wait_for(PROMPT)
    terminal.type("t\n")
    assert terminal.end() == 0
    program.script(RUN, [RUN, OTHER], "done", OTHER, "end")
    assert program.run("approvals", "revoke", "t", "--all").returncode == 0
    lines = program.lines("--thread", "t", "on", status=3)
    assert [line["grants"] for line in lines if line["type"] == "approval"] == [[]]


def test_what_cannot_be_done_is_said(program: Program) -> None:
    for arguments in (("list", "t"), ("revoke", "t", "--all")):
        done = program.run("approvals", *arguments)
        assert (done.returncode, "There is no thread 't'" in done.stderr) == (2, True)
    assert not (program.folder / ".code-agent").exists()
    program.script("hello")
    program.lines("--thread", "t", "go")
    for arguments in (("t",), ("t", "1", "--all"), ("t", "1"), ("t", "0"), ("u", "--all")):
        done = program.run("approvals", "revoke", *arguments)
        assert (done.returncode, done.stdout, bool(done.stderr)) == (2, "", True)
    with thread_lock(program.folder / ".code-agent" / "locks", "t"):
        done = program.run("approvals", "revoke", "t", "--all")
        assert (done.returncode, "in use by another program" in done.stderr) == (2, True)
        assert program.run("approvals", "list", "t").returncode == 0
