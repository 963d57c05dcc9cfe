"""Changing a call before it runs, where `INTERRUPT_ON` lists `edit`."""

from __future__ import annotations

import sys

import pytest
from cli_program import Program, execute
from screen_terminal import ScreenTerminal

pytestmark = pytest.mark.docker

# What a person who runs this would write into agent/config.py.
EDITABLE = (
    "from agent import config; "
    "config.INTERRUPT_ON = {**config.INTERRUPT_ON, 'execute': ('approve', 'edit', 'reject')}; "
    "from agent.cli import app; app(prog_name='code-agent')"
)
QUESTION = "[c]hange it first, [r]eject, or [q]uit and leave it pending:"


@pytest.fixture
def editable(program: Program) -> Program:
    program.command = (sys.executable, "-c", EDITABLE)
    return program


def change(terminal: ScreenTerminal, before: str, keys: str) -> None:
    terminal.wait_for(QUESTION)
    terminal.type("c\r")
    terminal.wait_for(f"command: {before}")
    terminal.type(keys)


@pytest.mark.parametrize("command", ["chat", "run"])
def test_what_was_changed_is_shown_and_runs(editable: Program, command: str) -> None:
    editable.script(execute("echo one >> /results/n"), "I see.")
    terminal = ScreenTerminal(editable, ["chat"] if command == "chat" else ["run", "go"])
    if command == "chat":
        terminal.send("go")
    change(terminal, "echo one >> /results/n", "\x15echo two >> /results/n\r")
    terminal.wait_for("  command: echo two >> /results/n")
    terminal.wait_for("Run this? [y]es, or [n]o and ask again:")
    terminal.type("n\r")
    change(terminal, "echo one >> /results/n", "\x15echo 'a\u202eb' >> /results/n\r")
    terminal.wait_for("  command: echo 'a‹U+202E›b' >> /results/n")
    terminal.wait_for("Run this?")
    terminal.type("y\r")
    terminal.wait_for("exit 0")
    terminal.wait_for("I see.")
    if command == "chat":
        terminal.send("/exit")
    assert terminal.end() == 0
    assert (editable.workspace / "results" / "n").read_text() == "a\u202eb\n"


def test_of_several_lines_each_can_be_changed(editable: Program) -> None:
    editable.script(execute("echo a\necho b > /results/n"), "I see.")
    terminal = ScreenTerminal(editable, ["chat"])
    terminal.send("go")
    terminal.wait_for(QUESTION)
    terminal.type("c\r")
    terminal.wait_for("Alt-Enter (or Esc, then Enter) ends the change.")
    terminal.wait_for("echo b > /results/n")
    terminal.type("; echo c >> /results/n\r")  # a line more
    terminal.type("echo d >> /results/n")
    terminal.type("\x1b\r")
    terminal.wait_for("command (3 lines):")
    terminal.wait_for("Run this?")
    terminal.type("y\r")
    terminal.wait_for("I see.")
    terminal.send("/exit")
    assert terminal.end() == 0
    assert (editable.workspace / "results" / "n").read_text() == "b\nc\nd\n"


def test_it_is_offered_where_it_is_allowed_alone(program: Program) -> None:
    program.script(execute("echo one"), "I see.")
    terminal = ScreenTerminal(program, ["chat"])
    terminal.send("go")
    terminal.wait_for("[r]eject, or [q]uit and leave it pending:")
    assert "[c]hange" not in terminal.text
    terminal.type("c\r")
    terminal.wait_for("Please answer a, e, t, r or q.")
    terminal.wait_for("[q]uit and leave it pending:")
    terminal.type("q\r")
    terminal.send("/exit")
    assert terminal.end() == 0
