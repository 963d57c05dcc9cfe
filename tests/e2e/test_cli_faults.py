"""What `code-agent` says and does when something is wrong: never a traceback, never anything left behind."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cli_program import Program, check_lines, containers_of, execute


def failed(program: Program, *arguments: str, status: int) -> str:
    """The message of a run that cannot begin: the same for people and in the only JSON line."""
    done = program.run("run", *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    [result] = program.lines(*arguments, status=status)
    assert (result["status"], result["executions"], result["files"]) == ("error", [], [])
    assert result["text"] in done.stderr
    return str(result["text"])


def test_bad_settings(program: Program) -> None:
    program.environment = {"SANDBOX_PIDS": "1", "APPROVALS": "maybe"}
    text = failed(program, "go", status=2)
    assert "SANDBOX_PIDS=1" in text
    assert "APPROVALS=maybe" in text


def test_bad_usage(program: Program) -> None:
    program.script("hello")
    assert "task" in failed(program, status=2)
    assert "empty" in failed(program, " ", status=2)
    assert "nowhere" in failed(program, "--thread", "nowhere", status=2)
    assert program.run("run", "--approve", "never", "go").returncode == 2
    assert program.run("fly").returncode == 2


def test_no_model_is_configured(program: Program) -> None:
    # Where the local model was fetched, it would answer.
    program.environment |= {"MODEL": "", "XDG_CACHE_HOME": str(program.folder / "cache")}
    text = failed(program, "go", status=2)
    assert "OPENAI_API_KEY" in text
    assert "MODEL=" in text
    program.environment["MODEL"] = "anthropic:claude-sonnet-4-5"
    assert "ANTHROPIC_API_KEY" in failed(program, "go", status=2)


def test_a_script_that_cannot_be_read(program: Program) -> None:
    assert "script.yaml" in failed(program, "go", status=2)


def test_a_script_that_is_too_short(program: Program) -> None:
    program.script("only this")
    thread = program.lines("go")[-1]["thread_id"]
    result = program.lines("--thread", thread, "more", status=1)[-1]
    assert "1 replies" in result["text"]


@pytest.mark.parametrize("damage", ["garbage", "folder", "file in the way"])
def test_threads_that_cannot_be_kept(program: Program, damage: str) -> None:
    program.script("hello")
    threads = program.folder / ".code-agent" / "threads.sqlite"
    if damage == "file in the way":
        threads.parent.write_text("")
    elif damage == "folder":
        threads.mkdir(parents=True)
    else:
        threads.parent.mkdir()
        threads.write_bytes(b"this is no database" * 500)
    assert str(threads.parent.name) in failed(program, "go", status=1)


class _Refusing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.dumps({"error": {"message": "that key is no good", "type": "auth"}}).encode()
        self.send_response(401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def refusing_server() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_that_refuses(program: Program, refusing_server: str) -> None:
    program.environment = {"MODEL": "", "OPENAI_BASE_URL": refusing_server}
    done = program.run("run", "--json", "go")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "that key is no good" in check_lines(done.stdout)[-1]["text"]


@pytest.mark.parametrize(
    ("variable", "value", "hint"),
    [
        ("SANDBOX_IMAGE", "no-such-image", "code-agent setup"),
        ("DOCKER_HOST", "unix:///nonexistent/docker.sock", "docker"),
    ],
)
def test_without_image_or_engine_the_model_is_told_and_the_run_goes_on(
    program: Program, variable: str, value: str, hint: str
) -> None:
    program.environment[variable] = value
    program.script(execute("echo hi"), "I cannot run anything.")
    result = program.lines("--approve", "auto", "go")[-1]
    assert result["text"] == "I cannot run anything."
    [execution] = result["executions"]
    assert execution["exit_code"] == 125
    assert hint in execution["output"]
    done = program.run("run", "--approve", "auto", "go")
    assert done.returncode == 0
    assert hint in done.stdout


@pytest.mark.docker
def test_a_killed_program_leaves_no_container_and_repeats_nothing(program: Program) -> None:
    program.script(execute("echo ran >> /results/log; echo up; sleep 61"), "What happened?")
    process = program.start("run", "--approve", "auto", "--thread", "t", "--json", "go")
    assert process.stdout is not None
    for line in process.stdout:
        if '"up\\n"' in line:
            break
    assert len(containers_of(process.pid)) == 1
    os.kill(process.pid, signal.SIGKILL)
    since = time.monotonic()
    while containers_of(process.pid):
        assert time.monotonic() - since < 1
    process.stdout.close()
    process.wait()

    result = program.lines("--approve", "auto", "--thread", "t")[-1]
    assert result["text"] == "What happened?"
    assert [each["exit_code"] for each in result["executions"]] == [125]
    assert (program.workspace / "results" / "log").read_text() == "ran\n"


@pytest.mark.docker
def test_a_reader_that_goes_away_ends_the_run(program: Program) -> None:
    program.script(execute("for i in $(seq 200); do echo $i; sleep 0.1; done"), "done")
    process = program.start("run", "--approve", "auto", "go")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(15) == 1
    assert containers_of(process.pid) == []
