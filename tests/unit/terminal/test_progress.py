"""Progress of a long task, at a terminal and in a pipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.terminal.progress import steps

ROOT = Path(__file__).parents[3]
LINES = [
    "no Docker Engine answers: setting one up",
    "fetching the Python packages of the image: 3 of 25, [red]numpy==2",
    "Step 1/17 : FROM debian\x1b[2J",
    "Setting up perl",
    "Step 2/17 : RUN true",
]


@pytest.mark.parametrize("term", ["", "dumb", "xterm"])
def test_steps_at_a_terminal_and_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    if term:
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard output for a terminal
    monkeypatch.setenv("TERM", term or "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with steps() as report:
        for line in LINES:
            report(line)
    shown = capsys.readouterr().out
    if term != "xterm":
        assert shown == "".join(f"  {line}\n" for line in LINES).replace("\x1b", "‹U+001B›")
        return
    for seen in (f"  {LINES[0]}\n", "3/25", "[red]numpy==2", "1/17", "2/17", "Step 2/17 : RUN true"):
        assert seen in shown
    for hidden in ("\x1b[2J", "  Setting up perl\n"):
        assert hidden not in shown


@pytest.mark.thorough
def test_run_imports_no_module_of_chat() -> None:
    program = (
        "import agent.commands.run_command, sys; "
        "print({'prompt_toolkit', 'agent.terminal.terminal_plots', 'PIL'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("set()\n", 0), done.stderr
