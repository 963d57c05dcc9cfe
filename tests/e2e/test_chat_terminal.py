"""`code-agent chat` at a terminal: turns, approvals, Ctrl-C, threads, history."""

from __future__ import annotations

import os
import signal
import time

import pytest
from cli_program import Program, call, containers_of, execute, processes_of
from screen_terminal import ScreenTerminal

pytestmark = pytest.mark.docker

QUESTION = "[q]uit and leave it pending:"


def chat(
    program: Program, *arguments: str, says: str = "plain", term: str = "xterm-256color"
) -> ScreenTerminal:
    return ScreenTerminal(program, ["chat", *arguments], says, term=term)


def ended(terminal: ScreenTerminal, status: int = 0) -> None:
    """It has ended so, with no container, no process, no trace."""
    assert terminal.end() == status, terminal.text
    assert "Traceback" not in terminal.text
    since = time.monotonic()
    while containers_of(terminal.pid):
        assert time.monotonic() - since < 3


def test_words_and_output_come_while_they_are_made(program: Program) -> None:
    program.script(
        execute("echo early; sleep 3; echo late"), "The end is here, in more than sixteen characters."
    )
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("│ early")
    assert any("sleep 3" in line for line in processes_of(terminal.pid))
    assert "late\n" not in terminal.text.split("│ early")[1]
    terminal.wait_for("│ late")
    terminal.wait_for("exit 0")
    terminal.wait_for("The end is here, in more than sixteen characters.")
    terminal.prompted()
    assert terminal.shown.count("The end is here") == 1
    terminal.type("\x04")
    ended(terminal)


def test_each_answer_at_the_question(program: Program) -> None:
    run, other = execute("echo ran >> /results/log"), execute("echo other >> /results/log")
    program.script(run, "one", other, "two", other, other, "three", run, run, "four")
    terminal = chat(program, "--thread", "t")
    log = program.workspace / "results" / "log"

    terminal.send("approve this")
    terminal.wait_for("command: echo ran >> /results/log")
    terminal.wait_for(QUESTION)
    assert not log.exists()
    terminal.type("x\r")
    terminal.wait_for("Please answer a, e, t, r or q.")
    terminal.wait_for(QUESTION)
    terminal.type("a\r")
    terminal.wait_for("one")
    assert log.read_text() == "ran\n"

    terminal.send("reject this")
    terminal.wait_for(QUESTION)
    terminal.type("r\r")
    terminal.wait_for("Reason, for the model to read")
    terminal.type("not on Fridays\r")
    terminal.wait_for("two")
    assert log.read_text() == "ran\n"

    terminal.send("exactly this")
    terminal.wait_for(QUESTION)
    terminal.type("e\r")
    terminal.wait_for("approved earlier in this thread: exactly this")
    terminal.wait_for("three")
    assert log.read_text() == "ran\nother\nother\n"

    terminal.send("this tool")
    terminal.wait_for(QUESTION)
    terminal.type("t\r")
    terminal.wait_for("approved earlier in this thread: any call of this tool")
    terminal.wait_for("four")

    terminal.send("/approvals")
    terminal.wait_for("1. exactly this call:")
    terminal.wait_for("2. any call of the tool execute")
    terminal.send("/approvals revoke 2")
    terminal.wait_for("Revoked. Approvals that still hold: 1.")
    terminal.send("/approvals revoke 7")
    terminal.wait_for("There are 1 approvals, and no number 7.")
    terminal.send("/approvals revoke all")
    terminal.wait_for("Revoked. Approvals that still hold: 0.")
    terminal.send("/approvals")
    terminal.wait_for("Nothing is approved for the rest of this thread.")
    terminal.send("/exit")
    ended(terminal)
    assert b"not on Fridays" in (program.folder / ".code-agent" / "threads.sqlite").read_bytes()


