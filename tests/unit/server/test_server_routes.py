"""Tests requests and answers of /run and /run-lite with scripted models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from starlette.applications import Starlette

from agent.config import Settings, build_backend, load_settings
from agent.parts.process import Parts
from agent.run.runtime import Runtime
from agent.server.json_exchange import MAX_BODY
from agent.server.routes import lite_routes, rewind_routes, run_routes
from agent.server.routes.run_service import Runs
from libs.lite import run_lite
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel, ToolUse

ANSWERED = {"input": "say hello"}
NO_THREAD = "There is no such thread, or no run has begun in it."


def calls(*uses: ToolUse) -> Reply:
    return Reply(tool_calls=uses)


SEND = 'Send {"decisions": [{"type": "approve"}]}.'
NOT_A_NUMBER = ToolUse(name="execute", args={"command": "x", "timeout": float("nan")})
CONVERSATIONS = (
    Conversation(when="say hello", replies=(Reply(text="Hello."), Reply(text="Hello again."))),
    Conversation(when="one command", replies=(calls(ToolUse(name="execute", args={"command": "true"})),)),
    Conversation(
        when="two commands",
        replies=(
            calls(*(ToolUse(name="execute", args={"command": each}) for each in ("true", "false"))),
            Reply(text="As you like."),
        ),
    ),
    Conversation(when="not a number", replies=(calls(NOT_A_NUMBER),)),
)


class Broken(FakeListChatModel):
    """A model with an error that nobody expects."""

    def _call(self, *_: Any, **__: Any) -> str:
        raise ZeroDivisionError("sk-secret in a message")

    async def _astream(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("sk-secret in a message")
        yield


async def model(messages: Any) -> str:
    """Play the replies that the task lists."""
    replies = json.loads(messages[1]["content"])
    return json.dumps(replies[sum(message["role"] == "assistant" for message in messages)])


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, workspace_dir=tmp_path / "workspace")
    made = Parts(settings, ScriptedChatModel(conversations=CONVERSATIONS), build_backend(settings))
    app = Starlette(routes=[*lite_routes.ROUTES, *run_routes.ROUTES, *rewind_routes.ROUTES])
    app.state.runs = Runs(Runtime(made, InMemorySaver()))
    app.state.run_lite = partial(run_lite, model=model)
    monkeypatch.setattr(lite_routes, "LITE_ROOT", tmp_path / "sandbox-lite")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        yield client


def final(text: str) -> dict[str, Any]:
    return {"type": "final", "content": text}


@pytest.mark.parametrize("path", ["/run-lite", "/run"])
async def test_bad_body_is_400(client: httpx.AsyncClient, path: str) -> None:
    bodies: list[tuple[Any, str]] = [
        ({}, "input: "),
        ({"input": ["x"]}, "input: "),
        ({"input": None}, "input: "),
        ({"input": " \n\t"}, "input: it is empty: give a task"),
        ({**ANSWERED, "includeSteps": 1}, "includeSteps: "),
        ({"input": 3, "includeSteps": 1}, "input: Input should be a valid string; includeSteps: "),
        (None, "must be a JSON object."),
        ([], "must be a JSON object."),
        (b"", "is not JSON"),
        (b'{"input": "\xff"}', "is not JSON in UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"input": "\\ud800"}', "half of a surrogate pair"),
        (b'{"n": ' + b"9" * 5_000 + b"}", "is not JSON"),
    ]
    for body, error in bodies:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, content[:40]
        assert list(answer.json()) == ["error"]
        assert error in answer.json()["error"]


@pytest.mark.parametrize("path", ["/run-lite", "/run", "/run/x/resume"])
async def test_body_over_1_mb_is_413(client: httpx.AsyncClient, path: str) -> None:
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
    ("more", "status", "error"),
    [
        ({"agent": "else"}, 400, "agent: Input should be 'deep', 'code' or 'exec'"),
        ({"thread_id": 3}, 400, "thread_id: "),
        ({"thread_id": "x" * 201}, 400, "thread_id: "),
        ({"thread_id": "unknown"}, 404, f"{NO_THREAD} To begin a thread, leave thread_id out."),
        ({"threadId": "x"}, 400, "threadId: "),
    ],
)
async def test_wrong_field_of_run_is_explained(
    client: httpx.AsyncClient, more: dict[str, Any], status: int, error: str
) -> None:
    answer = await client.post("/run", json={**ANSWERED, **more})
    assert answer.status_code == status
    assert error in answer.json()["error"]


async def test_model_that_cannot_call_tools_is_refused_for_the_deep_agent(client: httpx.AsyncClient) -> None:
    thread = (await client.post("/run", json=ANSWERED)).json()["thread_id"]
    app: Any = client._transport
    app.app.state.runs.runtime.use(FakeListChatModel(responses=[]))
    bodies: list[tuple[dict[str, Any], int, str]] = [
        ({"agent": "deep"}, 400, "choose the code agent"),
        ({"thread_id": thread}, 409, "with scripted:script, its last model (at the command line: --model "),
        ({"thread_id": thread, "agent": "deep"}, 409, "cannot call tools"),
        ({"thread_id": thread, "agent": "code"}, 409, "one of the deep agent: go on with that agent"),
    ]
    for more, status, error in bodies:
        answer = await client.post("/run", json={**ANSWERED, **more})
        assert (answer.status_code, error in answer.json()["error"]) == (status, True), answer.text


async def test_model_error_has_no_traceback(client: httpx.AsyncClient) -> None:
    answer = await client.post("/run", json={"input": "a task the script does not know"})
    assert answer.status_code == 500
    assert "no conversation fits the task" in answer.json()["error"]
    assert "Traceback" not in answer.text


async def test_failed_run_names_its_new_thread(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    failed = (await client.post("/run", json={"input": "a task the script does not know"})).json()
    again = await client.post("/run", json={"input": "say hello", "thread_id": failed["thread_id"]})
    assert again.status_code == 500, "the thread is there; the script has nothing for it"
    app: Any = client._transport
    app.app.state.runs.runtime.use(Broken(responses=[]))
    answer = await client.post("/run", json={"input": "say hello", "agent": "code"})
    assert answer.status_code == 500
    assert answer.json().keys() == {"error", "thread_id"}
    assert answer.json()["error"] == "Internal error: the server's log says more."
    assert "sk-secret in a message" in caplog.text


async def test_nan_argument_becomes_text(client: httpx.AsyncClient) -> None:
    answer = await client.post("/run", json={"input": "not a number"})
    assert answer.status_code == 202
    [question] = json.loads(answer.text, parse_constant=pytest.fail)["interrupts"]
    assert question["value"]["action_requests"][0]["args"]["timeout"] == "NaN"


REJECTED = [{"type": "reject", "message": "no"}]


async def test_wrong_resume_changes_nothing(client: httpx.AsyncClient) -> None:
    before = (await client.post("/run", json={"input": "one command"})).json()
    path = f"/run/{before['thread_id']}/resume"
    bodies: list[tuple[dict[str, Any], int, str]] = [
        ({}, 400, f"decisions: Field required. {SEND}"),
        ({"decisions": REJECTED, "decision": 0}, 400, SEND),
        ({"decisions": "yes"}, 422, SEND),
        ({"decisions": {"type": "answer"}}, 422, SEND),
        ({"decisions": []}, 422, f"0 decisions for 1 call. {SEND}"),
        ({"decisions": REJECTED * 2}, 422, "2 decisions for 1 call."),
        ({"decisions": ["approve"]}, 422, "decisions[0]"),
        ({"decisions": [{"type": "edit"}]}, 422, "decisions[0]"),
        ({"decisions": [{"type": "approve", "scope": "ever"}]}, 422, "decisions[0].scope"),
        ({"decisions": [{"type": "approve", "digest": "0" * 64}]}, 422, "digest is that of another call"),
        ({"decisions": [{"type": "approve", "also": 1}]}, 422, "decisions[0].also"),
        ({"decisions": {"0" * 32: REJECTED}}, 422, "no question '000"),
        ({"decisions": {}}, 422, SEND),
    ]
    for body, status, error in bodies:
        answer = await client.post(path, json=body)
        assert answer.status_code == status, body
        assert error in answer.json()["error"]
        if status == 422:
            assert answer.json()["interrupts"] == before["interrupts"]
    answer = await client.post(path, json={"decisions": REJECTED})
    assert answer.status_code == 500, "the script ends there, so the thread has gone on"
    assert "1 reply for this conversation" in answer.json()["error"]


@pytest.mark.parametrize("form", ["list", "decisions by id", "ids alone"])
async def test_calls_are_answered_by_list_or_by_id(tmp_path: Path, form: str) -> None:
    settings = load_settings(None, workspace_dir=tmp_path / "workspace", interrupt_mode="per_call")
    made = Parts(settings, ScriptedChatModel(conversations=CONVERSATIONS), build_backend(settings))
    app = Starlette(routes=run_routes.ROUTES)
    app.state.runs = Runs(Runtime(made, InMemorySaver()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        asked = (await client.post("/run", json={"input": "two commands"})).json()
        path, waiting = f"/run/{asked['thread_id']}/resume", asked["interrupts"]
        assert [each["value"]["args"]["command"] for each in waiting] == ["true", "false"]
        answer = await client.post(path, json={"decisions": REJECTED})
        assert answer.status_code == 422
        assert "2 questions waited" in answer.json()["error"]
        if form != "list":
            by_id = {waiting[1]["id"]: {"decisions": REJECTED}}
            body = {"decisions": by_id} if form == "decisions by id" else {**by_id, "includeSteps": True}
            answer = await client.post(path, json=body)
            assert (answer.status_code, answer.json()["interrupts"][0]["id"]) == (202, waiting[0]["id"])
            answer = await client.post(path, json={"decisions": REJECTED[0]})
        else:
            answer = await client.post(path, json={"decisions": REJECTED * 2})
    assert (answer.status_code, answer.json()["output"]) == (200, "As you like.")


@pytest.mark.parametrize(("route", "body"), [("rewind", {"to": 0}), ("fork", {})])
async def test_thread_without_a_run_cannot_go_back(
    client: httpx.AsyncClient, route: str, body: dict[str, Any]
) -> None:
    """LangGraph lists such a thread. The answer names no file of this machine."""
    answer = await client.post(f"/page/threads/unknown/{route}", json=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "No run has begun in this thread."})


async def test_resume_without_a_question_is_refused(client: httpx.AsyncClient) -> None:
    for thread in ("unknown", "%00", "x" * 5_000):
        answer = await client.post(f"/run/{thread}/resume", json={"decisions": REJECTED})
        assert (answer.status_code, answer.json()) == (404, {"error": NO_THREAD}), thread
    thread = (await client.post("/run", json=ANSWERED)).json()["thread_id"]
    answer = await client.post(f"/run/{thread}/resume", json={"decisions": REJECTED})
    assert answer.status_code == 409
    assert "Nothing in this thread waits" in answer.json()["error"]


async def test_thread_of_another_owner_is_404(client: httpx.AsyncClient) -> None:
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
        assert (answer.status_code, answer.json()) == (404, {"error": NO_THREAD})
        for asks in (own, client):  # nobody has a token: whoever asks may have all
            assert (await asks.post(path, json={"decisions": []})).status_code == 422
        answer = await client.post("/run", json={**ANSWERED, "thread_id": told["thread_id"]})
        assert answer.status_code == 500, "the script ends there"
        assert (await other.post(path, json={"decisions": REJECTED})).status_code == 404, "it is still theirs"


def owned(app: Any, owner: str) -> Any:
    """Wrap the application as `TokensNeeded` does for an owner."""

    async def with_owner(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "owner": owner}, receive, send)

    return with_owner


async def test_unexpected_error_shows_no_traceback(client: httpx.AsyncClient) -> None:
    app: Any = client._transport

    async def broken(task: str, *, root: Path) -> Any:
        raise ZeroDivisionError("sk-secret in a message")

    app.app.state.run_lite = broken
    answer = await client.post("/run-lite", json=ANSWERED)
    assert answer.status_code == 500
    assert answer.json() == {"error": "Internal error: the server's log says more."}


async def test_question_can_be_answered_after_approvals_were_turned_off(client: httpx.AsyncClient) -> None:
    thread = (await client.post("/run", json={"input": "one command"})).json()["thread_id"]
    app: Any = client._transport
    runtime = app.app.state.runs.runtime
    parts = replace(runtime._parts, settings=runtime.settings.model_copy(update={"approvals": "auto"}))
    app.app.state.runs = Runs(Runtime(parts, runtime.threads))
    answer = await client.post(f"/run/{thread}/resume", json={"decisions": REJECTED})
    assert answer.status_code == 500, "the script ends there, so the thread has gone on"
    assert "1 reply for this conversation" in answer.json()["error"]
