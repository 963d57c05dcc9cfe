"""`langgraph dev`, started as a person starts it and driven over HTTP: threads, runs, approvals, Studio."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from agent.config import ROOT, Settings
from libs.models.deferred import ModelUnavailable

pytestmark = pytest.mark.docker

STUDIO = "https://smith.langchain.com"

SCRIPT = """\
conversations:
- when: one command
  replies:
  - text: I shall write a file.
    tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/one.txt; cat /workspace/one.txt"}}]
  - text: That is done.
- when: code blocks
  replies:
  - text: "I look.\\n```bash\\necho ran >> /workspace/code.txt\\n```\\n```python\\n1 + 1\\n```"
  - text: That is done.
- when: the same again
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/again.txt"}}]
  - tool_calls: [{name: task, args: {subagent_type: general-purpose, description: once more}}]
  - text: That is done.
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/again.txt"}}]
  - text: That is done.
- when: once more
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/again.txt"}}]
  - text: Done.
- when: wrong answers
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/wrong.txt"}}]
  - text: That is done.
- when: several at once
  replies:
  - tool_calls:
    - {name: execute, args: {command: "echo a > /workspace/a.txt"}}
    - {name: ls, args: {path: /workspace}}
    - {name: execute, args: {command: "echo b > /workspace/b.txt"}}
    - {name: execute, args: {command: "echo c > /workspace/c.txt"}}
  - text: That is done.
- when: no approval needed
  replies:
  - tool_calls: [{name: write_file, args: {file_path: /results/free.txt, content: free}}]
  - text: That is done without a question.
- when: subagents
  replies:
  - tool_calls:
    - {name: task, args: {subagent_type: general-purpose, description: left part}}
    - {name: task, args: {subagent_type: general-purpose, description: right part}}
  - text: Both are done.
- when: left part
  replies:
  - tool_calls: [{name: execute, args: {command: "echo left > /workspace/left.txt"}}]
  - text: Left is done.
- when: right part
  replies:
  - tool_calls: [{name: execute, args: {command: "echo x > /skills/evil; echo right > /workspace/right.txt"}}]
  - text: Right is done.
