"""The terminal, Python programs and the server pass variables of `.env` to commands by one rule."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from tests.clients.cli_program import Program, call
from tests.servers.served import Served
from tests.support.canaries import listening

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

FILE = {
    "APPROVALS": "auto",
    "SANDBOX_ENV_ALLOW": "SHOP_*",
    "EXEC_PASS_KEYS": "1",
    "SHOP_FILE": "from the file",
    "SHOP_BOTH": "from the file",
    "SHOP_EMPTY": "from the file",
    "BRAVE_API_KEY": "BSA-5e9b1f7c2a8d",
    "OTHER": "not in SANDBOX_ENV_ALLOW, and not a key",
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_API_KEY": "lsv2_pt_5e9b1f7c2a8d",
}
ENVIRONMENT = {"SHOP_HOST": "from the environment", "SHOP_BOTH": "from the environment", "SHOP_EMPTY": ""}
SHOP = {
    "SHOP_BOTH": "from the environment",
    "SHOP_EMPTY": "from the file",
    "SHOP_FILE": "from the file",
    "SHOP_HOST": "from the environment",
}
KEYS = {name: FILE[name] for name in ("BRAVE_API_KEY", "LANGSMITH_API_KEY")}

WRITE_HASHES = """
import hashlib, os
with open("results/{agent}", "w") as file:
    for name, value in sorted(os.environ.items()):
        if name.startswith("SHOP_") or name.endswith("_API_KEY") or name == "OTHER":
            print(name, hashlib.sha256(value.encode()).hexdigest(), file=file)
"""
"""Writes hashes of variables, because values of keys would be redacted."""
CALLS = {
    "deep": call("execute", command=f"python3 - <<'END'{WRITE_HASHES.format(agent='deep')}END"),
    "exec": call("execute_code", code=WRITE_HASHES.format(agent="exec")),
}
SCRIPT = yaml.safe_dump(
    {
        "conversations": [
            {"when": f"look {agent}", "replies": [{"tool_calls": [called]}, {"text": "Done."}]}
            for agent, called in CALLS.items()
        ]
    }
)

PYTHON = """
from agent import exec_graph, graph
for module, agent in ((graph, "deep"), (exec_graph, "exec")):
    task = {"messages": [("user", f"look {agent}")]}
    module.build_graph().invoke(task, {"configurable": {"thread_id": agent}})
"""


def run_at_the_terminal(server: Served) -> None:
    program = Program(server.folder)
    for agent in ("deep", "exec"):
        assert program.lines("--agent", agent, f"look {agent}")[-1]["status"] == "completed"


def run_in_python(server: Served) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PYTHON],
        cwd=server.folder,
        env=Program(server.folder).env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def run_on_the_server(server: Served) -> None:
    server.start()
    try:
        with server.client() as client:
            for agent in ("deep", "exec"):
                answer = client.post("/run", json={"input": f"look {agent}", "agent": agent})
                assert (answer.status_code, answer.json()["status"]) == (200, "completed"), answer.text
    finally:
        server.end()


@pytest.mark.parametrize("run_tasks", [run_at_the_terminal, run_in_python, run_on_the_server])
def test_variables_of_the_file_reach_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_tasks: Callable[[Served], None]
) -> None:
    for name in FILE:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with listening() as tracing:
        run_tasks(Served(tmp_path, SCRIPT, **FILE, LANGSMITH_ENDPOINT=f"http://127.0.0.1:{tracing.port}"))
        assert seen(tmp_path, "deep") == hashed(SHOP)
        assert seen(tmp_path, "exec") == hashed({**SHOP, **KEYS})
        assert tracing.bodies, "LangSmith reads its variables from the environment only"


def seen(folder: Path, agent: str) -> dict[str, str]:
    lines = (folder / "workspace" / "results" / agent).read_text().splitlines()
    return dict(line.split(" ") for line in lines)


def hashed(variables: dict[str, str]) -> dict[str, str]:
    return {name: sha256(value.encode()).hexdigest() for name, value in variables.items()}
