"""A server that watches the workspace is noticed, as a process looks that is one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.reloading import reload_check


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


@pytest.mark.parametrize("options", [["dev"], ["dev", "--port", "2024"]])
def test_one_that_reloads_is_named_with_what_to_do(tmp_path: Path, options: list[str]) -> None:
    with running(tmp_path, *options) as process:
        check = reload_check(tmp_path / "workspace")
    assert not check.ok
    assert str(process.pid) in check.detail
    assert "make dev" in check.hint


@pytest.mark.parametrize("options", [["dev", "--no-reload"], ["up"], []])
def test_others_are_not(tmp_path: Path, options: list[str]) -> None:
    with running(tmp_path, *options):
        assert reload_check(tmp_path / "workspace").ok


def test_one_of_another_folder_is_not(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with running(elsewhere, "dev"):
        assert reload_check(tmp_path / "workspace").ok
    assert reload_check(tmp_path / "workspace").ok
