"""`code-agent approvals`: rules, grants for the rest of a thread, and decisions are listed."""

from __future__ import annotations

import json

import pytest

from libs.persistence.locked_thread import thread_lock
from tests.clients.cli_program import Program, execute

RUN = execute("echo ran >> /results/log")


@pytest.mark.thorough
@pytest.mark.docker
def test_grant_is_listed_and_revoked(program: Program) -> None:
    program.script(RUN, RUN, "First.", RUN, "Second.")
    terminal = program.at_terminal("run", "--thread", "t", "go")
    terminal.wait_for("[q]uit and leave it pending:")
    terminal.type("t\n")
    terminal.wait_for("approved earlier in this thread: any call of this tool")
    assert terminal.end() == 0
    assert program.run("approvals", "list", "t").stdout == "1. any call of the tool execute\n"
    [grant] = json.loads(program.run("approvals", "list", "t", "--json").stdout)
    assert (grant["number"], grant["tool"], grant["digest"]) == (1, "execute", None)
    with thread_lock(program.folder / ".code-agent" / "locks", "t"):
        done = program.run("approvals", "revoke", "t", "--all")
        assert (done.returncode, "in use by another program" in done.stderr) == (2, True)
    for arguments in (("t",), ("t", "1", "--all"), ("t", "2")):
        done = program.run("approvals", "revoke", *arguments)
        assert (done.returncode, done.stdout, bool(done.stderr)) == (2, "", True)
    done = program.run("approvals", "revoke", "t", "1")
    assert (done.returncode, done.stdout) == (0, "Revoked. Approvals that still hold: 0.\n")
    lines = program.lines("--thread", "t", "on", status=3)
    assert [line["grants"] for line in lines if line["type"] == "approval"] == [[]]
    assert program.log == "ran\n" * 2


@pytest.mark.docker
def test_calls_are_asked_about_one_by_one(program: Program) -> None:
    program.environment["INTERRUPT_MODE"] = "per_call"
    program.script([RUN, execute("echo other >> /results/log")], "As you wish.")
    lines = program.lines("--thread", "t", "go", status=3)
    asked = [line["action_requests"] for line in lines if line["type"] == "approval"]
    assert [len(each) for each in asked] == [1, 1]
    terminal = program.at_terminal("run", "--thread", "t")
    for command, key in (("echo ran", "r\n"), ("echo other", "a\n")):
        terminal.wait_for(command)
        terminal.wait_for("leave it pending:")
        terminal.type(key)
        if key == "r\n":
            terminal.wait_for("Why not?")
            terminal.type("\n")
    assert terminal.end() == 0
    assert program.log == "other\n"


@pytest.mark.thorough
def test_approvals_of_a_missing_thread(program: Program) -> None:
    done = program.run("approvals", "list", "t")
    assert (done.returncode, "There is no thread 't'" in done.stderr) == (2, True)
    assert not (program.folder / ".code-agent").exists()


@pytest.mark.docker
@pytest.mark.thorough
def test_person_writes_a_rule_that_holds_after_a_restart_until_it_is_removed(program: Program) -> None:
    rules = program.folder / ".code-agent" / "approvals.toml"
    more = execute("echo ran; echo more >> /results/log")
    program.script(execute("echo ran 1"), more, "First.", execute("echo ran 2"), "Second.", RUN, "Third.")
    terminal = program.at_terminal("run", "--thread", "t", "go")
    asked = ("pending:", "1 to 4, or [n]one:", "approve this call?")
    for answers in (("w\n", "n\n"), ("w\n", "2\n", "n\n"), ("w\n", "2\n", "y\n")):
        terminal.wait_for("[w]rite a rule that allows it")
        assert not rules.exists()
        for answer, question in zip(answers, asked, strict=False):
            terminal.wait_for(question)
            terminal.type(answer)
    terminal.wait_for("approvals revoke --rule 1")
    assert all(f"  {line}\n" in terminal.text for line in rules.read_text().splitlines())
    terminal.wait_for("echo more >> /results/log")  # of the same program, and not covered
    terminal.wait_for("pending:")
    terminal.type("r not that\n")
    terminal.wait_for("First.")
    assert terminal.end() == 0
    assert 'match = ["echo ran 1"]' in rules.read_text()

    lines = program.lines("--thread", "t", "on")
    assert [line.get("granted") for line in lines if line["type"] == "command"] == ["rule"]
    shown = "rule 1 (allow execute echo ran)"
    records = json.loads(program.run("approvals", "log", "t", "--json").stdout)
    assert [(each["decision"], each["by"], each.get("rule")) for each in records] == [
        ("add rule", "person", shown),
        ("approve", "person", None),
        ("reject", "person", None),
        ("approve", "rule", shown),
    ]
    assert records[0]["digest"] == records[1]["digest"]
    assert f"by person {shown}\n" in program.run("approvals", "log", "t").stdout

    for arguments in (("--rule", "1"), ("--rule", "2", "--yes"), ("t", "--rule", "1")):
        assert program.run("approvals", "revoke", *arguments).returncode == 2
    done = program.run("approvals", "revoke", "--rule", "1", "--yes")
    assert (done.returncode, done.stdout.endswith("Removed.\n")) == (0, True)
    assert 'prefix = ["echo", "ran"]' in done.stdout
    assert rules.read_text() == ""
    program.lines("--thread", "t", "on", status=3)


@pytest.mark.thorough
@pytest.mark.docker
@pytest.mark.parametrize("setting", ["ask", pytest.param("auto", marks=pytest.mark.thorough)])
def test_every_question_is_answered_with_no(program: Program, setting: str) -> None:
    program.environment["APPROVALS"] = setting
    program.script(RUN, "As you wish.")
    lines = program.lines("--approve", "reject", "go")
    assert [line["type"] for line in lines if line["type"] in ("approval", "command")] == ["approval"]
    assert lines[-1]["text"] == "As you wish."
    assert program.log == ""


@pytest.mark.docker
@pytest.mark.thorough
def test_allowed_call_runs_without_a_question_and_is_recorded(program: Program) -> None:
    rules = program.folder / ".code-agent" / "approvals.toml"
    rules.parent.mkdir()
    text = '[[rule]]\ntool = "execute"\nexact = "echo ran >> /results/log"\ndecision = "allow"\n'
    rules.write_text(text)
    program.script(RUN, "Done.")
    lines = program.lines("--thread", "t", "go")
    assert [line.get("granted") for line in lines if line["type"] == "command"] == ["rule"]
    assert program.log == "ran\n"
    shown = "rule 1 (allow execute echo ran >> /results/log)"
    assert program.run("approvals", "list").stdout == f"{rules}: 1 rules\n   {shown}\n"
    [record] = json.loads(program.run("approvals", "log", "t", "--json").stdout)
    assert (record["decision"], record["rule"], record["thread"]) == ("approve", shown, "t")
    told = "".join(program.run("doctor").stdout.split())
    assert "APPROVALS=ask;" in told
    assert "1allow,0ask,0deny" in told
    rules.write_text(f"{text}match = ['ls']")
    for command in (("run", "go"), ("doctor",)):
        done = program.run(*command)
        assert done.returncode, command
        assert "the example 'ls' of match" in "".join((done.stdout + done.stderr).split("\n")), command
