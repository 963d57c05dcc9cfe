"""`INTERRUPT_MODE=per_call` on the server: clients answer calls by id, or all calls of a reply in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.servers.served import Served, served

pytestmark = [pytest.mark.docker, pytest.mark.thorough]

SCRIPT = """\
conversations:
- when: "two commands"
  replies:
  - tool_calls:
    - {name: execute, args: {command: "echo ran >> /workspace/one-left.txt"}}
    - {name: execute, args: {command: "echo ran >> /workspace/one-right.txt"}}
  - text: That is done.
"""
APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "not now"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("per_call")
    with served(folder, SCRIPT, INTERRUPT_MODE="per_call") as server:
        yield server


async def test_calls_are_answered_by_id_across_a_restart_or_in_order(server: Served) -> None:
    async def asked(client: Any) -> tuple[str, list[Any]]:
        thread = (await client.threads.create())["thread_id"]
        given = {"messages": [{"role": "user", "content": "two commands"}]}
        await client.runs.wait(thread, "deep_agent", input=given)
        return thread, (await client.threads.get_state(thread))["interrupts"]

    async def answer(client: Any, thread: str, resume: Any) -> list[Any]:
        await client.runs.wait(thread, "deep_agent", command={"resume": resume})
        return list((await client.threads.get_state(thread))["interrupts"])

    def ran() -> dict[str, str]:
        return {path.stem: path.read_text() for path in server.workspace.glob("one-*.txt")}

    async with get_client(url=server.url) as client:
        thread, waiting = await asked(client)
        assert [each["value"]["type"] for each in waiting] == ["tool_approval", "tool_approval"]
        assert {each["$ref"] for each in waiting[0]["response_schema"]["oneOf"]} == {
            "#/$defs/Approve",
            "#/$defs/Reject",
        }
        left, right = waiting
        [again] = await answer(client, thread, {left["id"]: APPROVE, right["id"]: {"type": "respond"}})
        assert again["id"] == right["id"]
        assert "'respond' is not offered" in again["value"]["error"]
    server.kill()
    server.start()
    async with get_client(url=server.url) as client:
        assert ran() == {}
        assert await answer(client, thread, {right["id"]: REJECT}) == []
        assert ran() == {"one-left": "ran\n"}
        thread, waiting = await asked(client)
        assert await answer(client, thread, {"decisions": [REJECT, APPROVE]}) == []
        assert ran() == {"one-left": "ran\n", "one-right": "ran\n"}
