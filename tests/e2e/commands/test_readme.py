"""Every command of the README works in a fresh clone. `test_from_python.py` runs the Python example.

No test fetches the weights of the local model: most use a script as the model, or a proxy that refuses every
connection. The one test with the real model needs the weights in the user's cache.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agent.settings import ROOT, load_settings
from libs.models import weights
from libs.models.weights import QWEN_CODER
from tests.eval.checks import numbers_in

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.split(" #")[0].strip()
    for language, block in BLOCKS
    if language == "bash"
    for line in block.splitlines()
    if line.strip()
]
OWN_TASK = 'make run TASK="Which region lost most in 2024, and why? Plot it."'
OTHER_FILE = '.venv/bin/code-agent run "Look at /data/your-file.csv and tell me what is odd about it."'
MODEL_VARIABLES = ("MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
PLOT = "workspace/results/revenue_by_month.png"

# Nothing listens at this address, so neither the model hub nor a package index can be reached.
NOWHERE = "http://127.0.0.1:1"
NO_SOURCES = {
    **{"HTTPS_PROXY": NOWHERE, "https_proxy": NOWHERE, "NO_PROXY": "", "no_proxy": ""},
    **{"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{NOWHERE}/simple/", "PIP_RETRIES": "0"},
    **{"PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""},
}


def environment(**added: str) -> dict[str, str]:
    """Return this environment without a model, a virtual environment and the variables of make."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in (*MODEL_VARIABLES, "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "TASK")
    }
    return kept | added


def attempt(command: str, folder: Path, **added: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(**added),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def playing(clone: Path, command: str, answer: str) -> str:
    """Write a script that runs one command and answers; return the value for MODEL."""
    script = clone.parent / "script.json"
    call = {"name": "execute", "args": {"command": command}}
    script.write_text(json.dumps([{"tool_calls": [call]}, {"text": answer}]))
    return f"scripted:{script}"


def run(command: str, folder: Path, **added: str) -> str:
    done = attempt(command, folder, **added)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the README's first command: a clone without virtual environment and settings."""
    folder = tmp_path_factory.mktemp("stranger") / "code-execution-agent"
    command = COMMANDS[0].replace("<this repository>", shlex.quote(str(ROOT)))
    command = command.replace(" code-execution-agent ", f" {folder} ").replace(
        "cd code-execution-agent", f"cd {folder}"
    )
    run(f"{command} && test ! -e .venv", folder.parent)
    return folder


def test_every_command_of_the_readme_is_run() -> None:
    assert COMMANDS == [
        "git clone <this repository> code-execution-agent && cd code-execution-agent",
        "make run",
        "make demo",
        "cp .env.example .env",
        OWN_TASK,
        OTHER_FILE,
        "make test",
        "make test-all",
        "make lint",
        "make bench",
        "make eval SUBSET=dev",
    ]
    # The CI script runs the commands that this test cannot run from within itself.
    commands = (ROOT / ".ci" / "run").read_text()
    assert "\nrun test " in commands
    assert "\nrun test-rest " in commands
    assert "test-all: test test-rest" in (ROOT / "Makefile").read_text()


@pytest.mark.thorough
def test_make_run_and_make_demo(clone: Path) -> None:
    said = run("make run", clone, MODEL="scripted:agent/demo.yaml")
    assert "No terminal: every step is approved" in said
    assert not (clone / ".venv/.local").exists(), "the runtime of a local model is installed only for one"
    assert (clone / PLOT).read_bytes().startswith(b"\x89PNG")
    (clone / PLOT).unlink()
    said = run("make demo", clone, **NO_SOURCES)
    assert "a script that is played, not a model" in said
    assert "is not there" not in said, "the task names no file that the script does not make"
    assert (clone / PLOT).read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def runtime(clone: Path) -> str:
    """Install the runtime of the local model, without the weights; return the output."""
    said = run("make .venv/.local", clone)
    run(".venv/bin/python -c 'import openvino_genai'", clone)
    return said


@pytest.mark.thorough
def test_model_that_cannot_be_fetched_is_explained(clone: Path, runtime: str, tmp_path: Path) -> None:
    done = attempt("make run", clone, XDG_CACHE_HOME=str(tmp_path), **NO_SOURCES)
    assert done.returncode == 2, done.stdout + done.stderr
    what = f"Fetching {QWEN_CODER.name}, licence Apache-2.0: 1.12 GB, once, into {tmp_path}/"
    assert what in done.stdout
    assert "To use another model instead, stop this with Ctrl-C" in done.stdout
    assert f"{QWEN_CODER.name} could not be fetched" in done.stderr
    for said in (done.stdout, done.stderr):
        for way in ("MODEL=provider:model", "OPENAI_API_KEY", "OPENAI_BASE_URL", "make demo"):
            assert way in said
    assert "Thread" not in done.stdout, "a run began"
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) == 0


