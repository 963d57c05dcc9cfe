"""A line that a person types before a plot is drawn is not lost."""

from __future__ import annotations

import io
import os
import pty
import sys
from pathlib import Path

import pytest
from rich.console import Console

from agent.terminal.terminal_plots import show_plot
from libs.backends.docker import DockerExecutionBackend


async def test_only_the_first_plot_drops_typed_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = pty.openpty()
    with os.fdopen(terminal, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm-256color"})
        sandbox = DockerExecutionBackend(tmp_path)
        assert await show_plot("results/plot.svg", sandbox, console)  # is not drawn
        os.write(keyboard, b"/help\n")
        assert await show_plot("results/plot.svg", sandbox, console)
        os.set_blocking(terminal, False)
        assert os.read(terminal, 100) == b"/help\n"
    os.close(keyboard)
