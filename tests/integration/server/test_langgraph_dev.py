"""Tests LangGraph's own routes of `langgraph dev`: runs, approvals, streams, schemas for Studio."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, UnprocessableEntityError

from agent.settings import ROOT
from libs.models.deferred_model import ModelUnavailable
from tests.servers.served import Served

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: "dev: one command"
  replies:
  - text: I shall write a file.
    tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/dev-one.txt"}}]
  - text: That is done.
- when: "dev: hello"
  replies:
  - text: Hello.
- when: "dev: the same again"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/dev-again.txt"}}]
  - tool_calls: [{name: task, args: {subagent_type: general-purpose, description: "dev: once more"}}]
  - text: That is done.
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/dev-again.txt"}}]
  - text: That is done.
- when: How many rows has /data/sales.csv?
  replies:
  - tool_calls: [{name: execute, args: {command: "echo counted > /workspace/dev-docs.txt"}}]
  - text: 3,505 rows.
- when: "dev: once more"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/dev-again.txt"}}]
  - text: Done.
"""


@pytest.fixture
async def client(shared_server: Served) -> AsyncIterator[LangGraphClient]:
    """A new client for each test, because connections belong to an event loop."""
    async with get_client(url=shared_server.url) as client:
        yield client


async def start(client: LangGraphClient, task: str) -> tuple[str, Any]:
    """Run a task in a new thread; return the thread and the run's result."""
    thread = await client.threads.create()
    given = {"messages": [{"role": "user", "content": task}]}
    return thread["thread_id"], await client.runs.wait(thread["thread_id"], "deep_agent", input=given)


async def question(client: LangGraphClient, thread: str) -> Any:
    """Return the thread's only open question."""
    [pending] = (await client.threads.get_state(thread))["interrupts"]
    return pending["value"]


async def answer(client: LangGraphClient, thread: str, resume: object) -> Any:
    return await client.runs.wait(thread, "deep_agent", command={"resume": resume})


def decisions(*types: str) -> dict[str, Any]:
    return {"decisions": [{"type": kind} for kind in types]}


def last_text(result: Any) -> str:
    return str(result["messages"][-1]["content"])


async def test_approve_runs_the_command_once(client: LangGraphClient, shared_server: Served) -> None:
    thread, _ = await start(client, "dev: one command")
    assert (await client.threads.get(thread))["status"] == "interrupted"
    asked = await question(client, thread)
    [request] = asked["action_requests"]
    assert request["name"] == "execute"
    assert request["args"] == {"command": "echo ran >> /workspace/dev-one.txt"}
    assert "echo ran >> /workspace/dev-one.txt" in request["description"]
    assert asked["review_configs"] == [{"action_name": "execute", "allowed_decisions": ["approve", "reject"]}]
    assert not (shared_server.workspace / "dev-one.txt").exists()

    result = await answer(client, thread, decisions("approve"))
    assert last_text(result) == "That is done."
    assert result["status"] == "completed"
    assert result["messages"][-2]["artifact"]["exit_code"] == 0
    assert (shared_server.workspace / "dev-one.txt").read_text() == "ran\n"
    assert (await client.threads.get(thread))["status"] == "idle"


