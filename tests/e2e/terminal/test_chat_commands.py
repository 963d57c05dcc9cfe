"""`code-agent chat` at a terminal: commands, completion, history and threads."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.clients.cli_program import Program, call, execute
from tests.clients.screen_terminal import chat, ended

pytestmark = pytest.mark.docker


@pytest.mark.thorough
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
    terminal.type("\x1b[A\x1b[A")  # the line before /exit
    terminal.prompted_with("recall me")
    terminal.type("\x15\x04")
    ended(terminal)


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_agent_model_and_thread_are_changed(program: Program) -> None:
    program.script("I plan.", "I plan more.")
    (program.folder / "other.yaml").write_text("- text: Another script.\n")
    terminal = chat(program, "--thread", "one")
    for line, *said in (
        ("hi", "I plan."),
        ("/agent", "deep. There are: auto, deep, code"),
        ("/agent nobody", "There is no agent nobody."),
        ("/agent code", "Thread one stays with its deep agent; a new one begins.", ", code agent, model"),
        ("/model scripted:other.yaml", "code agent, model scripted:other.yaml"),
        ("who?", "Another script."),
        ("/model gpt-5", "MODEL=gpt-5: must be"),
        ("/model openai:gpt-5-mini", "code agent, model openai:gpt-5-mini"),
        ("are you there?", "OPENAI_API_KEY"),
        ("/model scripted:script.yaml", "scripted:script.yaml"),
        ("/thread two", "There is no thread two: /threads lists them"),
        ("/new one", "There is a thread one already"),
        ("/agent auto",),
        ("/thread one", "Thread one, deep agent", "> hi", "I plan."),
        ("more", "I plan more."),
        ("/new three", "Thread three, deep agent"),
        ("/show plot", "There is no plot yet."),
        ("/threads", "deep  hi  (scripted:", "code  who?  (scripted:"),
        ("/exit",),
    ):
        terminal.send(line)
        for words in said:
            terminal.wait_for(words)
    ended(terminal)


@pytest.mark.thorough
def test_files_skills_help_and_unknown_command(program: Program) -> None:
    program.script(call("write_file", file_path="/scripts/a\x1b[2J.py", content="1"), "/data has a path.")
    terminal = chat(program)
    for line, words in (
        ("/data/x.csv has which columns?", "/data has a path."),
        ("/files scripts", "scripts/a‹U+001B›[2J.py"),
        ("/files results", "There is no file in results."),
        ("/skills", "csv-analytics: Analyse CSV files"),
        ("/help", "/show plot [PATH]"),
        ("/nothing", "There is no command /nothing"),
    ):
        terminal.send(line)
        terminal.wait_for(words)
    terminal.send("/exit")
    ended(terminal)


@pytest.mark.thorough
def test_continue_goes_on_with_a_killed_thread(program: Program) -> None:
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
    terminal.wait_for("The last run of this thread was interrupted: /continue resumes it.")
    terminal.send("/threads")
    terminal.wait_for("go  (scripted:script.yaml)  last run interrupted")
    terminal.send("/continue")
    terminal.wait_for("The command was cut off.")
    terminal.send("/continue")
    terminal.wait_for("Nothing is pending in this thread.")
    terminal.send("/exit")
    ended(terminal)
