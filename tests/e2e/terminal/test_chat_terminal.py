"""`code-agent chat` at a terminal: turns, approvals, Ctrl-C."""

from __future__ import annotations

import time

import pytest

from tests.clients.cli_program import Program, execute, processes_of
from tests.clients.screen_terminal import chat, ended
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

QUESTION = "[q]uit and leave it pending:"


@pytest.mark.thorough
def test_grant_covers_later_calls_until_it_is_revoked(program: Program) -> None:
    run, other = execute("echo ran >> /results/log"), execute("echo other >> /results/log")
    program.script(other, other, "one", run, run, "two")
    terminal = chat(program)
    terminal.send("exactly this")
    terminal.wait_for("command: echo other >> /results/log")
    terminal.wait_for(QUESTION)
    assert program.log == ""
    terminal.type("x\r")
    terminal.wait_for("Please answer a, e, t, r, w or q.")
    terminal.wait_for(QUESTION)
    terminal.type("e\r")
    terminal.wait_for("approved earlier in this thread: exactly this")
    terminal.wait_for("one")
    terminal.send("this tool")
    terminal.wait_for(QUESTION)
    terminal.type("t\r")
    terminal.wait_for("approved earlier in this thread: any call of this tool")
    terminal.wait_for("two")
    assert program.log == "other\n" * 2 + "ran\n" * 2
    for line, *said in (
        ("/approvals", "1. exactly this call:", "2. any call of the tool execute"),
        ("/approvals revoke 2", "Revoked. Approvals that still hold: 1."),
        ("/approvals revoke 7", "There are 1 approvals, and no number 7."),
        ("/approvals revoke all", "Revoked. Approvals that still hold: 0."),
        ("/approvals", "Nothing is approved for the rest of this thread."),
        ("/exit",),
    ):
        terminal.send(line)
        for words in said:
            terminal.wait_for(words)
    ended(terminal)


def test_ctrl_c_stops_the_command_only(program: Program) -> None:
    program.script(
        execute("trap '' INT TERM; echo up; sleep 61; touch /results/late"), "I was stopped, you say."
    )
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("│ up")
    eventually(lambda: any("sleep 61" in line for line in processes_of(terminal.pid)))
    since = time.monotonic()
    terminal.type("\x03")
    terminal.wait_for(
        "Stopped, including all processes that the run started. You can continue the conversation."
    )
    while any("sleep 61" in line for line in processes_of(terminal.pid)):  # killed, but not removed yet
        assert time.monotonic() - since < 5
    terminal.send("and now?")
    terminal.wait_for("I was stopped, you say.")
    terminal.send("/exit")
    ended(terminal)