"""


class Server:
    """A running server, its address and its files."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.url = f"http://127.0.0.1:{port}"
        self.client: LangGraphClient

    def log(self) -> str:
        return (self.folder / "log").read_text()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    config = json.loads((ROOT / "langgraph.json").read_text())
    config["dependencies"] = [str(ROOT / path) for path in config["dependencies"]]
    config["graphs"] = {name: str(ROOT / path) for name, path in config["graphs"].items()}
    config["http"]["app"] = str(ROOT / config["http"]["app"])
    (folder / "langgraph.json").write_text(json.dumps(config))
    (folder / "script.yaml").write_text(SCRIPT)
    (folder / ".env").write_text("MODEL=scripted:script.yaml\nAPPROVALS=ask\nWORKSPACE_DIR=workspace\n")
    settings = {name.upper() for name in Settings.model_fields}
    environment = {name: value for name, value in os.environ.items() if name not in settings}
    environment |= {"LANGGRAPH_NO_VERSION_CHECK": "true", "PYTHONUNBUFFERED": "1"}
    port = free_port()
    command = [
        Path(sys.executable).with_name("langgraph"), "dev", "--no-browser", "--no-reload",
        "--n-jobs-per-worker", "10", "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    served = Server(folder, port)
    try:
        wait_until_it_answers(served, process)
        yield served
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
async def server(running: Server) -> AsyncIterator[Server]:
    """The server, with a client of its own for each test: connections belong to an event loop."""
    async with get_client(url=running.url) as client:
        running.client = client
        yield running


def wait_until_it_answers(served: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{served.url}/ok").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{served.log()}")


async def start(server: Server, task: str) -> tuple[str, Any]:
    """Run a task in a new thread; returns the thread and what the run ended with."""
    thread = await server.client.threads.create()
    given = {"messages": [{"role": "user", "content": task}]}
    return thread["thread_id"], await server.client.runs.wait(thread["thread_id"], "deep_agent", input=given)


async def question(server: Server, thread: str) -> Any:
    """The question the thread waits with; fails where there is not exactly one."""
    [pending] = (await server.client.threads.get_state(thread))["interrupts"]
    return pending["value"]


async def answer(server: Server, thread: str, resume: object) -> Any:
    return await server.client.runs.wait(thread, "deep_agent", command={"resume": resume})


def decisions(*types: str) -> dict[str, Any]:
    return {"decisions": [{"type": kind} for kind in types]}


def content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def last_text(result: Any) -> str:
    return str(result["messages"][-1]["content"])


async def test_approve_runs_the_command_once(server: Server) -> None:
    thread, _ = await start(server, "one command")
    assert (await server.client.threads.get(thread))["status"] == "interrupted"
    asked = await question(server, thread)
    [request] = asked["action_requests"]
    assert request["name"] == "execute"
    assert request["args"] == {"command": "echo ran >> /workspace/one.txt; cat /workspace/one.txt"}
    assert "echo ran >> /workspace/one.txt" in request["description"]
    assert asked["review_configs"] == [{"action_name": "execute", "allowed_decisions": ["approve", "reject"]}]
    assert not (server.workspace / "one.txt").exists()

    result = await answer(server, thread, decisions("approve"))
    assert last_text(result) == "That is done."
    assert result["status"] == "completed"
    assert result["messages"][-2]["artifact"]["exit_code"] == 0
    assert (server.workspace / "one.txt").read_text() == "ran\n"
    assert (await server.client.threads.get(thread))["status"] == "idle"


async def test_approvals_for_the_thread_are_given_shown_and_revoked(server: Server) -> None:
    ran = server.workspace / "again.txt"
    grant = {"tool": "execute", "digest": None, "shown": "", "question": ""}
    thread = (await server.client.threads.create())["thread_id"]
    given = {
        "messages": [{"role": "user", "content": "the same again"}],
        "grants": {"execute/*": grant},
        "grants_at_reply": {"execute/*": grant},
    }
    await server.client.runs.wait(thread, "deep_agent", input=given)
    await question(server, thread)
    assert not ran.exists()

    await answer(server, thread, {"decisions": [{"type": "approve", "scope": "forever"}]})
    assert "scope" in (await question(server, thread))["error"]
    result = await answer(server, thread, {"decisions": [{"type": "approve", "scope": "command"}]})
    assert last_text(result) == "That is done."
    assert ran.read_text() == "ran\n" * 2
    [(key, kept)] = (await server.client.threads.get_state(thread))["values"]["grants"].items()
    assert (kept["tool"], len(kept["digest"])) == ("execute", 64)
    assert "echo ran >> /workspace/again.txt" in kept["shown"]

    await server.client.threads.update_state(thread, {"grants": {key: None}})
    again = {"messages": [{"role": "user", "content": "and again"}]}
    await server.client.runs.wait(thread, "deep_agent", input=again)
    await question(server, thread)
    assert ran.read_text() == "ran\n" * 2


async def test_reject_runs_nothing_and_the_model_reads_why(server: Server) -> None:
    before = content(server.workspace / "one.txt")
    thread, _ = await start(server, "one command")
    refusal = {"decisions": [{"type": "reject", "message": "use another file"}]}
    result = await answer(server, thread, refusal)
    assert "use another file" in result["messages"][-2]["content"]
    assert last_text(result) == "That is done."
    assert content(server.workspace / "one.txt") == before


@pytest.mark.parametrize(
    "wrong",
    [
        decisions(),
        decisions("approve", "approve"),
        decisions("edit"),
        decisions("respond"),
        {"decisions": "approve"},
        "yes",
        {},
    ],
    ids=repr,
)
async def test_a_wrong_answer_is_asked_again_and_the_thread_goes_on(server: Server, wrong: object) -> None:
    ran = server.workspace / "wrong.txt"
    before = content(ran)
    thread, _ = await start(server, "wrong answers")
    first = await question(server, thread)
    await answer(server, thread, wrong)
    again = await question(server, thread)
    if wrong != {}:  # an empty map from interrupts to answers: LangGraph sees no answer in it
        assert again["error"]
    assert again["action_requests"] == first["action_requests"]
    assert content(ran) == before
    assert last_text(await answer(server, thread, decisions("approve"))) == "That is done."
    assert ran.read_text() == before + "ran\n"


async def test_no_answer_at_all_is_asked_again(server: Server) -> None:
    thread, _ = await start(server, "wrong answers")
    body = {"assistant_id": "deep_agent", "command": {"resume": None}}
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        told = await http.post(f"/threads/{thread}/runs/wait", json=body)
    assert (told.status_code, "__error__" in told.json()) == (200, False)
    assert await question(server, thread)
    assert last_text(await answer(server, thread, decisions("reject"))) == "That is done."


async def test_several_calls_are_one_question_with_mixed_answers(server: Server) -> None:
    thread, _ = await start(server, "several at once")
    asked = await question(server, thread)
    assert [request["name"] for request in asked["action_requests"]] == ["execute"] * 3
    result = await answer(server, thread, decisions("approve", "reject", "approve"))
    assert last_text(result) == "That is done."
    made = {name for name in "abc" if (server.workspace / f"{name}.txt").exists()}
    assert made == {"a", "c"}


async def test_what_is_not_gated_runs_without_a_question(server: Server) -> None:
    thread, result = await start(server, "no approval needed")
    assert last_text(result) == "That is done without a question."
    assert (server.workspace / "results" / "free.txt").read_text() == "free"
    assert (await server.client.threads.get_state(thread))["interrupts"] == []


async def test_parallel_subagents_ask_and_each_is_answered(server: Server) -> None:
    thread, _ = await start(server, "subagents")
    pending = (await server.client.threads.get_state(thread))["interrupts"]
    assert len(pending) == 2
    by_command = {entry["value"]["action_requests"][0]["args"]["command"]: entry["id"] for entry in pending}
    [left] = [key for key in by_command if "left" in key]
    [right] = [key for key in by_command if "right" in key]
    reject = {"decisions": [{"type": "reject", "message": "not the left"}]}
    result = await answer(server, thread, {by_command[left]: reject, by_command[right]: decisions("approve")})
    assert last_text(result) == "Both are done."
    assert not (server.workspace / "left.txt").exists()
    assert (server.workspace / "right.txt").read_text() == "right\n"
    assert not (ROOT / "skills" / "evil").exists()


async def test_another_client_finds_the_question_and_answers_it(server: Server) -> None:
    thread, _ = await start(server, "one command")
    async with get_client(url=server.url) as other:
        found = await other.threads.search(status="interrupted")
        assert thread in {entry["thread_id"] for entry in found}
        result = await other.runs.wait(thread, "deep_agent", command={"resume": decisions("reject")})
    assert result["messages"][-1]["content"] == "That is done."


async def test_threads_do_not_disturb_each_other(server: Server) -> None:
    started = await asyncio.gather(*(start(server, "one command") for _ in range(6)))
    ended = await asyncio.gather(*(answer(server, thread, decisions("reject")) for thread, _ in started))
    assert [last_text(result) for result in ended] == ["That is done."] * 6


async def test_a_run_streams_the_reply_in_pieces(server: Server) -> None:
    thread = await server.client.threads.create()
    given = {"messages": [{"role": "user", "content": "no approval needed"}]}
    pieces = [
        part.data[0]["content"]
        async for part in server.client.runs.stream(
            thread["thread_id"], "deep_agent", input=given, stream_mode="messages-tuple"
        )
        if part.event == "messages" and part.data[0]["type"] == "AIMessageChunk"
    ]
    spoken = [piece for piece in pieces if piece]
    assert len(spoken) > 1
    assert "".join(spoken) == "That is done without a question."


async def test_what_is_wrong_with_the_model_reaches_the_client(server: Server) -> None:
    """The server hides the messages of most exceptions, but not of this kind."""
    assert issubclass(ModelUnavailable, RuntimeError)
    thread = await server.client.threads.create()
    given = {"messages": [{"role": "user", "content": "a task the script does not know"}]}
    with pytest.raises(Exception, match="no conversation fits the task 'a task the script does not know'"):
        await server.client.runs.wait(thread["thread_id"], "deep_agent", input=given)


async def test_the_code_block_agent_asks_and_runs(server: Server) -> None:
    thread = (await server.client.threads.create())["thread_id"]
    given = {"messages": [{"role": "user", "content": "code blocks"}]}
    waiting = await server.client.runs.wait(thread, "code_agent", input=given)
    [question] = [each["value"] for each in waiting["__interrupt__"]]
    assert [each["name"] for each in question["action_requests"]] == ["execute_code", "execute_code"]
    assert not (server.workspace / "code.txt").exists()
    command = {"resume": {"decisions": [{"type": "approve"}, {"type": "approve"}]}}
    result = await server.client.runs.wait(thread, "code_agent", command=command)
    assert result["status"] == "completed"
    assert [(each["output"], each["exit_code"]) for each in result["executions"]] == [("", 0), ("2\n", 0)]
    assert (server.workspace / "code.txt").read_text() == "ran\n"


async def test_a_run_without_a_thread_is_refused_not_ungated(server: Server) -> None:
    given = {"messages": [{"role": "user", "content": "one command"}]}
    with pytest.raises(Exception, match="CheckpointerRequired: Approvals are on"):
        await server.client.runs.wait(None, "deep_agent", input=given)


async def test_assistants_and_schemas_for_studio(server: Server) -> None:
    found = {each["graph_id"]: each for each in await server.client.assistants.search()}
    assert set(found) == {"deep_agent", "code_agent", "exec_agent"}
    assistant = found["deep_agent"]
    schemas = await server.client.assistants.get_schemas(assistant["assistant_id"])
    assert set(schemas["input_schema"]["properties"]) >= {"messages"}
    assert set(schemas["output_schema"]["properties"]) >= {"messages", "status", "todos"}
    assert set(schemas["state_schema"]["properties"]) >= {"messages", "status", "todos"}
    drawn = await server.client.assistants.get_graph(assistant["assistant_id"], xray=True)
    assert {"model", "tools"} <= {node["id"] for node in drawn["nodes"]}
    schemas = await server.client.assistants.get_schemas(found["code_agent"]["assistant_id"])
    assert set(schemas["input_schema"]["properties"]) == {"messages"}
    assert set(schemas["output_schema"]["properties"]) == {"messages", "status", "executions"}
    drawn = await server.client.assistants.get_graph(found["code_agent"]["assistant_id"], xray=True)
    assert {"model", "approve", "run"} <= {node["id"] for node in drawn["nodes"]}


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/threads"), ("GET", "/info"), ("PATCH", "/threads/x")]
)
async def test_studio_may_call_from_its_origin(server: Server, method: str, path: str) -> None:
    headers = {
        "Origin": STUDIO,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "content-type,x-auth-scheme",
    }
    async with httpx.AsyncClient(base_url=server.url) as client:
        preflight = await client.options(path, headers=headers)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] in {"*", STUDIO}
    assert method in preflight.headers["access-control-allow-methods"]
    assert "content-type" in preflight.headers["access-control-allow-headers"].lower()


def test_nothing_blocked_the_event_loop(running: Server) -> None:
    """Last on purpose: the guard reports what the tests before have done."""
    assert "BlockingError" not in running.log()
