"""Every command of the README, run as a stranger would: in an empty folder, from a fresh clone (Q1).

Nothing here fetches the weights of the local model: a script stands in for it, or the sources of the weights
lead nowhere. The one test that asks the model itself needs them in the user's cache.
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

from agent.config import ROOT, load_settings
from libs.models import weights
from libs.models.weights import QWEN_CODER
from tests.eval.checks import numbers_in
from tests.eval.reference import play
from tests.eval.tasks import choose

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.split("  #")[0].strip()
    for language, block in BLOCKS
    if language == "bash"
    for line in block.splitlines()
    if line.strip()
]
OWN_TASK = 'make run TASK="Which region lost most in 2024, and why? Plot it."'
OTHER_FILE = '.venv/bin/code-agent run "Look at /data/your-file.csv and tell me what is odd about it."'
MODEL_VARIABLES = ("MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
PLOT = "workspace/results/revenue_by_month.png"

# Nothing listens there: neither the hub nor an index can be reached, whatever this machine can reach.
NOWHERE = "http://127.0.0.1:1"
NO_SOURCES = {
    **{"HTTPS_PROXY": NOWHERE, "https_proxy": NOWHERE, "NO_PROXY": "", "no_proxy": ""},
    **{"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{NOWHERE}/simple/", "PIP_RETRIES": "0"},
    **{"PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""},
}


def environment(**added: str) -> dict[str, str]:
    """This one, without a model, without this checkout's own virtual environment, and no variable of make."""
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


def run(command: str, folder: Path, **added: str) -> str:
    done = attempt(command, folder, **added)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the README's first command leaves: no virtual environment, no settings."""
    folder = tmp_path_factory.mktemp("stranger") / "code-execution-agent"
    command = COMMANDS[0].replace("<this repository>", shlex.quote(str(ROOT)))
    command = command.replace(" code-execution-agent ", f" {folder} ").replace(
        "cd code-execution-agent", f"cd {folder}"
    )
    run(f"{command} && test ! -e .venv", folder.parent)
    return folder


def test_there_is_no_command_that_is_not_run() -> None:
    assert COMMANDS == [
        "git clone <this repository> code-execution-agent && cd code-execution-agent",
        "make run",
        "make demo",
        "cp .env.example .env",
        OWN_TASK,
        OTHER_FILE,
        "make test",
        "make lint",
        "make bench",
        "make eval SUBSET=dev",
    ]
    # The one that cannot be run from within itself is what continuous integration runs.
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_make_run(clone: Path) -> None:
    said = run("make run", clone, MODEL="scripted:agent/demo.yaml")
    assert "No terminal: every step is approved" in said
    assert (clone / PLOT).read_bytes().startswith(b"\x89PNG")
    assert not (clone / ".venv/.local").exists(), "what runs a local model is for those who have chosen one"


def test_make_run_again_shows_no_error(clone: Path) -> None:
    said = run("make run", clone, MODEL="scripted:agent/demo.yaml")
    assert "exit 0" in said
    assert "Error" not in said


def test_make_demo(clone: Path) -> None:
    (clone / PLOT).unlink()
    said = run("make demo", clone, **NO_SOURCES)
    assert "deep agent" in said
    assert "a script that is played, not a model" in said
    assert (clone / PLOT).read_bytes().startswith(b"\x89PNG")


def test_the_command_alone_names_the_choices(clone: Path, tmp_path: Path) -> None:
    done = attempt(OTHER_FILE, clone, XDG_CACHE_HOME=str(tmp_path), **NO_SOURCES)
    assert done.returncode == 2
    assert done.stderr.startswith("No model is configured, and the local one is not ready")
    for way in ("code-agent model fetch", "`make local`", "OPENAI_API_KEY", "OPENAI_BASE_URL", "make demo"):
        assert way in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_runs_a_local_model_cannot_be_had(clone: Path, tmp_path: Path) -> None:
    done = attempt("make run", clone, XDG_CACHE_HOME=str(tmp_path), **NO_SOURCES)
    assert done.returncode == 2
    assert "It could not be installed." in done.stderr
    assert "make demo" in done.stderr
    assert "Thread" not in done.stdout, "a run began"
    assert not (clone / ".venv/.local").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def runtime(clone: Path) -> str:
    """What runs a local model, without the weights; and what was said of it."""
    return run("make .venv/.local", clone)


def test_what_runs_a_local_model(clone: Path, runtime: str) -> None:
    assert runtime == "installing what runs a local model into .venv (OpenVINO, about 70 MB)\n"
    run(".venv/bin/python -c 'import openvino_genai'", clone)
    assert run("make -s .venv/.local", clone) == ""


@pytest.mark.parametrize("command", ["make run", OWN_TASK, "make run MODEL=local", "make eval SUBSET=dev"])
def test_no_model_and_no_source_of_one(clone: Path, runtime: str, tmp_path: Path, command: str) -> None:
    done = attempt(command, clone, XDG_CACHE_HOME=str(tmp_path), **NO_SOURCES)
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


