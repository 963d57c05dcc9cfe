"""What /run and /run-lite take and answer: the application itself, scripts in the place of models (R1-R8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from starlette.applications import Starlette

from agent.config import Settings, build_backend, load_settings
from agent.served import Served
from agent.server import health, lite_routes, run_routes
from agent.server.exchange import MAX_BODY
from agent.server.runs import Runs
from libs.lite import run_lite
from libs.models.scripted import Conversation, Reply, ScriptedChatModel, ToolUse

ANSWERED = {"input": "say hello"}
CONVERSATIONS = (
    Conversation(when="say hello", replies=(Reply(text="Hello."), Reply(text="Hello again."))),
    Conversation(
        when="one command", replies=(Reply(tool_calls=(ToolUse(name="execute", args={"command": "true"}),)),)
    ),
    Conversation(
        when="not a number",
        replies=(
            Reply(tool_calls=(ToolUse(name="execute", args={"command": "x", "timeout": float("nan")}),)),
        ),
    ),
    Conversation(
        when="two subagents",
        replies=(
            Reply(
                tool_calls=tuple(
                    ToolUse(name="task", args={"subagent_type": "general-purpose", "description": part})
                    for part in ("one command, left", "one command, right")
                )
            ),
            Reply(text="Both are done."),
        ),
    ),
    Conversation(when="a block", replies=(Reply(text="```bash\ntrue\n```"),)),
)


async def model(messages: Any) -> str:
    """Plays the replies that the task lists."""
    replies = json.loads(messages[1]["content"])
    return json.dumps(replies[sum(message["role"] == "assistant" for message in messages)])


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, workspace_dir=tmp_path / "workspace")
    made = Served(settings, ScriptedChatModel(conversations=CONVERSATIONS), build_backend(settings))
    app = Starlette(routes=[*health.ROUTES, *lite_routes.ROUTES, *run_routes.ROUTES])
    app.state.runs = await asyncio.to_thread(Runs, made, InMemorySaver())
    app.state.run_lite = partial(run_lite, model=model)
    monkeypatch.setattr(lite_routes, "LITE_ROOT", tmp_path / "sandbox-lite")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        yield client


def final(text: str) -> dict[str, Any]:
    return {"type": "final", "content": text}


async def test_health_says_that_the_server_is_up_and_nothing_else(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, '"input" must be a string'),
        ({"input": None}, '"input" must be a string'),
        ({"input": ""}, "not blank"),
        ({"input": " \n\t"}, "not blank"),
        ({"input": 3}, '"input" must be a string'),
        ({"input": ["x"]}, '"input" must be a string'),
        ({**ANSWERED, "includeSteps": "true"}, '"includeSteps" must be true or false'),
        ({**ANSWERED, "includeSteps": 1}, '"includeSteps" must be true or false'),
        ({**ANSWERED, "includeSteps": None}, '"includeSteps" must be true or false'),
        ([], "must be a JSON object"),
        ("x", "must be a JSON object"),
        (None, "must be a JSON object"),
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"input": "x",}', "is not JSON"),
        (b'{"input": "\xff"}', "is not JSON in UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"input": "\\ud800"}', "half of a surrogate pair"),
        (b'{"n": ' + b"9" * 5_000 + b"}", "is not JSON"),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("path", ["/run-lite", "/run"])
async def test_bad_bodies_are_named(client: httpx.AsyncClient, path: str, body: Any, error: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    assert error in answer.json()["error"]


@pytest.mark.parametrize("path", ["/run-lite", "/run", "/run/x/resume"])
async def test_a_body_over_1_mb_is_too_large(client: httpx.AsyncClient, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    most = b'{"input": "%s"}'
    exact = most % (b"x" * (MAX_BODY - len(most) + 2))
    assert len(exact) == MAX_BODY

    async def pieces() -> AsyncIterator[bytes]:
        yield exact
        yield b" "

    for content in (exact + b" ", pieces()):
        answer = await client.post(path, content=content, headers=headers)
        assert answer.status_code == 413
        assert "1,048,576 bytes" in answer.json()["error"]
    assert (await client.post(path, content=exact, headers=headers)).status_code != 413


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
@pytest.mark.parametrize("path", ["/run-lite", "/run", "/run/x/resume"])
async def test_what_any_page_can_send_is_refused(client: httpx.AsyncClient, path: str, kind: str) -> None:
    answer = await client.post(path, content=json.dumps(ANSWERED), headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]


async def test_lite_answers_and_tells_its_steps_where_that_is_asked(client: httpx.AsyncClient) -> None:
    task = json.dumps([{"type": "tool", "name": "list_files", "args": {}}, final("None é \ud83d\ude00.")])
    answer = await client.post("/run-lite", json={"input": task})
    assert (answer.status_code, answer.json()) == (200, {"output": "None é 😀."})
    answer = await client.post("/run-lite", json={"input": task, "includeSteps": True})
    assert answer.json() == {
        "output": "None é 😀.",
        "steps": [
            {"type": "tool", "name": "list_files", "args": {}, "result": "(empty)"},
            final("None é 😀."),
        ],
    }


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ([{"type": "tool", "name": "list_files", "args": {}}] * 9, "Exceeded max iterations"),
        (["no object"], "Invalid model output format"),
        (
            [{"type": "tool", "name": "rm", "args": {}}],
            "Unknown tool 'rm'. Allowed: list_files, read_file, write_file",
        ),
        ([{"type": "tool", "name": "read_file", "args": {"path": "x"}}], "read_file: 'x' is not there"),
        ([final("\ud800")], None),
    ],
)
async def test_lite_errors(client: httpx.AsyncClient, replies: list[Any], error: str | None) -> None:
    answer = await client.post("/run-lite", json={"input": json.dumps(replies)})
    if error is None:  # half of a surrogate pair is no text, but it is JSON
        assert answer.json() == {"output": "\ud800"}
    else:
        assert (answer.status_code, answer.json()) == (500, {"error": error})


async def test_run_answers_in_a_thread_that_goes_on(client: httpx.AsyncClient) -> None:
    answer = await client.post("/run", json=ANSWERED)
    told = answer.json()
    assert answer.status_code == 200
    assert told == {"output": "Hello.", "thread_id": told["thread_id"], "status": "completed"}
    again = {"input": "and again", "thread_id": told["thread_id"], "agent": "deep", "includeSteps": True}
    answer = await client.post("/run", json=again)
    assert answer.json() == {
        "output": "Hello again.",
        "thread_id": told["thread_id"],
        "status": "completed",
        "steps": [final("Hello again.")],
    }


@pytest.mark.parametrize(
    ("more", "status", "error"),
    [
        ({"agent": "else"}, 400, '"agent" must be "deep", "code" or "exec"'),
        ({"agent": 3}, 400, '"agent" must be'),
        ({"thread_id": 3}, 400, '"thread_id" must be a string'),
        ({"thread_id": ""}, 400, '"thread_id" must be a string'),
        ({"thread_id": "x" * 201}, 400, '"thread_id" must be a string'),
        ({"thread_id": "unknown"}, 404, "There is no such thread"),
        (
            {"threadId": "x"},
            400,
            'There is no "threadId" here; known are input, agent, thread_id, includeSteps',
        ),
    ],
)
async def test_what_run_refuses(
    client: httpx.AsyncClient, more: dict[str, Any], status: int, error: str
) -> None:
    answer = await client.post("/run", json={**ANSWERED, **more})
    assert answer.status_code == status
    assert error in answer.json()["error"]


async def test_a_thread_keeps_its_agent(client: httpx.AsyncClient) -> None:
    thread = (await client.post("/run", json=ANSWERED)).json()["thread_id"]
    answer = await client.post("/run", json={**ANSWERED, "thread_id": thread, "agent": "code"})
    assert answer.status_code == 409
    assert "one of the deep agent" in answer.json()["error"]


async def test_an_error_of_the_model_is_told_without_a_trace(client: httpx.AsyncClient) -> None:
    answer = await client.post("/run", json={"input": "a task the script does not know"})
    assert answer.status_code == 500
    assert "no conversation fits the task" in answer.json()["error"]
    assert "Traceback" not in answer.text


async def test_a_question_is_202_and_waits(client: httpx.AsyncClient) -> None:
    answer = await client.post("/run", json={"input": "one command"})
    told = answer.json()
    assert answer.status_code == 202
    assert sorted(told) == ["interrupts", "thread_id"]
    [question] = told["interrupts"]
    [request] = question["value"]["action_requests"]
    assert (request["name"], request["args"]) == ("execute", {"command": "true"})


async def test_a_block_is_a_question_of_the_code_agent(client: httpx.AsyncClient) -> None:
    answer = await client.post("/run", json={"input": "a block", "agent": "code"})
    [question] = answer.json()["interrupts"]
    [request] = question["value"]["action_requests"]
    assert (request["name"], request["args"]) == ("execute_code", {"language": "bash", "code": "true"})


async def test_arguments_that_json_cannot_say_are_said_all_the_same(client: httpx.AsyncClient) -> None:
    answer = await client.post("/run", json={"input": "not a number"})
    assert answer.status_code == 202
    [question] = json.loads(answer.text, parse_constant=pytest.fail)["interrupts"]
    assert question["value"]["action_requests"][0]["args"]["timeout"] == "NaN"


REJECTED = [{"type": "reject", "message": "no"}]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({}, 400, '"decisions" must be a list'),
        ({"decisions": None}, 400, '"decisions" must be a list'),
        ({"decisions": "approve"}, 400, '"decisions" must be a list'),
        ({"decisions": {"type": "approve"}}, 400, '"decisions" must be a list'),
        ({"decision": REJECTED}, 400, 'There is no "decision" here; known are decisions'),
        ({"decisions": REJECTED, "includeSteps": 0}, 400, '"includeSteps" must be'),
        ({"decisions": []}, 422, "0 decisions for 1 calls"),
        ({"decisions": REJECTED * 2}, 422, "2 decisions for 1 calls"),
        ({"decisions": ["approve"]}, 422, "decisions[0]"),
        ({"decisions": [{"type": "edit"}]}, 422, "decisions[0]"),
        ({"decisions": [{"type": "respond"}]}, 422, "decisions[0]"),
        ({"decisions": [{"type": "approve", "scope": "ever"}]}, 422, "decisions[0].scope"),
        ({"decisions": [{"type": "approve", "digest": "0" * 64}]}, 422, "digest is that of another call"),
        ({"decisions": [{"type": "approve", "also": 1}]}, 422, "decisions[0].also"),
        ({"decisions": {"0" * 32: REJECTED}}, 422, "No question '000"),
        ({"decisions": {}}, 422, '"decisions" is empty'),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_wrong_resume_is_refused_and_changes_nothing(
    client: httpx.AsyncClient, body: dict[str, Any], status: int, error: str
) -> None:
    before = (await client.post("/run", json={"input": "one command"})).json()
    path = f"/run/{before['thread_id']}/resume"
    for _ in range(2):
        answer = await client.post(path, json=body)
        assert answer.status_code == status
        assert error in answer.json()["error"]
        if status == 422:
            assert answer.json()["interrupts"] == before["interrupts"]
    answer = await client.post(path, json={"decisions": REJECTED})
    assert answer.status_code == 500, "the script ends there, so the thread has gone on"
    assert "1 replies and was asked for one more" in answer.json()["error"]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    decisions=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["type", "scope", "message", "x"]), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
async def test_no_resume_is_a_server_error(client: httpx.AsyncClient, decisions: Any) -> None:
    thread = (await client.post("/run", json={"input": "one command"})).json()["thread_id"]
    answer = await client.post(f"/run/{thread}/resume", json={"decisions": decisions})
    assert answer.status_code in (400, 422)


async def test_resume_of_what_is_not_there_or_waits_for_nothing(client: httpx.AsyncClient) -> None:
    for thread in ("unknown", "%00", "..", "%F0%9F%98%80", "x" * 5_000):
        answer = await client.post(f"/run/{thread}/resume", json={"decisions": REJECTED})
        assert answer.status_code == 404, thread
    thread = (await client.post("/run", json=ANSWERED)).json()["thread_id"]
    answer = await client.post(f"/run/{thread}/resume", json={"decisions": REJECTED})
    assert answer.status_code == 409
    assert "Nothing in this thread waits" in answer.json()["error"]


async def test_several_questions_are_answered_by_their_ids(client: httpx.AsyncClient) -> None:
    told = (await client.post("/run", json={"input": "two subagents"})).json()
    first, second = (question["id"] for question in told["interrupts"])
    path = f"/run/{told['thread_id']}/resume"
    answer = await client.post(path, json={"decisions": REJECTED})
    assert answer.status_code == 422
    assert "2 questions wait" in answer.json()["error"]
    answer = await client.post(path, json={"decisions": {first: REJECTED, second: REJECTED * 2}})
    assert answer.status_code == 422
    assert len(answer.json()["interrupts"]) == 2, "neither was answered"
    assert second != first


async def test_threads_of_others_are_not_there(client: httpx.AsyncClient) -> None:
    app: Any = client._transport
    own = httpx.AsyncClient(transport=httpx.ASGITransport(owned(app.app, "me")), base_url="http://server")
    other = httpx.AsyncClient(transport=httpx.ASGITransport(owned(app.app, "you")), base_url="http://server")
    async with own, other:
        told = (await own.post("/run", json={"input": "one command"})).json()
        answer = await other.post("/run", json={**ANSWERED, "thread_id": told["thread_id"]})
        unknown = await other.post("/run", json={**ANSWERED, "thread_id": "unknown"})
        assert (answer.status_code, answer.text) == (404, unknown.text)
        path = f"/run/{told['thread_id']}/resume"
        answer = await other.post(path, json={"decisions": REJECTED})
        assert (answer.status_code, answer.text) == (404, unknown.text)
        for asks in (own, client):  # nobody has a token: whoever asks may have all
            assert (await asks.post(path, json={"decisions": []})).status_code == 422
        answer = await client.post("/run", json={**ANSWERED, "thread_id": told["thread_id"]})
        assert answer.status_code == 500, "the script ends there"
        assert (await other.post(path, json={"decisions": REJECTED})).status_code == 404, "it is still theirs"


def owned(app: Any, owner: str) -> Any:
    """The application as the check of tokens hands requests on to it."""

    async def with_owner(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "owner": owner}, receive, send)

    return with_owner


async def test_a_hundred_at_once_share_nothing(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(
        *(client.post("/run", json=ANSWERED) for _ in range(100)),
        *(client.post("/run-lite", json={"input": json.dumps([final(str(n))])}) for n in range(100)),
    )
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["thread_id"] for answer in answers[:100]}) == 100
    assert [answer.json()["output"] for answer in answers[100:]] == [str(n) for n in range(100)]


class Sleepy(ScriptedChatModel):
    """A model that takes for ever."""

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(60)
        return AIMessage("never")


@pytest.mark.parametrize(("grace", "status"), [(30.0, 200), (-0.5, 500)])
async def test_a_run_has_an_end(tmp_path: Path, grace: float, status: int) -> None:
    settings = load_settings(None, workspace_dir=tmp_path / "workspace", run_max_seconds=1)
    made = Served(settings, Sleepy(conversations=CONVERSATIONS), build_backend(settings))
    app = Starlette(routes=run_routes.ROUTES)
    app.state.runs = await asyncio.to_thread(partial(Runs, made, InMemorySaver(), grace=grace))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        answer = await client.post("/run", json=ANSWERED)
    assert answer.status_code == status
    told = answer.json()
    assert told["status"] == "budget_seconds" if status == 200 else "RUN_MAX_SECONDS" in told["error"]


async def test_what_no_error_foresees_is_no_trace_either(client: httpx.AsyncClient) -> None:
    app: Any = client._transport

    async def broken(task: str, *, root: Path) -> Any:
        raise ZeroDivisionError("sk-secret in a message")

    app.app.state.run_lite = broken
    answer = await client.post("/run-lite", json=ANSWERED)
    assert answer.status_code == 500
    assert answer.json() == {"error": "Internal error: the server's log says more."}
