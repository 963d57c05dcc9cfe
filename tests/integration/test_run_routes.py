"""/run of a real server over HTTP, with real sandboxes: answers, questions, clients that leave (R8)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_server import Server, langgraph_dev
from served import served

from agent.tokens import new_token

pytestmark = pytest.mark.docker

MARKER = "31415.92653"
"""The argument of `sleep` by which its process is known."""

SCRIPT = (
    """\
conversations:
- when: one command
  replies:
  - tool_calls: [{name: execute, args: {command: "echo ran >> /workspace/one.txt; echo it ran"}}]
  - text: That is done.
  - text: And on.
- when: a block
  replies:
  - text: "I look.\\n```python\\nprint(6 * 7)\\n```"
  - text: It is 42.
- when: a program
  replies:
  - tool_calls:
    - {name: execute_code, args: {code: "print('{\\"answer\\": \\"It is %d.\\", \\"n\\": 42}' % (6 * 7))"}}
  - text: (made of what it printed)
  - tool_calls: [{name: execute_code, args: {code: "1/0"}}]
  - tool_calls: [{name: execute_code, args: {code: "print(1)"}}]
- when: a long program
  replies:
  - tool_calls: [{name: execute_code, args: {code: "import subprocess; subprocess.run(['sleep', 'MARKER'])"}}]
  - text: I look before I repeat it.
  - text: I look before I repeat it.
- when: no question
  replies:
  - tool_calls:
    - {name: write_file, args: {file_path: /results/free.txt, content: free}}
    - {name: read_file, args: {file_path: /results/free.txt}}
  - text: Done without a question.
- when: a long command
  replies:
  - tool_calls:
    - {name: execute, args: {command: "touch /workspace/began; (setsid sleep MARKER &) ; sleep MARKER"}}
  - text: I look before I repeat it.
- when: a long block
  replies:
  - text: "```bash\\ntouch /workspace/began; sleep MARKER\\n```"
  - text: "```bash\\necho another way\\n```"
  - text: The block was stopped.
- when: who runs
  replies:
  - tool_calls: [{name: execute, args: {command: "pgrep -fc '[s]leep MARKER'"}}]
  - text: Counted.
- when: parts
  replies:
  - tool_calls:
    - {name: task, args: {subagent_type: general-purpose, description: the left}}
    - {name: task, args: {subagent_type: general-purpose, description: the right}}
  - text: Both are done.
- when: the left
  replies:
  - tool_calls: [{name: execute, args: {command: "echo left >> /workspace/left.txt"}}]
  - text: Left.
- when: the right
  replies:
  - tool_calls: [{name: execute, args: {command: "echo right >> /workspace/right.txt"}}]
  - text: Right.