@pytest.mark.thorough
def test_make_run_with_the_local_model(clone: Path, runtime: str) -> None:
    """The local model solves the sample task. Takes minutes."""
    if weights.kept(QWEN_CODER, load_settings(None).models_dir) is None:
        pytest.skip("the weights of the local model are not on this machine, and no test fetches them")
    for plot in (clone / "workspace/results").glob("*.png"):
        plot.unlink()
    said = run("make run", clone, **NO_SOURCES)
    assert "code agent, model local" in said
    answer = said.rpartition("\n  exit 0, ")[2]
    # The figure of May 2024: no row of that month is repeated.
    assert any(abs(number - 37_900.52) < 1 for number in numbers_in(answer)), said
    (plot,) = (clone / "workspace/results").glob("*.png")
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_own_task_own_settings_and_own_file(clone: Path) -> None:
    run("cp .env.example .env", clone)
    model = playing(clone, "head -1 /data/sales.csv", "The south lost most.")
    said = run(OWN_TASK, clone, MODEL=model)
    assert "order_id,order_date,region" in said
    assert "The south lost most." in said
    (clone / "workspace/data/your-file.csv").write_text("day,visitors\n2024-01-01,12\n2024-01-02,-3\n")
    model = playing(clone, "cat /data/your-file.csv", "Minus three visitors are odd.")
    assert "2024-01-02,-3" in run(f"{OTHER_FILE} --approve auto", clone, MODEL=model)


@pytest.mark.thorough
def test_make_bench(clone: Path) -> None:
    # The whole benchmark takes ten minutes: run a part of it in few rounds.
    said = run("make bench PARTS='commands tokens'", clone, BENCH_ROUNDS="2")
    assert "warm `echo hi`" in said
    assert (clone / "tests/artifacts/bench.json").is_file()


@pytest.mark.thorough
def test_make_eval(clone: Path) -> None:
    """Runs one of the ten tasks of the README's command, with a script as the model."""
    script = clone.parent / "eval.yaml"
    replies = ["```bash\nhead -3 /data/*.csv\n```", "Southbank, with 31,965.25."]
    script.write_text(json.dumps([{"text": text} for text in replies]))
    said = run("make eval SUBSET=region-revenue", clone, MODEL=f"scripted:{script}")
    assert "1 of 1 solved" in said
    assert len(list((clone / "tests/artifacts/eval").glob("*/report.json"))) == 1


@pytest.fixture
def server(clone: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    run("make setup", clone)  # below, nothing can be fetched
    log = tmp_path / "dev.log"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("wb") as written:
        process = subprocess.Popen(
            ["make", "dev", f"PORT={port}"],
            cwd=clone,
            # The server starts although its model cannot be fetched.
            env=environment(XDG_CACHE_HOME=str(tmp_path), **NO_SOURCES),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    yield f"http://127.0.0.1:{port}", log
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)


@pytest.mark.thorough
def test_make_dev(server: tuple[str, Path]) -> None:
    url, log = server
    deadline = time.monotonic() + 120
    while True:
        try:
            found = httpx.post(f"{url}/assistants/search", json={}).json()
            break
        except httpx.TransportError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
    assert {assistant["graph_id"] for assistant in found} == {"deep_agent", "code_agent", "exec_agent"}
    while f"The page: {url}/app" not in log.read_text():  # printed after the messages of LangGraph's server
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    said = log.read_text()
    assert "The server starts without a model." in said
    assert f"https://smith.langchain.com/studio/?baseUrl={url}" in said
