"""Arguments of `code-agent run` and `code-agent skills validate`."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.commands.run_command import run_command
from agent.settings import ROOT
from agent.terminal import STOPPED


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Give a task"),
        (["-"], "The task is empty"),  # reads standard input
        (["--thread", "", "go"], "The thread is empty"),
        (["--thread", "t"], "There is no thread 't'"),
        (["--model", "nonsense", "go"], "MODEL=nonsense"),
        (["--model", "scripted:none.json", "go"], "none.json: cannot read the script"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_wrong_usage_is_a_line_of_json(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["run", "--json", *arguments], input=" \n")
    assert done.exit_code == 2
    [line] = done.stdout.splitlines()
    result = json.loads(line)
    assert (result["type"], result["status"]) == ("result", "error")
    assert says in result["text"]
    assert done.stderr == ""


@pytest.mark.thorough
def test_ctrl_c_before_the_run_is_a_line_of_json(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('[{"text": "hello"}]')
    with socket.socket(socket.AF_UNIX) as engine:  # an Engine that does not answer
        engine.bind(str(tmp_path / "docker.sock"))
        engine.listen()
        engine.settimeout(120)
        process = subprocess.Popen(
            [sys.executable, "-c", "from agent.cli import app; app()", "run", "--json", "go"],
            env=os.environ
            | {"PYTHONPATH": str(ROOT), "MODEL": "scripted:script.json", "APPROVALS": "auto"}
            | {"DOCKER_HOST": f"unix://{tmp_path}/docker.sock"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr
        engine.accept()[0].close()  # the first connection only shows that the socket opens
        with engine.accept()[0]:
            process.send_signal(signal.SIGINT)
            assert any("Stopping." in line for line in process.stderr)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == STOPPED
    result = json.loads(said)
    assert (result["status"], result["text"].startswith("Stopped by Ctrl-C")) == ("stopped", True)


@pytest.mark.parametrize("as_json", [True, False])
def test_ctrl_c_while_the_task_is_read_is_one_line(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(io.TextIOWrapper):
        def read(self, size: int | None = -1, /) -> str:
            signal.raise_signal(signal.SIGINT)
            return super().read(size)

    monkeypatch.setattr(sys, "stdin", Interrupted(io.BytesIO()))
    try:
        status = run_command("-", agent="auto", approve=None, model=None, thread=None, as_json=as_json)
    except KeyboardInterrupt:  # would end pytest
        pytest.fail("the command did not handle Ctrl-C")
    assert status == STOPPED
    out, err = capsys.readouterr()
    said = "Stopped by Ctrl-C before the run began."
    if as_json:
        [line] = out.splitlines()
        result = json.loads(line)
        assert (result["type"], result["status"], result["text"]) == ("result", "stopped", said)
        assert err == ""
    else:
        assert (out, err) == ("", f"{said}\n")


def test_skill_of_this_project_is_validated_by_name() -> None:
    done = CliRunner().invoke(app, ["skills", "validate", "tables"])
    assert done.exit_code == 0, done.output
    assert done.output.rstrip().endswith("skills/tables")
    assert CliRunner().invoke(app, ["skills", "validate", "no-such-skill"]).exit_code == 1
