"""`doctor` finds a server that reloads when the workspace changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.commands.machine.doctor import reload_check


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose command line is that of `langgraph dev`."""
    program = folder / "langgraph"
    program.write_text("import time\nprint(flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, str(program), *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("options", "watches"),
    [(["dev", "--port", "2024"], True), (["dev", "--no-reload"], False), (["up"], False)],
)
def test_server_that_watches_the_workspace_is_named(
    tmp_path: Path, options: list[str], watches: bool
) -> None:
    with running(tmp_path, *options) as process:
        check = reload_check(tmp_path / "workspace")
        assert reload_check(tmp_path.parent).ok
    assert check.ok is not watches
    assert (str(process.pid) in check.detail) is watches