def test_example_of_the_docs(shared_server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/server.md").read_text(), re.M | re.S)
    [code] = [each for each in found if "http://127.0.0.1:2024" in each]
    exec(code.replace("http://127.0.0.1:2024", shared_server.url), {})
    said = capsys.readouterr().out
    assert "__interrupt__" in said
    assert "3,505 rows." in said
    assert (shared_server.workspace / "dev-docs.txt").read_text() == "counted\n"


async def test_run_without_a_thread_says_how_to_create_one(client: LangGraphClient) -> None:
    """LangGraph's quickstart streams a run without a thread. Nobody can answer a question of such a run."""
    given = {"messages": [{"role": "user", "content": "dev: one command"}]}
    told = [part async for part in client.runs.stream(None, "deep_agent", input=given)]
    [error] = [part.data for part in told if part.event == "error"]
    assert error["error"] == "CheckpointerRequired"
    assert "create a thread first" in error["message"]
    assert "\n    thread = await client.threads.create()\n" in error["message"]
    assert '\n    client.runs.stream(thread["thread_id"], ...)\n' in error["message"]
    with pytest.raises(Exception, match="create a thread first"):
        await client.runs.wait(None, "deep_agent", input=given)


async def test_question_of_a_background_run_waits_in_the_thread_that_is_kept(client: LangGraphClient) -> None:
    given = {"messages": [{"role": "user", "content": "dev: one command"}]}
    run = await client.runs.create(None, "deep_agent", input=given, on_completion="keep")
    await client.runs.join(run["thread_id"], run["run_id"])
    state = await client.threads.get_state(run["thread_id"])
    assert state["interrupts"]


async def test_run_without_a_task_says_what_to_send(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    for made in (None, thread["thread_id"]):
        with pytest.raises(Exception, match="The run has no task"):
            await client.runs.wait(made, "deep_agent", input={"task": "dev: one command"})


@pytest.mark.thorough
async def test_answer_to_nothing_is_refused_in_new_and_finished_threads(client: LangGraphClient) -> None:
    new = (await client.threads.create())["thread_id"]
    finished, _ = await start(client, "dev: hello")
    for thread in (new, finished):
        with pytest.raises(Exception, match="Nothing in this thread waits for approval"):
            await answer(client, thread, "x")
    updated = {"update": {"messages": [{"role": "user", "content": "written by a client"}]}}
    await client.runs.wait(finished, "deep_agent", command=updated)
    values: Any = (await client.threads.get_state(finished))["values"]
    assert [each["content"] for each in values["messages"]][-1] == "written by a client"


async def test_unreadable_message_leaves_the_thread_readable(client: LangGraphClient) -> None:
    thread, _ = await start(client, "dev: hello")
    before = await client.threads.get_state(thread)
    given = {"messages": [{"role": "bogus", "content": "x"}]}
    with pytest.raises(Exception, match=r"messages\[0\] cannot be read: Unexpected message type: 'bogus'"):
        await client.runs.wait(thread, "deep_agent", input=given)
    assert (await client.threads.get_state(thread))["values"] == before["values"]


async def test_run_of_another_graph_is_refused(client: LangGraphClient) -> None:
    thread, _ = await start(client, "dev: hello")
    given = {"messages": [{"role": "user", "content": "go on"}]}
    own = await client.assistants.create("code_agent")
    for assistant in ("code_agent", "exec_agent", own["assistant_id"]):
        with pytest.raises(ConflictError, match=f"Thread {thread} is one of deep_agent"):
            await client.runs.create(thread, assistant, input=given)
    await client.assistants.delete(own["assistant_id"])
    assert len(await client.runs.list(thread)) == 1


async def test_cron_needs_a_thread_while_approvals_are_on(client: LangGraphClient) -> None:
    with pytest.raises(UnprocessableEntityError, match="a cron needs a thread"):
        await client.crons.create("deep_agent", schedule="0 0 1 1 *")
    thread = (await client.threads.create())["thread_id"]
    kept = await client.crons.create("deep_agent", schedule="0 0 1 1 *", on_run_completed="keep")
    in_thread = await client.crons.create_for_thread(thread, "deep_agent", schedule="0 0 1 1 *")
    for cron in (kept, in_thread):
        await client.crons.delete(cron["cron_id"])  # type: ignore[typeddict-item]


async def test_approvals_for_the_thread_are_given_shown_and_revoked(
    client: LangGraphClient, shared_server: Served
) -> None:
    ran = shared_server.workspace / "dev-again.txt"
    grant = {"tool": "execute", "digest": None, "shown": "", "question": ""}
    thread = (await client.threads.create())["thread_id"]
    given = {
        "messages": [{"role": "user", "content": "dev: the same again"}],
        "grants": {"execute/*": grant},
        "grants_at_reply": {"execute/*": grant},
    }
    await client.runs.wait(thread, "deep_agent", input=given)
    await question(client, thread)
    assert not ran.exists()

    await answer(client, thread, {"decisions": [{"type": "approve", "scope": "forever"}]})
    assert "scope" in (await question(client, thread))["error"]
    result = await answer(client, thread, {"decisions": [{"type": "approve", "scope": "command"}]})
    assert last_text(result) == "That is done."
    assert ran.read_text() == "ran\n" * 2
    [(key, kept)] = (await client.threads.get_state(thread))["values"]["grants"].items()
    assert (kept["tool"], len(kept["digest"])) == ("execute", 64)
    assert "echo ran >> /workspace/dev-again.txt" in kept["shown"]

    await client.threads.update_state(thread, {"grants": {key: None}})
    again = {"messages": [{"role": "user", "content": "and again"}]}
    await client.runs.wait(thread, "deep_agent", input=again)
    await question(client, thread)
    assert ran.read_text() == "ran\n" * 2


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(decisions("edit"), id="edit"),
        pytest.param("yes", id="text", marks=pytest.mark.thorough),
        pytest.param({}, id="empty", marks=pytest.mark.thorough),
    ],
)
async def test_wrong_answer_is_asked_again(
    client: LangGraphClient, shared_server: Served, wrong: object
) -> None:
    ran = shared_server.workspace / "dev-one.txt"
    before = ran.read_text() if ran.exists() else ""
    thread, _ = await start(client, "dev: one command")
    first = await question(client, thread)
    body = {"assistant_id": "deep_agent", "command": {"resume": wrong}}
    async with httpx.AsyncClient(base_url=shared_server.url, timeout=60) as http:
        told = await http.post(f"/threads/{thread}/runs/wait", json=body)
    assert (told.status_code, "__error__" in told.json()) == (200, False)
    again = await question(client, thread)
    if wrong:  # LangGraph takes an empty answer for no answer
        assert again["error"]
    assert again["action_requests"] == first["action_requests"]
    assert (ran.read_text() if ran.exists() else "") == before
    assert last_text(await answer(client, thread, decisions("approve"))) == "That is done."
    assert ran.read_text() == before + "ran\n"


