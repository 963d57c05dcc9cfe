"""APPROVALS=effects on the server: a restart between the run of a command and the answer changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.servers.served import Served, served

pytestmark = pytest.mark.docker

SCRIPT = """\
conversations:
- when: "clean up"
  replies:
  - tool_calls:
    - {name: execute, args: {command: "rm /data/old.csv; echo ran >> /results/ran.txt"}}
  - text: That is done.
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("effects")
    with served(folder, SCRIPT, APPROVALS="effects") as server:
        yield server


@pytest.mark.thorough
async def test_effect_is_rejected_after_a_restart(server: Served) -> None:
    old, ran = server.workspace / "data/old.csv", server.workspace / "results/ran.txt"
    old.parent.mkdir(parents=True, exist_ok=True)
    old.write_bytes(b"old\r\n")

    async def waiting(client: Any, thread: str) -> list[Any]:
        return list((await client.threads.get_state(thread))["interrupts"])

    async with get_client(url=server.url) as client:
        thread = (await client.threads.create())["thread_id"]
        given = {"messages": [{"role": "user", "content": "clean up"}]}
        await client.runs.wait(thread, "deep_agent", input=given)
        [card] = await waiting(client, thread)
        [request] = card["value"]["action_requests"]
        assert request["effect"]["deleted"] == ["/data/old.csv"]
        assert not old.exists()
    server.kill()
    server.start()
    async with get_client(url=server.url) as client:
        [again] = await waiting(client, thread)
        assert again["value"] == card["value"]
        rejection = {"decisions": [{"type": "reject", "message": "those are needed"}]}
        state = await client.runs.wait(thread, "deep_agent", command={"resume": rejection})
        assert await waiting(client, thread) == []
    assert old.read_bytes() == b"old\r\n"
    assert not ran.exists()
    [answer] = [each for each in state["messages"] if each["type"] == "tool"]
    assert "those are needed" in answer["content"]
    assert "Brought back: /data/old.csv" in answer["content"]