""".replace("MARKER", MARKER)
    + "".join(
        f"- when: task number {number};\n  replies: [{{text: answer {number}}}]\n" for number in range(100)
    )
)

APPROVE: dict[str, Any] = {"decisions": [{"type": "approve"}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with langgraph_dev(tmp_path_factory.mktemp("run"), SCRIPT) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


def run(client: httpx.Client, task: str, **more: Any) -> httpx.Response:
    return client.post("/run", json={"input": task, **more})


def asked(client: httpx.Client, task: str, **more: Any) -> tuple[str, Any]:
    """The thread of a run that asks, and its questions."""
    answer = run(client, task, **more)
    assert answer.status_code == 202, answer.text
    return answer.json()["thread_id"], answer.json()["interrupts"]


def resume(client: httpx.Client, thread: str, body: Any = APPROVE, **options: Any) -> httpx.Response:
    return client.post(f"/run/{thread}/resume", json=body, **options)


def lines(server: Server, name: str) -> int:
    path = server.folder / "workspace" / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_health(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}


def test_a_command_is_asked_about_and_runs_once(server: Server, client: httpx.Client) -> None:
    before = lines(server, "one.txt")
    thread, [question] = asked(client, "one command")
    [request] = question["value"]["action_requests"]
    assert request["name"] == "execute"
    assert "echo ran >> /workspace/one.txt" in request["description"]
    assert lines(server, "one.txt") == before
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
    assert lines(server, "one.txt") == before + 1
    assert run(client, "go on", thread_id=thread).json()["output"] == "And on."


def test_reject_runs_nothing_and_the_model_reads_why(server: Server, client: httpx.Client) -> None:
    before = lines(server, "one.txt")
    thread, _ = asked(client, "one command")
    reject = {"decisions": [{"type": "reject", "message": "use another file"}], "includeSteps": True}
    told = resume(client, thread, reject).json()
    assert told["output"] == "That is done."
    assert "use another file" in told["steps"][0]["result"]
    assert lines(server, "one.txt") == before


def test_what_needs_no_approval_runs_at_once(client: httpx.Client) -> None:
    told = run(client, "no question", includeSteps=True).json()
    assert told["output"] == "Done without a question."
    assert [step.get("name") for step in told["steps"]] == ["write_file", "read_file", None]
    assert "free" in told["steps"][1]["result"]


def test_the_code_agent(client: httpx.Client) -> None:
    thread, [question] = asked(client, "a block", agent="code")
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
    thread, [question] = asked(client, "a program", agent="exec")
    assert question["value"]["action_requests"][0]["name"] == "execute_code"
    told = resume(client, thread, {**APPROVE, "includeSteps": True}).json()
    assert told["status"] == "completed"
    assert told["output"] == 'It is 42.\n\n```json\n{\n  "n": 42\n}\n```'
    step, final = told["steps"]
    assert (step["name"], json.loads(step["result"])["result"]["n"]) == ("execute_code", 42)
    assert final == {"type": "final", "content": told["output"]}

    answer = run(client, "and another", thread_id=thread, includeSteps=True)
    assert answer.status_code == 202
    assert resume(client, thread).status_code == 202, "what mends it is asked about as well"
    told = resume(client, thread, {**APPROVE, "includeSteps": True}).json()
    assert [json.loads(step["result"])["ok"] for step in told["steps"][:-1]] == [False, True]
    assert run(client, "once more", thread_id=thread, agent="deep").status_code == 409


def test_a_client_that_leaves_ends_its_program(client: httpx.Client) -> None:
    thread, _ = asked(client, "a long program", agent="exec")
    with pytest.raises(httpx.ReadTimeout):
        resume(client, thread, timeout=5)
    deadline = time.monotonic() + 30
    while (answer := run(client, "and on", thread_id=thread)).status_code == 409:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert answer.json()["output"] == "I look before I repeat it."


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"decisions": "approve"}', 400),
        (b'{"decisions": []}', 422),
        (b'{"decisions": [{"type": "approve"}, {"type": "approve"}]}', 422),
        (
            b'{"decisions": [{"type": "edit", "edited_action": {"name": "execute", "args": {}}}]}',
            422,
        ),
        (b'{"decisions": {"0": [{"type": "approve"}]}}', 422),
    ],
)
def test_a_wrong_resume_leaves_the_thread_as_it_is(
    server: Server, client: httpx.Client, body: bytes, status: int
) -> None:
    before = lines(server, "one.txt")
    thread, questions = asked(client, "one command")
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"/run/{thread}/resume", content=body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert answer.json().get("interrupts", questions) == questions
    assert lines(server, "one.txt") == before
    assert resume(client, thread).json()["output"] == "That is done."
    assert lines(server, "one.txt") == before + 1


def test_an_unknown_thread_and_one_that_waits_for_nothing(client: httpx.Client) -> None:
    for thread in ("00000000-0000-0000-0000-000000000000", "nothing"):
        assert resume(client, thread).status_code == 404
        assert run(client, "one command", thread_id=thread).status_code == 404
    thread = run(client, "task number 7;").json()["thread_id"]
    assert resume(client, thread).status_code == 409


def test_two_answers_at_once_run_it_once(server: Server, client: httpx.Client) -> None:
    before = lines(server, "one.txt")
    thread, _ = asked(client, "one command")

    async def both() -> list[int]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            path = f"/run/{thread}/resume"
            answers = await asyncio.gather(*(client.post(path, json=APPROVE) for _ in range(5)))
        return sorted(answer.status_code for answer in answers)

    statuses = asyncio.run(both())
    assert statuses.count(200) == 1
    assert set(statuses) == {200, 409}
    assert lines(server, "one.txt") == before + 1


def test_questions_of_subagents_are_answered_one_by_one(server: Server, client: httpx.Client) -> None:
    thread, questions = asked(client, "parts")
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
    assert (lines(server, "left.txt"), lines(server, "right.txt")) == (1, 0)


def running(client: httpx.Client) -> int:
    """How many of the marked processes there are in the sandbox, as a command in it counts them."""
    thread, _ = asked(client, "who runs")
    told = resume(client, thread, {**APPROVE, "includeSteps": True}).json()
    return int(told["steps"][0]["result"].split()[0])


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("task", "agent", "next_words"),
    [
        ("a long command", "deep", "I look before I repeat it."),
        ("a long block", "code", "The block was stopped."),
    ],
)
def test_a_client_that_leaves_stops_the_command_and_the_thread_goes_on(
    server: Server, client: httpx.Client, task: str, agent: str, next_words: str
) -> None:
    began = server.folder / "workspace" / "began"
    began.unlink(missing_ok=True)
    thread, _ = asked(client, task, agent=agent)

    async def leave() -> None:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as leaving:
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
    answer = run(client, "and now?", thread_id=thread)
    while answer.status_code == 202:
        answer = resume(client, thread, {"decisions": [{"type": "reject"}]})
    assert (answer.status_code, answer.json()["output"]) == (200, next_words)


async def test_a_hundred_at_once_share_nothing(server: Server) -> None:
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:
        answers = await asyncio.gather(
            *(client.post("/run", json={"input": f"task number {number};"}) for number in range(100))
        )
    assert [answer.json()["output"] for answer in answers] == [f"answer {number}" for number in range(100)]
    assert len({answer.json()["thread_id"] for answer in answers}) == 100


def test_the_openapi_document_has_the_routes(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/run", "/run/{thread_id}/resume", "/run-lite", "/health"} <= paths.keys()
    told = paths["/run"]["post"]
    assert {"200", "202", "400", "404", "409", "413", "415", "500"} <= told["responses"].keys()
    assert told["requestBody"]["content"]["application/json"]["schema"]["required"] == ["input"]


def test_an_error_of_the_model_is_told_without_a_trace(client: httpx.Client) -> None:
    answer = run(client, "what the script does not know")
    assert answer.status_code == 500
    assert "no conversation fits the task" in answer.json()["error"]
    assert "Traceback" not in answer.text


def test_with_tokens_a_thread_is_its_owners_whichever_route_made_it(tmp_path: Path) -> None:
    (alice, alices), (bob, bobs) = new_token("alice"), new_token("bob")
    with (
        langgraph_dev(tmp_path, SCRIPT, AUTH_TOKENS=f"{alices},{bobs}") as server,
        server.client(alice) as own,
        server.client(bob) as other,
        server.client() as nobody,
    ):
        assert nobody.get("/health").status_code == 200
        for path in ("/run", "/run-lite", "/run/x/resume"):
            assert nobody.post(path, json={"input": "one command"}).status_code == 401
        thread, _ = asked(own, "one command")
        assert resume(other, thread).status_code == 404
        assert run(other, "one command", thread_id=thread).status_code == 404
        told = resume(own, thread).json()
        assert (told["output"], told["status"]) == ("That is done.", "completed")
        assert (tmp_path / "workspace" / "threads" / thread / "one.txt").read_text() == "ran\n"
        assert run(other, "go on", thread_id=thread).status_code == 404, "still, after it went on"


@pytest.mark.parametrize("path", ["/run", "/run-lite", "/run/x/resume"])
def test_no_page_from_elsewhere_is_let_in(client: httpx.Client, path: str) -> None:
    body = {"input": "one command", "decisions": [{"type": "approve"}]}
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        assert client.post(path, json=body, headers=headers).status_code == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = client.post(path, content=json.dumps(body), headers={"Content-Type": kind})
        assert answer.status_code == 415


def test_a_question_outlives_a_kill_and_is_found_by_langgraphs_routes_too(tmp_path: Path) -> None:
    with served(tmp_path, SCRIPT) as server:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            thread, questions = asked(client, "one command")
        server.kill()
        server.start()
        with httpx.Client(base_url=server.url, timeout=60) as client:
            found = client.get(f"/threads/{thread}").json()
            assert (found["status"], found["metadata"]["graph_id"]) == ("interrupted", "deep_agent")
            assert resume(client, thread, {"decisions": []}).json()["interrupts"] == questions
            assert resume(client, thread).json()["output"] == "That is done."
        assert (server.workspace / "one.txt").read_text() == "ran\n"