def test_ctrl_c_once_stops_the_command_and_the_conversation_goes_on(program: Program) -> None:
    program.script(
        execute("trap '' INT TERM; echo up; sleep 61; touch /results/late"), "I was stopped, you say."
    )
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("│ up")
    assert any("sleep 61" in line for line in processes_of(terminal.pid))
    since = time.monotonic()
    terminal.type("\x03")
    terminal.wait_for("Stopped, with all that was started. The conversation goes on.")
    assert not any("sleep 61" in line for line in processes_of(terminal.pid))
    assert time.monotonic() - since < 5
    terminal.send("and now?")
    terminal.wait_for("I was stopped, you say.")
    terminal.send("/exit")
    ended(terminal)


@pytest.mark.parametrize("pause", [0.01, 1.0])
def test_ctrl_c_twice_ends_the_program_with_all_that_it_has_started(program: Program, pause: float) -> None:
    program.script(execute("trap '' INT TERM; setsid sleep 62 & echo up; sleep 61"), "never")
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("│ up")
    terminal.type("\x03")
    time.sleep(pause)  # of two in one moment the kernel tells the program once
    terminal.type("\x03")
    ended(terminal, 130)


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


def test_what_waits_is_asked_again_by_the_next_program(program: Program) -> None:
    program.script(execute("touch /results/a"), "done", execute("touch /results/b"), "more")
    terminal = chat(program, "--thread", "t")
    terminal.send("go")
    terminal.wait_for(QUESTION)
    terminal.type("q\r")
    terminal.wait_for("Nothing of what waits was run.")
    terminal.send("/continue")
    terminal.wait_for("touch /results/a")
    terminal.wait_for(QUESTION)
    terminal.type("\x03")
    terminal.wait_for("Nothing of what waits was run.")
    terminal.prompted()
    terminal.type("\x04")
    ended(terminal)
    assert not (program.workspace / "results" / "a").exists()

    terminal = chat(program, "--thread", "t")
    terminal.wait_for("> go")
    terminal.wait_for("touch /results/a")
    terminal.wait_for(QUESTION)
    terminal.type("a\r")
    terminal.wait_for("done")
    assert (program.workspace / "results" / "a").exists()
    terminal.send("/exit")
    ended(terminal)


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


def test_stop_is_heard_while_the_agent_works_and_between_turns(program: Program) -> None:
    program.script(
        execute("echo up; sleep 61"), "stopped", execute("sleep 63 > /dev/null & echo left"), "end"
    )
    terminal = chat(program, "--approve", "auto")
    terminal.send("go")
    terminal.wait_for("│ up")
    terminal.type("/stop\r")
    terminal.wait_for("The conversation goes on.")
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


def test_lines_are_recalled_by_the_next_program_and_secrets_are_not_kept(program: Program) -> None:
    program.script("first", "second")
    program.environment["OPENAI_API_KEY"] = "sk-a-key-that-nobody-may-see-12345"
    terminal = chat(program, "--thread", "t")
    terminal.send("say it with sk-a-key-that-nobody-may-see-12345")
    terminal.wait_for("first")
    terminal.send("recall me")
    terminal.wait_for("second")
    terminal.send("/exit")
    ended(terminal)
    kept = program.folder / ".code-agent" / "chat-history"
    assert "sk-a-key" not in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600

    terminal = chat(program)
    terminal.prompted()
    terminal.type("\x1b[A\x1b[A")  # the last but /exit
    terminal.prompted_with("recall me")
    terminal.type("\x15\x04")
    ended(terminal)


def test_commands_are_completed(program: Program) -> None:
    program.script("hello")
    (program.workspace / "results").mkdir(parents=True)
    (program.workspace / "results" / "only.png").touch()
    terminal = chat(program, "--thread", "my-thread")
    terminal.send("hi")
    terminal.wait_for("hello")
    terminal.prompted()
    for begun, becomes in (
        ("/he", "/help"),
        ("/agent c", "/agent code"),
        ("/thread my", "/thread my-thread"),
        ("/show plot results/", "/show plot results/only.png"),
    ):
        terminal.type(begun)
        terminal.prompted_with(begun)
        time.sleep(1)  # the menu comes
        terminal.type("\t")
        terminal.prompted_with(becomes)
        terminal.type("\x15")
        terminal.prompted()
    terminal.type("\x15\x04")
    ended(terminal)


