"""Output of a server that starts or cannot start, and the reloads of `make dev RELOAD=1`."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.settings import ROOT
from tests.servers.postgres_server import PASSWORD, Postgres
from tests.servers.served import Served, free_port, served
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

SCRIPT = """\
conversations:
- when: slow
  replies:
  - tool_calls: [{name: execute, args: {command: "echo x >> /workspace/ran; sleep 4; echo slept"}}]
  - text: Finished.
"""

ONE_AT_A_TIME = "one run of LangGraph's routes at a time"
"""Part of the warning about one job per worker, the default of `langgraph dev`."""

WITH_AND_WITHOUT_RELOAD = pytest.mark.parametrize(
    "reloads", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["no reload", "reload"]
)


def occupied(folder: Path, port: int | str) -> subprocess.CompletedProcess[str]:
    """Run the check that `make dev` begins with."""
    command = [sys.executable, "-m", "agent.server.occupied", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.thorough
@WITH_AND_WITHOUT_RELOAD
def test_taken_port_is_an_error_that_names_the_program(tmp_path: Path, *, reloads: bool) -> None:
    server = Served(tmp_path, SCRIPT)
    server.reloads = reloads
    assert occupied(tmp_path, server.port).returncode == 0
    program = ["python", "-c", "import sys; sys.stdin.read()"]
    with socket.create_server(("127.0.0.1", server.port)) as taken:
        inherited = subprocess.Popen(
            program, cwd=tmp_path, stdin=subprocess.PIPE, executable=sys.executable, pass_fds=[taken.fileno()]
        )
    with inherited:
        line = f"Port {server.port} is taken by process {inherited.pid} ("
        told = occupied(tmp_path, server.port)
        assert (told.returncode, told.stdout) == (1, "")
        assert told.stderr.startswith(line)
        assert f"in {tmp_path}. End it with `kill {inherited.pid}`, or choose another port:" in told.stderr
        assert told.stderr.count("\n") == 1
        done = subprocess.run(
            server.command, cwd=tmp_path, env=server.environment, capture_output=True, text=True, timeout=180
        )
        assert (done.stdout + done.stderr).count(line) == 1
        assert "Traceback" not in done.stderr
        assert inherited.poll() is None


def test_make_dev_checks_the_port_before_the_installation(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["make", "dev", f"PORT={port}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Port {port} is taken, " in done.stderr  # below `make test`, a warning of make may come first
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]


def test_make_dev_sets_up_the_machine_once() -> None:
    command = ["make", "-n", "dev"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("code-agent setup") == 1


@pytest.mark.parametrize("port", ["notaport", "99999", "0", "-1", ""])
def test_wrong_port_is_one_line(tmp_path: Path, port: str) -> None:
    told = occupied(tmp_path, port)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == f"PORT={port}: must be a number from 1 to 65535.\n"


@pytest.mark.thorough
def test_database_in_use_is_one_line(tmp_path: Path, postgres_server: Postgres) -> None:
    """Two servers in different folders would carry out the runs of one database twice."""
    url = postgres_server.database()
    database = {"APP_ENV": "production", "DATABASE_URL": url}
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    with served(tmp_path / "one", SCRIPT, **database):
        second = Served(tmp_path / "two", SCRIPT, **database)
        done = subprocess.run(
            second.command,
            cwd=second.folder,
            env=second.environment,
            capture_output=True,
            text=True,
            timeout=180,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("Another server works with the threads in the database threads")
    assert line.endswith(". End it, or give this one another DATABASE_URL.")
    assert PASSWORD not in line


@pytest.mark.thorough
def test_wrong_database_is_one_line(tmp_path: Path) -> None:
    url = f"postgresql://me:secret-word@127.0.0.1:{free_port()}/threads"
    server = Served(tmp_path, SCRIPT, APP_ENV="production", DATABASE_URL=url)
    done = subprocess.run(
        server.command, cwd=tmp_path, env=server.environment, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert (said.count("cannot be used"), "Traceback" in said, "secret-word" in said) == (1, False, False)
    line = done.stderr.splitlines()[-1]
    assert line.startswith("The database threads at 127.0.0.1 cannot be used: ")
    assert "Start it, or correct DATABASE_URL" in line


@WITH_AND_WITHOUT_RELOAD
def test_log_ends_with_the_address_and_begins_with_a_warning(tmp_path: Path, *, reloads: bool) -> None:
    server = Served(tmp_path, SCRIPT)
    server.reloads, server.workers = reloads, "1"
    try:
        server.start()
        address = f"The page: {server.url}/app"
        eventually(lambda: address in server.log())
        before, after = server.log().split(f"\n{address}\n")
        assert before.endswith("stay after a restart.\n"), "the line of the address stands alone"
        assert "Application started up" in before
        assert "Queue stats" in before
        if not reloads:  # a reloader logs changes of any file, also of this log
            assert after.strip() == ""
        warned, _, _ = before.partition("Starting In-Memory runtime")
        assert ("langgraph dev --no-reload" in warned) is reloads
        assert ONE_AT_A_TIME in warned
    finally:
        server.end()


class WithReload(Served):
    """A server that starts with the command of `make dev RELOAD=1`."""

    @property
    def command(self) -> list[str]:
        command = ["make", "-n", "dev", "RELOAD=1", f"PORT={self.port}", f"BIN={Path(sys.executable).parent}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        [line] = [line for line in done.stdout.splitlines() if "watchfiles" in line]
        return shlex.split(line.removeprefix("exec "))


@pytest.mark.thorough
def test_code_reloads_and_the_workspace_does_not(tmp_path: Path) -> None:
    server = WithReload(tmp_path, SCRIPT, APPROVALS="auto")
    code = tmp_path / "agent" / "code.py"
    for folder in ("agent", "libs"):
        (tmp_path / folder).mkdir()
    assert server.command[-2:] == ["agent", "libs"]

    def starts() -> int:
        return server.log().count("Application started up")

    try:
        server.start()
        body = {
            "assistant_id": "deep_agent",
            "input": {"messages": [{"role": "user", "content": "slow"}]},
        }
        with server.client() as client:
            thread = client.post("/threads", json={}).json()["thread_id"]
            run = client.post(f"/threads/{thread}/runs", json=body).json()["run_id"]
            eventually((server.workspace / "ran").exists)
            (server.workspace / "scripts" / "a.py").write_text("print(1)")
            time.sleep(1)  # watchfiles would notice a change within 50 ms
            assert starts() == 1
            code.write_text("x = 1\n")
            eventually(lambda: starts() == 2, 120)
        with server.client() as client:
            state = client.get(f"/threads/{thread}/runs/{run}/join").json()
        assert [each["type"] for each in state["messages"]] == ["human", "ai", "tool", "ai"]
        assert state["messages"][2]["content"].startswith("slept\n")
        assert (server.workspace / "ran").read_text() == "x\n"
        assert ONE_AT_A_TIME not in server.log()
    finally:
        server.end()