def test_make_run_with_the_local_model(clone: Path, runtime: str) -> None:
    """Takes minutes, and shows what no script can: that the sample is one for this model."""
    if weights.kept(QWEN_CODER, load_settings(None).models_dir) is None:
        pytest.skip("the weights of the local model are not on this machine, and no test fetches them")
    for plot in (clone / "workspace/results").glob("*.png"):
        plot.unlink()
    said = run("make run", clone, **NO_SOURCES)
    assert "code agent, model local" in said
    answer = said.rpartition("\n  exit 0, ")[2]
    # May 2024: no row of it is there twice, so that it is the same however doubles are treated.
    assert any(abs(number - 37_900.52) < 1 for number in numbers_in(answer)), said
    (plot,) = (clone / "workspace/results").glob("*.png")
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_local_file_of_ones_own_is_not_fetched(clone: Path, runtime: str, tmp_path: Path) -> None:
    command = f"make run MODEL=local:{tmp_path}/absent.gguf"
    done = attempt(command, clone, XDG_CACHE_HOME=str(tmp_path), **NO_SOURCES)
    assert done.returncode == 2
    assert "absent.gguf cannot be used" in done.stderr
    assert "Fetching" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_cannot_be_is_named_before_anything_is_fetched(clone: Path, tmp_path: Path) -> None:
    done = attempt("make run MODEL=gpt-5", clone, XDG_CACHE_HOME=str(tmp_path), **NO_SOURCES)
    assert done.returncode == 2
    assert "MODEL=gpt-5: must be" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_task_and_settings_of_ones_own(clone: Path) -> None:
    run("cp .env.example .env", clone)
    script = clone.parent / "lost.yaml"
    script.write_text(
        "- tool_calls:\n  - name: execute\n    args: {command: 'head -1 /data/sales.csv'}\n"
        "- text: The south lost most.\n"
    )
    said = run(OWN_TASK, clone, MODEL=f"scripted:{script}")
    assert "order_id,order_date,region" in said
    assert "The south lost most." in said


def test_another_file(clone: Path) -> None:
    (clone / "workspace/data/your-file.csv").write_text("day,visitors\n2024-01-01,12\n2024-01-02,-3\n")
    script = clone.parent / "look.yaml"
    script.write_text(
        "- tool_calls:\n  - name: execute\n    args: {command: 'cat /data/your-file.csv'}\n"
        "- text: Minus three visitors are odd.\n"
    )
    said = run(f"{OTHER_FILE} --approve auto", clone, MODEL=f"scripted:{script}")
    assert "2024-01-02,-3" in said
    assert "Minus three visitors are odd." in said


def test_the_example_in_python(clone: Path) -> None:
    (code,) = (block for language, block in BLOCKS if language == "python")
    assert '"openai:gpt-5-mini"' in code
    script = clone.parent / "count.yaml"
    script.write_text(
        "- tool_calls:\n  - name: execute\n    args: {command: 'wc -l /data/sales.csv'}\n"
        "- text: 3,505 rows.\n"
    )
    program = clone.parent / "example.py"
    program.write_text(code.replace("openai:gpt-5-mini", f"scripted:{script}"))
    said = run(".venv/bin/python ../example.py", clone)
    assert "wc -l /data/sales.csv" in said
    assert said.rstrip().endswith("3,505 rows.")


def test_lint_and_bench(clone: Path) -> None:
    run("make lint", clone)
    # Few rounds of some of it: the whole takes ten minutes of a machine that does nothing else.
    said = run("make bench PARTS='commands imports tokens'", clone, BENCH_ROUNDS="2")
    assert "warm `echo hi`" in said
    assert (clone / "tests/artifacts/bench.json").is_file()


def test_make_eval(clone: Path, tmp_path: Path) -> None:
    """One of the ten tasks of the README's command, for there is no model."""
    task = choose("dev")[0]
    answer = play(task, task.reference, tmp_path).answer
    script = clone.parent / "eval.yaml"
    replies = ["```bash\nhead -3 /data/*.csv\n```", answer]
    script.write_text(json.dumps([{"text": text} for text in replies]))
    said = run(f"make eval SUBSET={task.name}", clone, MODEL=f"scripted:{script}")
    assert f"1/1 solved {task.name}" in said
    assert len(list((clone / "tests/artifacts/eval").glob("*/report.json"))) == 1


@pytest.fixture
def server(clone: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    run("make setup", clone)  # whatever was tried before: below, nothing can be fetched
    log = tmp_path / "dev.log"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("wb") as written:
        process = subprocess.Popen(
            ["make", "dev", f"PORT={port}"],
            cwd=clone,
            # Its model cannot be fetched: it serves all the same.
            env=environment(XDG_CACHE_HOME=str(tmp_path), **NO_SOURCES),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    yield f"http://127.0.0.1:{port}", log
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)


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
    said = log.read_text()
    assert "The server starts without a model." in said
    assert f"The page: {url}/app" in said
    assert f"https://smith.langchain.com/studio/?baseUrl={url}" in said
