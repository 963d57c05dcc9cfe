"""A skill that an agent proposes, in a thread of a real LangGraph server."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from tests.servers.served import Served, served

pytestmark = pytest.mark.docker

APPROVE: dict[str, Any] = {"decisions": [{"type": "approve"}]}


SKILL = "---\nname: thread-one\ndescription: Says thread-one. Use for thread-one.\n---\n\n# thread-one\n"
WRITE = f"mkdir -p skills/thread-one && printf %s {shlex.quote(SKILL)} > skills/thread-one/SKILL.md"
REPLIES = [
    {"tool_calls": [{"name": "execute", "args": {"command": WRITE}}]},
    {"text": "That is done."},
    {"text": "And on."},
]
SCRIPT = yaml.safe_dump({"conversations": [{"when": "learn in a thread", "replies": REPLIES}]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("grow"), SCRIPT, SKILLS_EVOLVE="1", SANDBOX_SCOPE="thread") as server:
        yield server


@pytest.fixture
def client(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


@pytest.mark.thorough
def test_proposal_in_a_thread_of_the_api(server: Served, client: httpx.Client) -> None:
    thread = client.post("/threads", json={}).json()["thread_id"]

    def wait(**body: Any) -> Any:
        answer = client.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "deep_agent", **body})
        assert answer.status_code == 200, answer.text
        return client.get(f"/threads/{thread}/state").json()

    messages = [{"role": "user", "content": "learn in a thread"}]
    wait(input={"messages": messages})
    state = wait(command={"resume": APPROVE})
    [request] = state["tasks"][0]["interrupts"][0]["value"]["action_requests"]
    assert request["name"] == "adopt_skill"
    wrong = wait(command={"resume": {"decisions": [{"type": "approve", "scope": "tool"}]}})
    question = wrong["tasks"][0]["interrupts"][0]["value"]
    assert "is not offered here" in question["error"]
    assert not (server.folder / ".code-agent" / "skills" / "learned" / "thread-one").exists()
    state = wait(command={"resume": APPROVE})
    assert state["next"] == []
    assert "The skill thread-one is kept" in json.dumps(state["values"]["messages"][-1])
    assert state["values"]["skill_offers"] == []
