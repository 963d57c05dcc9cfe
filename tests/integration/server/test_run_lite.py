"""Tests /run-lite of a real server over HTTP; a server on loopback replaces OpenAI's."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from agent.settings import LITE_ROOT, ROOT
from agent.settings.token_settings import new_token
from tests.servers.chat_server import HOLD, ChatServer, checks, played, serving
from tests.servers.served import Served, served
from tests.support.waiting import eventually

KEY = "sk-lite-1vQ8Kq3Vn5Rt7Yw2"


def reply(body: dict[str, Any]) -> Any:
    return played(body) if body["messages"][1]["content"].startswith("[") else checks(body)


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with serving(reply) as chat:
        yield chat


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, chat: ChatServer) -> Iterator[Served]:
    settings = {"OPENAI_API_KEY": KEY, "OPENAI_LITE_BASE_URL": chat.url, "OPENAI_LITE_MODEL": "lite-model"}
    with served(tmp_path_factory.mktemp("lite"), "- text: hello\n", **settings) as server:
        yield server


def ask(server: Served, replies: list[Any], **more: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/run-lite", json={"input": json.dumps(replies), **more}, timeout=60)


def tool(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool", "name": name, "args": args}


def final(text: str) -> dict[str, Any]:
    return {"type": "final", "content": text}


def test_checks_by_curl(server: Served) -> None:
    done = subprocess.run(
        [ROOT / "tests/e2e/run_lite_checks.sh", server.url], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * 6
    written = LITE_ROOT / "checks" / "hello.txt"
    assert written.read_text() == "hello from run-lite"
    assert subprocess.run(["git", "check-ignore", "-q", written], cwd=ROOT).returncode == 0
    shutil.rmtree(LITE_ROOT / "checks")


def test_owner_cannot_reach_files_of_another_owner(tmp_path: Path, chat: ChatServer) -> None:
    """Two owners whose names differ only in case cannot reach each other's files by any path."""
    some = uuid4().hex
    (alice, alices), (bob, bobs) = new_token(f"a{some}"), new_token(f"A{some}")
    before = set(LITE_ROOT.glob("*"))
    tokens = f"{alices},{bobs}"
    settings = {"OPENAI_LITE_BASE_URL": chat.url, "LITE_LENIENT_FENCES": "1"}
    with served(tmp_path, "- text: x\n", AUTH_TOKENS=tokens, **settings) as server:

        def result(token: str, *used: dict[str, Any]) -> tuple[int, str]:
            body = {"input": json.dumps([*used, final("x")]), "includeSteps": True}
            with server.client(token) as http:
                answer = http.post("/run-lite", json=body)
            told = answer.json()
            return answer.status_code, told["steps"][-2]["result"] if "steps" in told else told["error"]

        try:
            assert result(alice, tool("write_file", filePath="mine.txt", content="of alice"))[0] == 200
            made = set(LITE_ROOT.glob("*")) - before
            assert len(made) == 1
            folder = made.pop()
            assert (folder / "mine.txt").read_text() == "of alice"
            assert result(alice, tool("read_file", filePath="mine.txt")) == (200, "of alice")
            assert result(bob, tool("list_files")) == (200, "(empty)")
            for path in ("mine.txt", f"../{folder.name}/mine.txt", str(folder)):
                status, said = result(bob, tool("read_file", filePath=path))
                assert (status, "of alice" in said) == (500, False), path
            assert result(bob, tool("write_file", filePath="mine.txt", content="of bob"))[0] == 200
            assert result(alice, tool("read_file", filePath="mine.txt")) == (200, "of alice")
            with server.client(alice) as http:  # fences, where they are allowed
                fenced = {"input": json.dumps([f"```json\n{json.dumps(final('ok'))}\n```"])}
                assert http.post("/run-lite", json=fenced).json() == {"output": "ok"}
        finally:
            for folder in set(LITE_ROOT.glob("owner-*")) - before:
                shutil.rmtree(folder)