@pytest.mark.thorough
@pytest.mark.parametrize("pause", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_ctrl_c_twice_ends_the_program_and_its_processes(program: Program, pause: float) -> None:
    program.script(execute("trap '' INT TERM; setsid sleep 62 & echo up; sleep 61"), "never")
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("│ up")
    terminal.type("\x03")
    terminal.wait_for("Stopping. Ctrl-C again")  # the kernel merges a signal with one that is still pending
    time.sleep(pause)
    terminal.type("\x03")
    ended(terminal, 130)


@pytest.mark.thorough
def test_ctrl_c_at_the_prompt_clears_the_line_then_ends(program: Program) -> None:
    program.script("hello")
    terminal = chat(program)
    terminal.prompted()
    terminal.type("half a mess\x03")
    terminal.wait_for("Ctrl-C again, or Ctrl-D, ends the program.")
    terminal.send("hi")
    terminal.wait_for("hello")
    terminal.prompted()
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again")
    terminal.prompted()
    terminal.type("\x03")
    ended(terminal, 130)


@pytest.mark.thorough
def test_pending_question_is_asked_again(program: Program) -> None:
    program.script(execute("touch /results/a"), "done")
    terminal = chat(program, "--thread", "t")
    terminal.send("go")
    for leave in ("q\r", "\x03"):
        terminal.wait_for("touch /results/a")
        terminal.wait_for(QUESTION)
        terminal.type(leave)
        terminal.wait_for("Pending calls wait for a decision.")
        if leave == "q\r":
            terminal.send("/continue")
    terminal.prompted()
    terminal.type("\x04")
    terminal.wait_for("Calls wait for approval in thread t. Continue:")
    terminal.wait_for("code-agent chat --thread t\n")
    ended(terminal)
    assert not (program.workspace / "results" / "a").exists()

    terminal = chat(program, "--thread", "t")
    terminal.wait_for("> go")
    terminal.wait_for(QUESTION)
    terminal.type("a\r")
    terminal.wait_for("done")
    assert (program.workspace / "results" / "a").exists()
    terminal.send("/exit")
    ended(terminal)


@pytest.mark.thorough
def test_lines_typed_during_a_turn_stay_lines_of_the_next_message(program: Program) -> None:
    program.script(execute("echo up; until [ -e /results/go ]; do sleep 0.1; done"), "done", "read")
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("│ up")
    terminal.type("first\r  second\r")
    terminal.wait_for("second")
    time.sleep(2)  # the terminal shows the lines before the program reads them
    (program.workspace / "results" / "go").touch()
    terminal.wait_for("done")
    terminal.wait_for("> first")
    terminal.wait_for("second")
    terminal.type("\r")
    terminal.wait_for("read")
    terminal.send("/exit")
    ended(terminal)
    assert b"first\nsecond" in (program.folder / ".code-agent" / "threads.sqlite").read_bytes()


@pytest.mark.thorough
def test_keys_typed_before_a_question_do_not_answer_it(program: Program) -> None:
    program.script(execute("sleep 2"), execute("touch /results/a"), "done")
    terminal = chat(program)
    terminal.send("go")
    terminal.wait_for(QUESTION)
    terminal.type("a\ra\ra\r")
    terminal.wait_for("$ sleep 2")
    terminal.type("a\r")
    terminal.wait_for(QUESTION)
    time.sleep(1)
    assert not (program.workspace / "results" / "a").exists()
    terminal.type("q\r")
    terminal.prompted_with("a")
    terminal.type("\x15\x04")
    ended(terminal)


@pytest.mark.thorough
def test_stop_works_during_and_between_turns(program: Program) -> None:
    program.script(
        execute("echo up; sleep 61"), "stopped", execute("sleep 63 > /dev/null & echo left"), "end"
    )
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("│ up")
    terminal.type("/stop\r")
    terminal.wait_for("You can continue the conversation.")
    terminal.send("again")
    terminal.wait_for("stopped")
    terminal.send("leave something running")
    terminal.wait_for("│ left")
    terminal.wait_for("end")
    assert any("sleep 63" in line for line in processes_of(terminal.pid))
    terminal.send("/stop")
    terminal.wait_for("Everything in the sandbox has ended")
    assert not any("sleep 63" in line for line in processes_of(terminal.pid))
    terminal.send("/exit")
    ended(terminal)


@pytest.mark.thorough
def test_control_characters_are_escaped(program: Program) -> None:
    attack = r"printf 'a\033]0;title\007b\033[2Jc\033P0q\033\\\302\233x\342\200\256y\n'"
    attack += r"; touch $'/results/\033[2Jz'"
    program.script(execute(attack), "Model: \x1b[2J\x1b]52;c;x\x07 end")
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("a‹U+001B›]0;title‹U+0007›b‹U+001B›[2Jc‹U+001B›P0q")
    terminal.wait_for("Model: ‹U+001B›[2J‹U+001B›]52;c;x‹U+0007› end")
    terminal.wait_for("File: results/‹U+001B›[2Jz")
    terminal.send("/exit")
    ended(terminal)
    for sequence in ("\x1b[2J", "\x1b]", "\x1bP", "\u202e", "\x9b"):
        assert sequence not in terminal.raw
