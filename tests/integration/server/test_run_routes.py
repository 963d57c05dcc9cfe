"""Tests /run of a real server with real sandboxes: answers, questions, clients that leave."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers.served import Served

pytestmark = pytest.mark.docker

MARKER = "31415.92653"
"""The argument of `sleep` that identifies its process."""

SCRIPT = """\
conversations:
- when: "run: one command"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/run-one.txt; echo it ran"}}]
  - text: That is done.
  - text: And on.
- when: "run: an absent path"
  replies:
  - text: There is no such file.
- when: "run: a block"
  replies:
  - text: "I look.\\n```python\\nprint(6 * 7)\\n```"
  - text: It is 42.
- when: "run: a program"
  replies:
  - tool_calls:
    - {name: execute_code, args: {code: "print('{\\"answer\\": \\"It is %d.\\", \\"n\\": 42}' % (6 * 7))"}}
  - text: (made of what it printed)
- when: "run: a long command"
  replies:
  - tool_calls:
    - {name: execute, args: {command: "touch /workspace/run-began; (setsid sleep MARKER &) ; sleep MARKER"}}
  - text: I look before I repeat it.
- when: "run: who runs"
  replies:
  - tool_calls: [{name: execute, args: {command: "pgrep -fc '[s]leep MARKER'"}}]
  - text: Counted.
- when: "run: parts"
  replies:
  - tool_calls:
    - {name: task, args: {subagent_type: general-purpose, description: "run: the left"}}
    - {name: task, args: {subagent_type: general-purpose, description: "run: the right"}}
  - text: Both are done.
- when: "run: the left"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo left >> /workspace/run-left.txt"}}]
  - text: Left.
- when: "run: the right"
  replies:
  - tool_calls: [{name: execute, args: {command: "echo right >> /workspace/run-right.txt"}}]
  - text: Right.
