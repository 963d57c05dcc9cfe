"""`code-agent run` explains errors without a traceback, and leaves no container behind."""

from __future__ import annotations

import pytest

from tests.clients.cli_program import Program, check_lines, containers_of, execute
from tests.servers.chat_server import serving


@pytest.mark.parametrize(
    ("environment", "arguments", "status", "named"),
    [
        ({"SANDBOX_PIDS": "1", "APPROVALS": "maybe"}, ["go"], 2, ["SANDBOX_PIDS=1", "APPROVALS=maybe"]),
        ({"MODEL": ""}, ["go"], 2, ["OPENAI_API_KEY", "MODEL="]),
        ({"MODEL": "anthropic:claude-sonnet-4-5"}, ["go"], 2, ["ANTHROPIC_API_KEY"]),
        ({}, [], 2, ["task"]),
        ({}, [" "], 2, ["empty"]),
        ({}, ["--thread", "nowhere"], 2, ["nowhere"]),
        ({}, ["--thread", "damaged", "go"], 1, [".code-agent"]),
    ],
)
@pytest.mark.thorough
def test_run_that_cannot_begin_is_explained(
    program: Program, environment: dict[str, str], arguments: list[str], status: int, named: list[str]
) -> None:
    # The local model may be in the user's cache: use an empty one.
    program.environment = {"XDG_CACHE_HOME": str(program.folder / "cache"), **environment}
    program.script("hello")
    if "damaged" in arguments:
        (program.folder / ".code-agent").mkdir()
        (program.folder / ".code-agent" / "threads.sqlite").write_bytes(b"this is no database" * 500)
    done = program.run("run", "--json", *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    [result] = check_lines(done.stdout)
    assert (result["status"], result["executions"]) == ("error", [])
    assert [each for each in named if each not in result["text"]] == []
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_text_of_an_error_is_on_stderr(program: Program) -> None:
    program.script("hello")
    done = program.run("run", "--thread", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("There is no thread 'nowhere'")


@pytest.mark.docker
def test_error_of_the_model_is_shown(program: Program) -> None:
    refusal = {"error": {"message": "that key is no good", "type": "auth"}}
    with serving(lambda _: (401, refusal)) as server:
        program.environment = {"MODEL": "", "OPENAI_BASE_URL": server.url}
        done = program.run("run", "--json", "go")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "that key is no good" in check_lines(done.stdout)[-1]["text"]


@pytest.mark.thorough
def test_run_without_an_engine_ends_before_the_model_is_called(program: Program) -> None:
    program.environment["DOCKER_HOST"] = "unix:///nonexistent/docker.sock"
    program.script("the model was called")
    [result] = program.lines("--approve", "auto", "go", status=1)
    assert (result["status"], result["executions"]) == ("error", [])
    assert "No Docker Engine answers" in result["text"]


@pytest.mark.thorough
@pytest.mark.parametrize(("agent", "missing"), [("deep", "Ray"), ("exec", "No Docker Engine answers")])
def test_run_with_a_cluster_needs_what_runs_the_sandboxes_of_its_agent(
    program: Program, agent: str, missing: str
) -> None:
    """The error names Ray, whether Ray is installed or not: no cluster answers at the address."""
    program.environment |= {
        "DOCKER_HOST": "unix:///nonexistent/docker.sock",
        "SANDBOX_CLUSTER": "127.0.0.1:1",
        "SANDBOX_SCOPE": "thread",
    }
    program.script("the model was called")
    [result] = program.lines("--agent", agent, "--approve", "auto", "go", status=1)
    assert (result["status"], result["executions"]) == ("error", [])
    assert missing in result["text"]


@pytest.mark.thorough
@pytest.mark.docker
def test_closed_stdout_ends_the_run(program: Program) -> None:
    program.script(execute("for i in $(seq 200); do echo $i; sleep 0.1; done"), "done")
    process = program.start("run", "--approve", "auto", "go")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(15) == 1
    assert containers_of(process.pid) == []
