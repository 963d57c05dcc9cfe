"""Skills that agents propose, over a real server: /run, and the threads of LangGraph's own API."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml
from langgraph_server import Server, langgraph_dev

pytestmark = pytest.mark.docker

APPROVE: dict[str, Any] = {"decisions": [{"type": "approve"}]}


def writes(name: str, text: str = "") -> str:
    skill = f"---\nname: {name}\ndescription: Says {name}. Use for {name}.\n---\n\n# {name}\n{text}"
    return f"mkdir -p skills/{name} && printf %s {shlex.quote(skill)} > skills/{name}/SKILL.md"


def conversation(when: str, command: str, *, code: bool = False) -> dict[str, Any]:
    step = (
        {"text": f"So.\n```bash\n{command}\n```"}
        if code
        else {"tool_calls": [{"name": "execute", "args": {"command": command}}]}
    )
    return {"when": when, "replies": [step, {"text": "That is done."}, {"text": "And on."}]}


SCRIPT = yaml.safe_dump(
    {
        "conversations": [
            conversation("learn deeply", writes("deep-one")),
            conversation("learn by code", writes("code-one"), code=True),
            conversation("learn in a thread", writes("thread-one")),
            conversation("use both", "cat /skills.d/learned/*/SKILL.md"),
        ]
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with langgraph_dev(
        tmp_path_factory.mktemp("grow"), SCRIPT, SKILLS_EVOLVE="1", SANDBOX_SCOPE="thread"
    ) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


def resume(client: httpx.Client, thread: str) -> httpx.Response:
    return client.post(f"/run/{thread}/resume", json={**APPROVE, "includeSteps": True})


def test_proposed_approved_and_used_in_a_new_thread(server: Server, client: httpx.Client) -> None:
    for agent, task in (("deep", "learn deeply"), ("code", "learn by code")):
        name = f"{agent}-one"
        asked = client.post("/run", json={"input": task, "agent": agent})
        assert asked.status_code == 202, asked.text
        thread = asked.json()["thread_id"]
        asked = resume(client, thread)
        assert asked.status_code == 202, asked.text
        [question] = asked.json()["interrupts"]
        [request] = question["value"]["action_requests"]
        assert (request["name"], request["args"]["skill"]) == ("adopt_skill", name)
        assert f"description: Says {name}." in request["description"]
        assert question["value"]["scopes"] == ["call"]
        assert not (server.folder / ".code-agent" / "skills" / "learned" / name).exists()
        answer = resume(client, thread)
        assert answer.status_code == 200, answer.text
        assert answer.json()["output"] == (
            f"That is done.\n\nThe skill {name} is kept: /skills.d/learned/{name}/SKILL.md."
        )

    thread = client.post("/run", json={"input": "use both"}).json()["thread_id"]
    answer = resume(client, thread)
    assert answer.status_code == 200, answer.text
    assert all(f"Says {agent}-one." in answer.json()["steps"][0]["result"] for agent in ("deep", "code"))


def test_in_a_thread_of_langgraphs_api(server: Server, client: httpx.Client) -> None:
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