""".replace("MARKER", MARKER)

APPROVE: dict[str, Any] = {"decisions": [{"type": "approve"}]}


@pytest.fixture
def client(shared_server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared_server.url, timeout=120) as client:
        yield client


def run(client: httpx.Client, task: str, **more: Any) -> httpx.Response:
    return client.post("/run", json={"input": task, **more})


def asked(client: httpx.Client, task: str, **more: Any) -> tuple[str, Any]:
    """Start a run that asks; return its thread and questions."""
    answer = run(client, task, **more)
    assert answer.status_code == 202, answer.text
    return answer.json()["thread_id"], answer.json()["interrupts"]


def resume(client: httpx.Client, thread: str, body: Any = APPROVE, **options: Any) -> httpx.Response:
    return client.post(f"/run/{thread}/resume", json=body, **options)


def test_absent_paths_of_the_task_are_in_the_answer(client: httpx.Client) -> None:
    answer = run(client, "run: an absent path, /data/people.csv", agent="deep").json()
    assert answer.pop("thread_id")
    assert answer == {
        "output": "There is no such file.",
        "status": "completed",
        "absent_paths": ["/data/people.csv"],
    }


def lines(server: Served, name: str) -> int:
    path = server.workspace / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_command_needs_approval_and_runs_once(shared_server: Served, client: httpx.Client) -> None:
    before = lines(shared_server, "run-one.txt")
    thread, [question] = asked(client, "run: one command")
    [request] = question["value"]["action_requests"]
    assert request["name"] == "execute"
    assert "echo ran >> /workspace/run-one.txt" in request["description"]
    assert lines(shared_server, "run-one.txt") == before
    answer = resume(
        client,
        thread,
        {"decisions": [{"type": "approve", "digest": request["digest"]}], "includeSteps": True},
    )
    told = answer.json()
    assert (answer.status_code, told["output"], told["status"]) == (200, "That is done.", "completed")
    assert told["thread_id"] == thread
    step, last = told["steps"]
    assert (step["type"], step["name"], step["args"]) == ("tool", "execute", request["args"])
    assert step["result"].startswith("it ran\n")
    assert last == {"type": "final", "content": "That is done."}
    assert lines(shared_server, "run-one.txt") == before + 1
    assert run(client, "go on", thread_id=thread).json()["output"] == "And on."


def test_the_code_agent(client: httpx.Client) -> None:
    thread, [question] = asked(client, "run: a block", agent="code")
    assert question["value"]["action_requests"][0]["args"] == {"language": "python", "code": "print(6 * 7)"}
    told = resume(client, thread, {**APPROVE, "includeSteps": True}).json()
    assert (told["output"], told["status"]) == ("It is 42.", "completed")
    assert told["steps"][0] == {
        "type": "tool",
        "name": "execute_code",
        "args": {"language": "python", "code": "print(6 * 7)"},
        "result": "42\n",
    }


def test_the_one_tool_agent(client: httpx.Client) -> None:
    thread, [question] = asked(client, "run: a program", agent="exec")
    assert question["value"]["action_requests"][0]["name"] == "execute_code"
    told = resume(client, thread, {**APPROVE, "includeSteps": True}).json()
    assert told["status"] == "completed"
    assert told["output"] == 'It is 42.\n\n```json\n{\n  "n": 42\n}\n```'
    step, final = told["steps"]
    assert (step["name"], json.loads(step["result"])["result"]["n"]) == ("execute_code", 42)
    assert final == {"type": "final", "content": told["output"]}


def test_simultaneous_answers_run_the_command_once(shared_server: Served, client: httpx.Client) -> None:
    before = lines(shared_server, "run-one.txt")
    thread, _ = asked(client, "run: one command")

    async def both() -> list[int]:
        async with httpx.AsyncClient(base_url=shared_server.url, timeout=60) as client:
            path = f"/run/{thread}/resume"
            answers = await asyncio.gather(*(client.post(path, json=APPROVE) for _ in range(5)))
        return sorted(answer.status_code for answer in answers)

    statuses = asyncio.run(both())
    assert statuses.count(200) == 1
    assert set(statuses) == {200, 409}
    assert lines(shared_server, "run-one.txt") == before + 1


def test_subagents_questions_can_be_answered_one_by_one(shared_server: Served, client: httpx.Client) -> None:
    thread, questions = asked(client, "run: parts")
    ids = {
        question["value"]["action_requests"][0]["args"]["command"].split()[1]: question["id"]
        for question in questions
    }
    assert set(ids) == {"left", "right"}
    assert resume(client, thread).status_code == 422
    answer = resume(client, thread, {"decisions": {ids["left"]: [{"type": "approve"}]}})
    assert answer.status_code == 202
    [waiting] = answer.json()["interrupts"]
    assert waiting["id"] == ids["right"]
    answer = resume(client, thread, {"decisions": [{"type": "reject"}]})
    assert (answer.status_code, answer.json()["output"]) == (200, "Both are done.")
    assert (lines(shared_server, "run-left.txt"), lines(shared_server, "run-right.txt")) == (1, 0)


def running(client: httpx.Client) -> int:
    """Count the marked processes in the sandbox, with a command of the agent."""
    thread, _ = asked(client, "run: who runs")
    told = resume(client, thread, {**APPROVE, "includeSteps": True}).json()
    return int(told["steps"][0]["result"].split()[0])


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_command_stops_when_its_client_leaves(shared_server: Served, client: httpx.Client) -> None:
    began = shared_server.workspace / "run-began"
    began.unlink(missing_ok=True)
    thread, _ = asked(client, "run: a long command")

    async def leave() -> None:
        async with httpx.AsyncClient(base_url=shared_server.url, timeout=60) as leaving:
            call = asyncio.ensure_future(leaving.post(f"/run/{thread}/resume", json=APPROVE))
            await asyncio.to_thread(wait_for, began)
            call.cancel()
            await asyncio.wait({call})

    asyncio.run(leave())
    deadline = time.monotonic() + 10
    while (left := running(client)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == 0
    assert resume(client, thread).status_code == 409, "nothing waits: the approval was used up"
    assert run(client, "and now?", thread_id=thread).json()["output"] == "I look before I repeat it."