def test_agents_models_and_threads_are_chosen(program: Program) -> None:
    program.script("I plan.", "I plan more.")
    (program.folder / "other.yaml").write_text("- text: Another script.\n")
    terminal = chat(program, "--thread", "one")
    terminal.wait_for("Thread one, deep agent, model scripted:script.yaml (a script that is played")
    terminal.send("hi")
    terminal.wait_for("I plan.")
    terminal.send("/agent")
    terminal.wait_for("deep. There are: auto, deep, code")
    terminal.send("/agent nobody")
    terminal.wait_for("There is no agent nobody.")
    terminal.send("/agent code")
    terminal.wait_for("Thread one stays with its deep agent; a new one begins.")
    terminal.wait_for(", code agent, model")
    terminal.send("/model scripted:other.yaml")
    terminal.wait_for("code agent, model scripted:other.yaml")
    terminal.send("who?")
    terminal.wait_for("Another script.")
    terminal.send("/model gpt-5")
    terminal.wait_for("MODEL=gpt-5: must be")
    terminal.send("/model scripted:missing.yaml")
    terminal.wait_for("missing.yaml: cannot read the script")
    terminal.send("/model")
    terminal.wait_for("scripted:other.yaml")
    terminal.send("/model scripted:script.yaml")
    terminal.wait_for("scripted:script.yaml")
    terminal.send("/thread two")
    terminal.wait_for("There is no thread two: /threads lists them")
    terminal.send("/new one")
    terminal.wait_for("There is a thread one already")
    terminal.send("/agent auto")
    terminal.send("/thread one")
    terminal.wait_for("Thread one, deep agent")
    terminal.wait_for("> hi")
    terminal.wait_for("I plan.")
    terminal.send("more")
    terminal.wait_for("I plan more.")
    terminal.send("/new three")
    terminal.wait_for("Thread three, deep agent")
    terminal.send("/threads")
    terminal.wait_for("deep  hi")
    terminal.wait_for("code  who?")
    terminal.send("/thread")
    terminal.wait_for("Thread three, deep agent")
    terminal.send("/exit")
    ended(terminal)


def test_files_skills_help_and_what_is_no_command(program: Program) -> None:
    program.script(call("write_file", file_path="/scripts/a\x1b[2J.py", content="1"), "/data has a path.")
    terminal = chat(program)
    terminal.send("/data/x.csv has which columns?")
    terminal.wait_for("/data has a path.")
    terminal.send("/files scripts")
    terminal.wait_for("scripts/a‹U+001B›[2J.py")
    terminal.send("/files results")
    terminal.wait_for("There is no file in results.")
    terminal.send("/skills")
    terminal.wait_for("csv-analytics: Analyse CSV files")
    terminal.send("/help")
    terminal.wait_for("/show plot [PATH]")
    terminal.wait_for("Ctrl-D ends it.")
    terminal.send("/nothing")
    terminal.wait_for("There is no command /nothing")
    terminal.send("/show it")
    terminal.wait_for("Say /show plot")
    terminal.send("/exit")
    ended(terminal)


def test_nothing_that_is_printed_can_steer_the_terminal(program: Program) -> None:
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


@pytest.mark.parametrize(("term", "no_color"), [("dumb", ""), ("xterm-256color", "1")])
def test_without_colour(program: Program, term: str, no_color: str) -> None:
    program.environment["NO_COLOR"] = no_color
    program.script(execute("echo out"), "The end.")
    terminal = chat(program, term=term)
    terminal.send("go")
    terminal.wait_for(QUESTION)
    terminal.type("a\r")
    terminal.wait_for("│ out")
    terminal.wait_for("The end.")
    terminal.send("/exit")
    ended(terminal)
    assert not [
        code for code in ("\x1b[31", "\x1b[32", "\x1b[33", "\x1b[36", "\x1b[38") if code in terminal.raw
    ]
    assert term != "dumb" or "\x1b[" not in terminal.raw


