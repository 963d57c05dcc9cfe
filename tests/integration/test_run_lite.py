"""/run-lite of a real server over HTTP, with a server on loopback in the place of OpenAI's (R1-R7)."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from chat_server import HOLD, ChatServer, checks, played, serving
from langgraph_server import Server, langgraph_dev

from agent.config import LITE_ROOT, ROOT
from agent.tokens import new_token

KEY = "sk-lite-1vQ8Kq3Vn5Rt7Yw2"


def reply(body: dict[str, Any]) -> Any:
    return played(body) if body["messages"][1]["content"].startswith("[") else checks(body)


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with serving(reply) as chat:
        yield chat


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, chat: ChatServer) -> Iterator[Server]:
    settings = {"OPENAI_API_KEY": KEY, "OPENAI_LITE_BASE_URL": chat.url, "OPENAI_LITE_MODEL": "lite-model"}
    with langgraph_dev(tmp_path_factory.mktemp("lite"), "- text: hello\n", **settings) as server:
        yield server


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder of its own in `sandbox-lite/`, which is the repository's and no setting."""
    name = f"test-{uuid4().hex}"
    yield name
    shutil.rmtree(LITE_ROOT / name, ignore_errors=True)


def ask(server: Server, replies: list[Any], **more: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/run-lite", json={"input": json.dumps(replies), **more}, timeout=60)


def tool(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool", "name": name, "args": args}


def final(text: str) -> dict[str, Any]:
    return {"type": "final", "content": text}


def test_the_three_checks_by_curl(server: Server) -> None:
    done = subprocess.run(
        [ROOT / "tests/e2e/run_lite_checks.sh", server.url], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * 4
    assert (LITE_ROOT / "checks" / "hello.txt").read_text() == "hello from run-lite"
    shutil.rmtree(LITE_ROOT / "checks")


def test_the_checks_say_what_does_not_hold(server: Server, tmp_path: Path) -> None:
    script = ROOT / "tests/e2e/run_lite_checks.sh"
    done = subprocess.run([script, f"{server.url}/nothing"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "status 404" in done.stderr


def test_files_are_written_in_the_folder_of_the_repository(server: Server, folder: str) -> None:
    path = f"{folder}/notes/a.txt"
    answer = ask(
        server,
        [
            tool("write_file", path=path, content=""),
            tool("list_files", path=folder),
            final("Empty, but there."),
        ],
        includeSteps=True,
    )
    assert answer.status_code == 200
    assert answer.json()["output"] == "Empty, but there."
    assert [step.get("result") for step in answer.json()["steps"]] == [f"Wrote 0 bytes to {path}", path, None]
    assert (LITE_ROOT / path).read_bytes() == b""
    ignored = subprocess.run(["git", "check-ignore", "-q", LITE_ROOT / path], cwd=ROOT)
    assert ignored.returncode == 0


def test_an_owner_reaches_no_file_of_another(tmp_path: Path, chat: ChatServer) -> None:
    """Names that differ in case alone are two owners; whatever the path, neither finds the other's file."""
    some = uuid4().hex
    (alice, alices), (bob, bobs) = new_token(f"a{some}"), new_token(f"A{some}")
    before = set(LITE_ROOT.glob("*"))
    tokens = f"{alices},{bobs}"
    with langgraph_dev(tmp_path, "- text: x\n", OPENAI_LITE_BASE_URL=chat.url, AUTH_TOKENS=tokens) as server:

        def result(token: str, *used: dict[str, Any]) -> tuple[int, str]:
            body = {"input": json.dumps([*used, final("x")]), "includeSteps": True}
            with server.client(token) as http:
                answer = http.post("/run-lite", json=body)
            told = answer.json()
            return answer.status_code, told["steps"][-2]["result"] if "steps" in told else told["error"]

        try:
            assert result(alice, tool("write_file", path="mine.txt", content="of alice"))[0] == 200
            made = set(LITE_ROOT.glob("*")) - before
            assert len(made) == 1
            folder = made.pop()
            assert (folder / "mine.txt").read_text() == "of alice"
            assert result(alice, tool("read_file", path="mine.txt")) == (200, "of alice")
            assert result(bob, tool("list_files")) == (200, "(empty)")
            for path in ("mine.txt", f"{folder.name}/mine.txt", f"../{folder.name}/mine.txt", str(folder)):
                status, said = result(bob, tool("read_file", path=path))
                assert (status, "of alice" in said) == (500, False), path
            assert result(bob, tool("write_file", path="mine.txt", content="of bob"))[0] == 200
            assert result(alice, tool("read_file", path="mine.txt")) == (200, "of alice")
        finally:
            for folder in set(LITE_ROOT.glob("owner-*")) - before:
                shutil.rmtree(folder)


def test_what_the_model_is_asked(server: Server, chat: ChatServer) -> None:
    before = len(chat.requests)
    ask(server, [tool("list_files"), final("x")])
    first, second = chat.requests[before:]
    assert (first["path"], first["auth"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("lite-model", 0, 600)
    assert not {"tools", "functions", "response_format"} & first.keys()
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]


def test_six_calls_of_the_model_and_no_more(server: Server, chat: ChatServer) -> None:
    before = len(chat.requests)
    answer = ask(server, [tool("list_files")])
    assert (answer.status_code, answer.json()) == (500, {"error": "Exceeded max iterations"})
    assert len(chat.requests) - before == 6


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        (["no object"], "Invalid model output format"),
        ([f"```json\n{json.dumps(final('x'))}\n```"], "Invalid model output format"),
        ([tool("delete_file")], "Unknown tool 'delete_file'. Allowed: list_files, read_file, write_file"),
        ([tool("read_file", path="../.env")], "holds '..'"),
        ([tool("read_file", path="/etc/passwd")], "is absolute"),
        ([[200, "no json"]], "no chat completion"),
        ([[200, {"choices": []}]], "no chat completion"),
        ([[200, {"choices": [{"message": {"content": None}}]}]], "Invalid model output format"),
        ([[429, {"error": {"message": "Rate limit reached"}}]], "429 Too Many Requests: Rate limit reached"),
        ([[500, "<html>"]], "500 Internal Server Error"),
        (
            [[401, {"error": {"message": f"Incorrect API key provided: {KEY[:9]}***"}}]],
            "check OPENAI_API_KEY",
        ),
        ([[404, {"error": {"message": f"no model for {KEY}"}}]], "no model for [REDACTED]"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_are_told_without_trace_or_key(server: Server, replies: list[Any], error: str) -> None:
    answer = ask(server, replies)
    assert answer.status_code == 500
    assert list(answer.json()) == ["error"]
    assert error in answer.json()["error"]
    assert KEY[:9] not in answer.text
    assert "Traceback" not in answer.text
    assert str(ROOT) not in answer.text


def test_an_option_that_a_model_refuses_is_left_out(tmp_path: Path, server: Server) -> None:
    """As reasoning models do: no temperature, and another name for the number of tokens."""
    refused = ["temperature", "max_tokens"]

    def choosy(body: dict[str, Any]) -> Any:
        for param in refused:
            if param in body:
                return 400, {"error": {"message": f"Unsupported: {param}", "param": param, "code": "x"}}
        return final("done")

    with serving(choosy) as chat, langgraph_dev(tmp_path, "- text: x\n", OPENAI_BASE_URL=chat.url) as other:
        assert ask(other, []).json() == {"output": "done"}
        assert ask(other, []).json() == {"output": "done"}
    assert len(chat.requests) == 4
    last = chat.requests[-1]
    assert (last["max_completion_tokens"], last["model"], last["auth"]) == (600, "gpt-5-mini", None)


def test_without_a_key_the_error_names_what_is_missing(tmp_path: Path, chat: ChatServer) -> None:
    with langgraph_dev(tmp_path, "- text: x\n") as server:
        answer = ask(server, [final("x")])
        assert answer.status_code == 500
        assert answer.json()["error"].startswith("OPENAI_API_KEY is not set")


def test_fences_where_that_is_chosen(tmp_path: Path, chat: ChatServer) -> None:
    settings = {"OPENAI_LITE_BASE_URL": chat.url, "LITE_LENIENT_FENCES": "1"}
    with langgraph_dev(tmp_path, "- text: x\n", **settings) as server:
        assert ask(server, [f"```json\n{json.dumps(final('ok'))}\n```"]).json() == {"output": "ok"}


async def test_a_hundred_at_once_share_nothing(server: Server, folder: str) -> None:
    def task(number: int) -> str:
        path = f"{folder}/{number}/a.txt"
        write = tool("write_file", path=path, content=f"text {number}")
        return json.dumps([write, tool("read_file", path=path), final(str(number))])

    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=100)) as client:
        asked = [{"input": task(number), "includeSteps": True} for number in range(100)]
        answers = await asyncio.gather(*(client.post(f"{server.url}/run-lite", json=each) for each in asked))
    assert [answer.json()["output"] for answer in answers] == [str(number) for number in range(100)]
    assert [answer.json()["steps"][1]["result"] for answer in answers] == [
        f"text {number}" for number in range(100)
    ]


def test_a_client_that_leaves_ends_the_call_of_the_model(server: Server, chat: ChatServer) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/run-lite", json={"input": json.dumps([HOLD])}, timeout=1)
    assert chat.held.acquire(timeout=10)
    assert chat.left.acquire(timeout=10), "the connection to the model's server was closed"


def test_half_a_body_starts_nothing(server: Server, chat: ChatServer) -> None:
    before = len(chat.requests)

    def half() -> Iterator[bytes]:
        yield json.dumps({"input": json.dumps([final("x")])}).encode()
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError), httpx.Client() as client:
        client.post(f"{server.url}/run-lite", content=half(), headers={"Content-Type": "application/json"})
    assert ask(server, [final("y")]).json() == {"output": "y"}
    assert len(chat.requests) - before == 1


def test_what_is_too_large_is_refused_over_http_too(server: Server) -> None:
    answer = ask(server, [final("x" * 1_100_000)])
    assert answer.status_code == 413
    assert "error" in answer.json()
