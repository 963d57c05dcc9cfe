"""Arguments of `code-agent run` and `code-agent skills validate`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")


def test_dash_reads_the_task_from_standard_input() -> None:
    done = CliRunner().invoke(app, ["run", "--json", "-"], input=" \n")
    assert done.exit_code == 2
    assert "The task is empty" in done.stdout


def test_empty_thread_is_refused() -> None:
    done = CliRunner().invoke(app, ["run", "--json", "--thread", "", "go"])
    assert done.exit_code == 2
    assert "The thread is empty" in done.stdout


def test_skill_of_this_project_is_validated_by_name() -> None:
    done = CliRunner().invoke(app, ["skills", "validate", "tables"])
    assert done.exit_code == 0, done.output
    assert done.output.rstrip().endswith("skills/tables")
    assert CliRunner().invoke(app, ["skills", "validate", "no-such-skill"]).exit_code == 1