def test_the_code_block_agent(program: Program) -> None:
    first = "I set it.\n```python\nx = 41\nprint('set')\n```"
    program.script(first, "It is set.", "I use it.\n```python\nprint(x + 1)\n```", "It is 42.")
    terminal = chat(program, "--agent", "code")
    terminal.send("set x")
    terminal.wait_for("code (2 lines):")
    terminal.wait_for(QUESTION)
    terminal.type("a\r")
    terminal.wait_for("│ set")
    terminal.wait_for("It is set.")
    terminal.send("use x")
    terminal.wait_for(QUESTION)
    terminal.type("t\r")
    terminal.wait_for("│ 42")
    terminal.wait_for("It is 42.")
    terminal.send("/thread")
    terminal.wait_for(", code agent,")
    terminal.send("/exit")
    ended(terminal)


def test_the_one_tool_agent(program: Program) -> None:
    code = "import json\nprint(json.dumps({'answer': 42}))"
    program.script(call("execute_code", code=code), "It is 42.")
    terminal = chat(program, "--agent", "exec")
    terminal.send("how much?")
    terminal.wait_for(QUESTION)
    terminal.type("a\r")
    terminal.wait_for("exit 0")
    terminal.wait_for('"answer": 42')
    terminal.send("/exit")
    ended(terminal)


def test_a_thread_that_was_broken_off_goes_on(program: Program) -> None:
    program.script(execute("touch /results/begun; sleep 60"), "The command was cut off.")
    terminal = chat(program, "--approve", "auto", "--thread", "t")
    terminal.send("go")
    terminal.wait_for("$ touch /results/begun; sleep 60")
    since = time.monotonic()
    while not (program.workspace / "results" / "begun").exists():
        assert time.monotonic() - since < 60
    os.kill(terminal.pid, signal.SIGKILL)
    assert terminal.end() == -signal.SIGKILL

    terminal = chat(program, "--approve", "auto", "--thread", "t")
    terminal.wait_for("> go")
    terminal.wait_for("This thread was broken off: /continue goes on with it.")
    terminal.send("/threads")
    terminal.wait_for("go  broken off")
    terminal.send("/continue")
    terminal.wait_for("The command was cut off.")
    terminal.send("/continue")
    terminal.wait_for("Nothing is pending in this thread.")
    terminal.send("/exit")
    ended(terminal)


def test_each_thread_with_a_sandbox_of_its_own(program: Program) -> None:
    program.environment |= {"SANDBOX_SCOPE": "thread", "SANDBOX_WARM": "0"}
    draw = (
        "python3 -c \"from PIL import Image; Image.new('RGB', (4, 4)).save('/results/own.png')\"; sleep 63 &"
    )
    program.script(execute(draw), "drawn")
    terminal = chat(program, "--approve", "auto", "--thread", "one", says="kitty")
    terminal.send("go")
    terminal.wait_for("drawn")
    terminal.wait_for("Plot: results/own.png")
    assert terminal.raw.count("\x1b_Ga=p") == 1
    terminal.send("/files")
    terminal.wait_for("results/own.png")
    terminal.send("/show plot")
    terminal.wait_for("results/own.png")
    terminal.prompted()
    assert terminal.raw.count("\x1b_Ga=p") == 2
    assert any("sleep 63" in line for line in processes_of(terminal.pid))
    terminal.send("/stop")
    terminal.wait_for("Everything in the sandbox has ended")
    assert not any("sleep 63" in line for line in processes_of(terminal.pid))
    terminal.send("/new two")
    terminal.send("/show plot")
    terminal.wait_for("There is no plot yet.")
    terminal.send("/exit")
    ended(terminal)


def test_several_calls_at_once_are_decided_one_by_one(program: Program) -> None:
    program.script([execute(f"touch /results/{name}") for name in "ab"], "both decided")
    terminal = chat(program)
    terminal.send("go")
    terminal.wait_for("(1 of 2)")
    terminal.wait_for(QUESTION)
    terminal.type("a\r")
    terminal.wait_for("(2 of 2)")
    terminal.wait_for(QUESTION)
    terminal.type("r\r")
    terminal.wait_for("Reason")
    terminal.type("\r")
    terminal.wait_for("both decided")
    assert [path.name for path in (program.workspace / "results").iterdir()] == ["a"]
    terminal.send("/exit")
    ended(terminal)