async def test_error_of_the_model_reaches_the_client(client: LangGraphClient, shared_server: Served) -> None:
    """The server hides the messages of most exceptions, but not of RuntimeError."""
    assert issubclass(ModelUnavailable, RuntimeError)
    thread = await client.threads.create()
    given = {"messages": [{"role": "user", "content": "a task the script does not know"}]}
    with pytest.raises(Exception, match="no conversation fits the task 'a task the script does not know'"):
        await client.runs.wait(thread["thread_id"], "deep_agent", input=given)


async def test_assistants_and_schemas_for_studio(client: LangGraphClient, shared_server: Served) -> None:
    found = {each["graph_id"]: each for each in await client.assistants.search()}
    assert set(found) == {"deep_agent", "code_agent", "exec_agent"}
    assistant = found["deep_agent"]
    schemas = await client.assistants.get_schemas(assistant["assistant_id"])
    assert set(schemas["input_schema"]["properties"]) >= {"messages"}
    assert set(schemas["output_schema"]["properties"]) >= {"messages", "status", "todos"}
    assert set(schemas["state_schema"]["properties"]) >= {"messages", "status", "todos"}
    drawn = await client.assistants.get_graph(assistant["assistant_id"], xray=True)
    assert {"model", "tools"} <= {node["id"] for node in drawn["nodes"]}
    schemas = await client.assistants.get_schemas(found["code_agent"]["assistant_id"])
    assert set(schemas["input_schema"]["properties"]) == {"messages"}
    named = {"messages", "status", "executions", "absent_paths"}
    assert set(schemas["output_schema"]["properties"]) == named
    drawn = await client.assistants.get_graph(found["code_agent"]["assistant_id"], xray=True)
    assert {"model", "approve", "run"} <= {node["id"] for node in drawn["nodes"]}
