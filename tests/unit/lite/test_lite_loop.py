"""The loop of run-lite with a scripted model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.settings import ROOT
from libs.lite import LiteError, LiteModel, run_lite
from libs.lite.lite_protocol import system_prompt
from tests.servers.chat_server import checks, serving


class Says:
    """Returns its replies in turn, and keeps the messages of each call."""

    def __init__(self, *replies: dict[str, Any] | str) -> None:
        self.asked: list[list[Mapping[str, str]]] = []
        self._replies = [reply if isinstance(reply, str) else json.dumps(reply) for reply in replies]

    async def __call__(self, messages: Sequence[Mapping[str, str]]) -> str:
        self.asked.append(list(messages))
        return self._replies[len(self.asked) - 1]


def tool(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool", "name": name, "args": args}


def final(content: str) -> dict[str, Any]:
    return {"type": "final", "content": content}


async def test_steps_and_messages_to_the_model(tmp_path: Path) -> None:
    says = Says(tool("list_files"), tool("write_file", filePath="a", content="hi"), final("Written."))
    output, steps = await run_lite("write hi", says, tmp_path)
    assert output == "Written."
    assert steps == [
        {"type": "tool", "name": "list_files", "args": {}, "result": "(empty)"},
        {
            "type": "tool",
            "name": "write_file",
            "args": {"filePath": "a", "content": "hi"},
            "result": "Wrote 2 bytes to a",
        },
        {"type": "final", "content": "Written."},
    ]
    assert says.asked[0] == [
        {"role": "system", "content": system_prompt(6)},
        {"role": "user", "content": "write hi"},
    ]
    assert [message["role"] for message in says.asked[2]] == ["system", "user", *["assistant", "user"] * 2]
    assert json.loads(says.asked[1][-1]["content"])["result"] == "(empty)"


@pytest.mark.parametrize(("calls", "argument"), [(6, {}), (2, {"max_iterations": 2})])
async def test_run_ends_after_max_iterations(tmp_path: Path, calls: int, argument: dict[str, int]) -> None:
    says = Says(*[tool("list_files")] * 9)
    with pytest.raises(LiteError, match=r"^Exceeded max iterations$"):
        await run_lite("go on", says, tmp_path, **argument)
    assert len(says.asked) == calls
    assert f"At most {calls} replies" in says.asked[0][0]["content"]
    replies = [*[tool("list_files")] * (calls - 1), final("done")]
    output, steps = await run_lite("go on", Says(*replies), tmp_path, **argument)
    assert (output, len(steps)) == ("done", calls)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("Sure, I will list them.", "Invalid model output format"),
        (tool("read_file", filePath="../a"), "holds '..'"),
    ],
)
async def test_failure_ends_the_run(tmp_path: Path, reply: Any, error: str) -> None:
    says = Says(reply, final("never"))
    with pytest.raises(LiteError) as caught:
        await run_lite("x", says, tmp_path)
    assert error in str(caught.value)
    assert len(says.asked) == 1


@pytest.mark.parametrize(
    ("last", "error"),
    [
        ("no object", "Invalid model output format. Files written before: 'a', 'b/c'"),
        (tool("list_files"), "Exceeded max iterations. Files written before: 'a', 'b/c'"),
    ],
)
async def test_failed_run_names_the_files_that_it_has_written(tmp_path: Path, last: Any, error: str) -> None:
    files = [tool("write_file", filePath=path, content="x") for path in ("b/c", "a", "b/c")]
    with pytest.raises(LiteError) as caught:
        await run_lite("x", Says(*files, last), tmp_path, max_iterations=4)
    assert str(caught.value) == error


async def test_secrets_are_redacted(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("KEY=s3cret-value")
    says = Says(tool("read_file", filePath="env"), final("It is s3cret-value."))
    output, steps = await run_lite(
        "x", says, tmp_path, redact=lambda text: text.replace("s3cret-value", "[REDACTED]")
    )
    assert output == "It is [REDACTED]."
    assert "s3cret" not in json.dumps([steps, says.asked])


async def test_file_with_a_secret_is_not_written_back_without_it(tmp_path: Path) -> None:
    """What the model has read has the mark where the file has the secret."""

    def redact(text: str) -> str:
        return text.replace("s3cret-value", "[REDACTED]")

    (tmp_path / "env").write_text("KEY=s3cret-value\nA=1\n")
    (tmp_path / "log").write_text("the log shows [REDACTED]")
    (tmp_path / "binary").write_bytes(b"\xff s3cret-value")
    (tmp_path / "large").write_bytes(b"s3cret-value" * 100_000)
    back = {"content": "KEY=[REDACTED]\nA=2\n"}
    for path in ("log", "new", "binary", "large"):
        await run_lite(
            "x", Says(tool("write_file", filePath=path, **back), final("x")), tmp_path, redact=redact
        )
        assert (tmp_path / path).read_text() == back["content"]
    with pytest.raises(LiteError, match=r"write_file: 'env' holds a known secret, which \[REDACTED\] would"):
        await run_lite("x", Says(tool("write_file", filePath="env", **back)), tmp_path, redact=redact)
    assert (tmp_path / "env").read_text() == "KEY=s3cret-value\nA=1\n"
    await run_lite(
        "x", Says(tool("write_file", filePath="env", content="KEY=\n"), final("x")), tmp_path, redact=redact
    )
    assert (tmp_path / "env").read_text() == "KEY=\n"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (
            '{"type": "tool", "name": "write_file", "args": {"filePath": "a", "content": "It was',
            "was cut off",
        ),
        (
            '{"type": "tool", "name": "write_file", "args": {"filePath": "a", "content": "f() {}',
            "was cut off",
        ),
        ("", "was cut off"),
        (None, "was cut off"),
        (json.dumps(final("x")) + " " * 500, None),
    ],
)
async def test_reply_that_was_cut_off_is_told_so(content: str | None, error: str | None) -> None:
    choice = {"message": {"content": content}, "finish_reason": "length"}
    answers = httpx.MockTransport(lambda _: httpx.Response(200, json={"choices": [choice]}))
    async with httpx.AsyncClient(transport=answers) as client:
        asked = LiteModel(client, name="m")([{"role": "user", "content": "Write"}])
        if error is None:
            assert await asked == content
        else:
            with pytest.raises(LiteError, match=error):
                await asked


async def test_long_error_of_the_server_shows_no_part_of_the_key() -> None:
    key = "sk-lite-1vQ8Kq3Vn5Rt7Yw2"
    for before in range(400):
        error = {"error": {"message": f"{'x' * before} {key} {'y' * 500}"}}
        answers = httpx.MockTransport(lambda _, error=error: httpx.Response(400, json=error))
        async with httpx.AsyncClient(transport=answers) as client:
            with pytest.raises(LiteError, match="Model error") as failed:
                await LiteModel(client, name="m", api_key=key)([{"role": "user", "content": "Write"}])
        assert key[:4] not in str(failed.value)
        assert len(str(failed.value)) <= 400


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (
            403,
            {"error": {"message": "Country not supported", "code": "unsupported_country"}},
            "403 Forbidden: Country not supported",
        ),
        (403, {}, "403 Forbidden: check OPENAI_API_KEY"),
        (403, {"error": {"message": "sk-ab…6789 has no access"}}, "403 Forbidden: check OPENAI_API_KEY"),
        (
            400,
            {"object": "error", "message": "The context has 4,096 tokens"},
            "Bad Request: The context has 4,096 tokens",
        ),
        (200, {"message": {"content": "of another API"}}, "not a chat completion"),
        (
            200,
            {"choices": [{"message": {"content": '{"type": "fin'}, "finish_reason": "content_filter"}]},
            "Invalid model output format: the server ended the reply with 'content_filter'",
        ),
        (
            200,
            {"choices": [{"message": {"content": None}, "finish_reason": "tool_calls"}]},
            "Invalid model output format: the server ended the reply with 'tool_calls'",
        ),
        (
            200,
            {"choices": [{"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}]},
            "Model error: the model refuses: I can't.",
        ),
        (
            200,
            {"choices": [{"message": {"content": "", "refusal": "sk-abcdef0123456789"}}]},
            "Model error: the model refuses: [REDACTED]",
        ),
        (
            200,
            {
                "choices": [{"message": {"content": '{"type": "fin'}, "finish_reason": "length"}],
                "usage": {"completion_tokens": 37},
            },
            "Invalid model output format: the reply was cut off at 37 tokens, a limit of the server",
        ),
        (
            200,
            {
                "choices": [{"message": {"content": '{"type": "fin'}, "finish_reason": "length"}],
                "usage": {"completion_tokens": 600},
            },
            "Invalid model output format: the reply was cut off at 600 tokens",
        ),
        (
            200,
            {"choices": [{"message": {"content": None}, "finish_reason": "length"}], "usage": None},
            "Invalid model output format: the reply was cut off at its greatest length",
        ),
    ],
)
async def test_error_names_the_cause_that_the_server_gives(
    status: int, body: dict[str, Any], error: str
) -> None:
    answers = httpx.MockTransport(lambda _: httpx.Response(status, json=body))
    async with httpx.AsyncClient(transport=answers) as client:
        with pytest.raises(LiteError) as failed:
            await LiteModel(client, name="m", api_key="sk-abcdef0123456789")(
                [{"role": "user", "content": "Write"}]
            )
    assert str(failed.value).endswith(error)


async def test_reply_is_not_cut_off_if_the_server_has_its_own_name_for_its_end() -> None:
    body = {"choices": [{"message": {"content": "hello"}, "finish_reason": "eos"}]}
    answers = httpx.MockTransport(lambda _: httpx.Response(200, json=body))
    async with httpx.AsyncClient(transport=answers) as client:
        assert await LiteModel(client, name="m")([{"role": "user", "content": "Write"}]) == "hello"


def test_lite_loads_no_framework() -> None:
    loaded = "{name.partition('.')[0] for name in sys.modules}"
    program = f"import sys, libs.lite; print(sorted({loaded}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = done.stdout
    for name in ("langchain", "langchain_core", "langgraph", "deepagents", "openai", "pydantic", "docker"):
        assert f"'{name}'" not in found
    assert "'httpx'" in found


def test_example_of_the_docs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/python.md").read_text(), re.M | re.S)
    [program] = [block for block in blocks if "run_lite" in block]
    with serving(checks) as server:
        done = subprocess.run(
            [sys.executable, "-c", program.replace("https://api.openai.com/v1", server.url)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "sk-example"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "tool tool final hello from run-lite\n"
    assert (tmp_path / "lite-files" / "checks" / "hello.txt").read_text() == "hello from run-lite"
