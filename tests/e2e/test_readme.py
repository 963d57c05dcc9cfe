"""Every command of the README, run as a stranger would: in an empty folder, from a fresh clone (Q1)."""

from __future__ import annotations

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

from agent.config import ROOT

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
MODEL_VARIABLES = ("MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")


def environment(**added: str) -> dict[str, str]:
    """This one, without a model, without this checkout's own virtual environment, and no variable of make."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in (*MODEL_VARIABLES, "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "TASK")
    }
    return kept | added


def run(command: str, folder: Path, **added: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(**added),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
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
        "cp .env.example .env",
        'make run TASK="Which region lost most in 2024, and why? Plot it."',
        '.venv/bin/code-agent run "Look at /data/your-file.csv and tell me what is odd about it."',
        "make test",
        "make lint",
        "make bench",
    ]
    # The one that cannot be run from within itself is what continuous integration runs.
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_make_run(clone: Path) -> None:
    said = run("make run", clone)
    assert "No model is configured" in said
    assert "No terminal: every step is approved" in said
    assert (clone / "workspace/results/revenue_by_month.png").read_bytes().startswith(b"\x89PNG")


def test_make_run_again_shows_no_error(clone: Path) -> None:
    said = run("make run", clone)
    assert "exit 0" in said
    assert "Error" not in said


def test_a_task_and_settings_of_ones_own(clone: Path) -> None:
    run("cp .env.example .env", clone)
    refused = subprocess.run(
        ["bash", "-c", COMMANDS[3]], cwd=clone, env=environment(), capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert "No model is configured, so nothing was done." in refused.stderr
    script = clone.parent / "lost.yaml"
    script.write_text(
        "- tool_calls:\n  - name: execute\n    args: {command: 'head -1 /data/sales.csv'}\n"
        "- text: The south lost most.\n"
    )
    said = run(COMMANDS[3], clone, MODEL=f"scripted:{script}")
    assert "order_id,order_date,region" in said
    assert "The south lost most." in said


def test_another_file(clone: Path) -> None:
    (clone / "workspace/data/your-file.csv").write_text("day,visitors\n2024-01-01,12\n2024-01-02,-3\n")
    script = clone.parent / "look.yaml"
    script.write_text(
        "- tool_calls:\n  - name: execute\n    args: {command: 'cat /data/your-file.csv'}\n"
        "- text: Minus three visitors are odd.\n"
    )
    said = run(f"{COMMANDS[4]} --approve auto", clone, MODEL=f"scripted:{script}")
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
    said = run("make bench", clone)
    assert "warm `echo hi`" in said
    assert (clone / "tests/artifacts/bench.json").is_file()


@pytest.fixture
def server(clone: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        ["make", "dev", f"PORT={port}"],
        cwd=clone,
        env=environment(BROWSER="true"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield f"http://127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)


def test_make_dev(server: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            found = httpx.post(f"{server}/assistants/search", json={}).json()
            break
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the server did not come up"
            time.sleep(0.5)
    assert {assistant["graph_id"] for assistant in found} == {"deep_agent", "code_agent"}