def test_request_to_the_model(server: Served, chat: ChatServer) -> None:
    before = len(chat.requests)
    ask(server, [tool("list_files"), final("x")])
    first, second = chat.requests[before:]
    assert (first["path"], first["auth"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("lite-model", 0, 600)
    assert not {"tools", "functions", "response_format"} & first.keys()
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        (["no object"], "Invalid model output format"),
        ([[200, "no json"]], "not a chat completion"),
        ([[200, {"choices": [{"message": {"content": None}}]}]], "Invalid model output format"),
        ([[429, {"error": {"message": "Rate limit reached"}}]], "429 Too Many Requests: Rate limit reached"),
        (
            [[401, {"error": {"message": f"Incorrect API key provided: {KEY[:9]}***"}}]],
            "check OPENAI_API_KEY",
        ),
        ([[404, {"error": {"message": f"no model for {KEY}"}}]], "no model for [REDACTED]"),
        ([[200, {"error": {"message": "Provider overloaded", "code": 502}}]], "200 OK: Provider overloaded"),
        ([[200, {"choices": [], "error": None}]], "not a chat completion"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_hold_no_traceback_and_no_key(server: Served, replies: list[Any], error: str) -> None:
    answer = ask(server, replies)
    assert answer.status_code == 500
    assert list(answer.json()) == ["error"]
    assert error in answer.json()["error"]
    assert KEY[:9] not in answer.text
    assert "Traceback" not in answer.text
    assert str(ROOT) not in answer.text


@pytest.mark.thorough
def test_option_refused_by_the_model_is_left_out(tmp_path: Path, server: Served) -> None:
    """Reasoning models refuse `temperature` and use another name for the number of tokens."""
    refused = ["temperature", "max_tokens"]

    def choosy(body: dict[str, Any]) -> Any:
        for param in refused:
            if param in body:
                return 400, {"error": {"message": f"Unsupported: {param}", "param": param, "code": "x"}}
        return final("done")

    with serving(choosy) as chat, served(tmp_path, "- text: x\n", OPENAI_BASE_URL=chat.url) as other:
        assert ask(other, []).json() == {"output": "done"}
        assert ask(other, []).json() == {"output": "done"}
    assert len(chat.requests) == 4
    last = chat.requests[-1]
    assert (last["max_completion_tokens"], last["model"], last["auth"]) == (600, "gpt-5-mini", None)


async def test_model_call_ends_when_the_client_leaves(server: Served, chat: ChatServer) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        asked = asyncio.create_task(http.post("/run-lite", json={"input": json.dumps([HOLD])}))
        assert await asyncio.to_thread(chat.held.acquire, timeout=50)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        left = await asyncio.to_thread(chat.left.acquire, timeout=50)
    assert left, "the connection to the model's server was closed"


@pytest.mark.thorough
def test_reload_waits_for_run_lite(tmp_path: Path) -> None:
    """A run that ends within the limit is answered; the client of another is told to send the task again."""
    go, asked = threading.Event(), threading.Event()

    def reply(body: dict[str, Any]) -> Any:
        if "hold" in str(body["messages"][1]):
            return HOLD
        asked.set()
        assert go.wait(60)
        return {"type": "final", "content": "In time."}

    with serving(reply) as chat, ThreadPoolExecutor(2) as pool:
        settings = {"OPENAI_API_KEY": KEY, "OPENAI_LITE_BASE_URL": chat.url}
        server = Served(tmp_path, "- text: x\n", SHUTDOWN_SECONDS="15", **settings)
        server.reloads = True
        try:
            server.start()
            slow, held = (
                pool.submit(httpx.post, f"{server.url}/run-lite", json={"input": each}, timeout=120)
                for each in ("slow", "hold")
            )
            assert asked.wait(60)
            assert chat.held.acquire(timeout=60)
            (tmp_path / "changed.py").touch()
            eventually(lambda: "SHUTDOWN_SECONDS" in server.log(), 60)
            time.sleep(3)
            go.set()
            assert slow.result().json() == {"output": "In time."}
            assert not held.done()
            assert held.result().status_code == 503
            assert "keeps no runs of /run-lite: send the task again" in held.result().json()["error"]
        finally:
            go.set()
            server.end()
