"""How far something long has come, at a terminal and in a pipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.progress import steps

ROOT = Path(__file__).parents[2]
LINES = [
    "no Docker Engine answers: setting one up",
    "fetching the Python packages of the image: 3 of 25, [red]numpy==2",
    "Step 1/17 : FROM debian\x1b[2J",
    "Setting up perl",
    "Step 2/17 : RUN true",
]


def test_a_line_each_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with steps() as report:
        for line in LINES:
            report(line)
    assert capsys.readouterr().out == "".join(f"  {line}\n" for line in LINES).replace("\x1b", "‹U+001B›")


def test_a_bar_at_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard output for a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with steps() as report:
        for line in LINES:
            report(line)
    shown = capsys.readouterr().out
    assert f"  {LINES[0]}\n" in shown
    for seen in ("3/25", "[red]numpy==2", "1/17", "2/17", "Step 2/17 : RUN true"):
        assert seen in shown
    assert "\x1b[2J" not in shown
    assert "  Setting up perl\n" not in shown


def test_a_terminal_that_cannot_go_back_gets_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    with steps() as report:
        report(LINES[0])
    assert capsys.readouterr().out == f"  {LINES[0]}\n"


def test_run_loads_nothing_of_what_only_a_conversation_needs() -> None:
    program = (
        "import agent.run_command, sys; print({'prompt_toolkit', 'agent.plots', 'PIL'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("set()\n", 0), done.stderr
