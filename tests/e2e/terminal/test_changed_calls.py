"""A person changes a call before it runs, where `INTERRUPT_ON` lists `edit`."""

from __future__ import annotations

import sys

import pytest

from tests.clients.cli_program import Program, execute
from tests.clients.screen_terminal import ScreenTerminal

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

# The same change as in agent/config.py.
EDITABLE = (
    "from agent import config; "
    "config.INTERRUPT_ON = {**config.INTERRUPT_ON, 'execute': True}; "
    "from agent.cli import app; app(prog_name='code-agent')"
)


def test_changed_call_is_shown_and_runs(program: Program) -> None:
    program.command = (sys.executable, "-c", EDITABLE)
    program.script(execute("echo a\necho b > /results/n"), "I see.")
    terminal = ScreenTerminal(program, ["chat"])
    terminal.send("go")
    for answer in ("n\r", "y\r"):
        terminal.wait_for("[c]hange it first, [r]eject, or [q]uit and leave it pending:")
        terminal.type("c\r")
        terminal.wait_for("Alt-Enter (or Esc, then Enter) ends the change.")
        terminal.wait_for("echo b > /results/n")
        terminal.type("; echo c >> /results/n\r")  # a second line
        terminal.type("echo 'd\u202e' >> /results/n")
        terminal.type("\x1b\r")
        terminal.wait_for("command (3 lines):")
        terminal.wait_for("echo 'd‹U+202E›' >> /results/n")
        terminal.wait_for("Run this? [y]es, or [n]o and ask again:")
        terminal.type(answer)
    terminal.wait_for("$ echo a\necho b > /results/n; echo c >> /results/n")  # not the call of the model
    terminal.wait_for("I see.")
    terminal.send("/exit")
    assert terminal.end() == 0
    assert (program.workspace / "results" / "n").read_text() == "b\nc\nd\u202e\n"
