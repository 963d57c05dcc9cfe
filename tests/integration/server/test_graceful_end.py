"""Ends a server by SIGTERM or a reload while commands run: no command runs twice, and no run is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from tests.servers.served import Served
from tests.support.owners import ALICE, ALICES, BOB, BOBS
from tests.support.sandboxes import NEW_SANDBOX
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600), pytest.mark.thorough]

Clients = Callable[[Served], SyncLangGraphClient]
APPROVE = {"resume": {"decisions": [{"type": "approve", "scope": "tool"}]}}
PROGRAMS = [
    f"echo {name} >> /workspace/ran; echo 'print({name} * 7)' > /scripts/p{name}.py; "
    f"sleep 2; python3 /scripts/p{name}.py"
    for name in (1, 2)
]
"""Commands, each of which causes a reload."""
CUT_OFF = "The program or the sandbox ended while this call was running."


def script(**commands: list[str]) -> str:
    """Play the commands of a task one after the other, then say `Finished.`"""
    conversations = [
        {
            "when": f"task {name}.",
            "replies": [
                *({"tool_calls": [{"name": "execute", "args": {"command": each}}]} for each in given),
                {"text": "Finished."},
            ],
        }
        for name, given in commands.items()
    ]
    return yaml.safe_dump({"conversations": conversations})


def delegating(script: str, name: str) -> str:
    """Add `task outer.`: a subagent carries out the task `name`."""
    call = {"name": "task", "args": {"subagent_type": "general-purpose", "description": f"task {name}."}}
    given = yaml.safe_load(script)
    given["conversations"].append(
        {"when": "task outer.", "replies": [{"tool_calls": [call]}, {"text": "Finished."}]}
    )
    return yaml.safe_dump(given)


def task(name: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"task {name}."}]}


def outputs(state: Any) -> list[str]:
    return [str(each["content"]) for each in state["values"]["messages"] if each["type"] == "tool"]


@pytest.fixture
def clients() -> Iterator[Clients]:
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(get_sync_client(url=server.url))


def succeeded(client: SyncLangGraphClient, thread: str, run: str) -> Callable[[], bool]:
    def look() -> bool:
        try:
            return client.runs.get(thread, run)["status"] == "success"
        except httpx.HTTPError:  # the server starts anew
            return False

    return look


def began(server: Served, name: str) -> Callable[[], bool]:
    return (server.workspace / name).exists


def test_reload_by_a_written_program_loses_and_repeats_nothing(tmp_path: Path, clients: Clients) -> None:
    server = Served(tmp_path, script(programs=PROGRAMS[:1]), APPROVALS="ask")
    server.reloads = True
    try:
        server.start()
        client = clients(server)
        thread = client.threads.create()["thread_id"]
        client.runs.wait(thread, "deep_agent", input=task("programs"))
        parts = client.runs.stream(
            thread, "deep_agent", command=APPROVE, stream_mode="values", stream_resumable=True
        )
        *_, last = parts  # the client connects again after the reload
        assert last.data["messages"][-1]["content"] == "Finished."
        state = client.threads.get_state(thread)
        assert [each.split("\n")[0] for each in outputs(state)] == ["7"]
        assert (server.workspace / "ran").read_text() == "1\n"
        assert [each["status"] for each in client.runs.list(thread)] == ["success", "success"]
        assert server.log().count("Application started up") > 1, server.log()
        assert "langgraph dev --no-reload" in server.log().partition("Starting In-Memory runtime")[0]
    finally:
        server.end()


def test_run_request_is_continued_after_a_reload(tmp_path: Path) -> None:
    server = Served(tmp_path, script(programs=PROGRAMS), APPROVALS="ask", AUTH_TOKENS=f"{ALICES},{BOBS}")
    server.reloads = True
    try:
        server.start()
        with (
            server.client(ALICE) as http,
            server.client(BOB) as other,
            get_sync_client(url=server.url, api_key=ALICE) as client,
        ):
            asked = http.post("/run", json={"input": "task programs."})
            assert asked.status_code == 202, asked.text
            thread = asked.json()["thread_id"]
            answer = http.post(f"/run/{thread}/resume", json=APPROVE["resume"])
            assert answer.status_code == 503, answer.text
            run, join = answer.json()["run_id"], f"/threads/{thread}/runs/{answer.json()['run_id']}/join"
            assert answer.json()["thread_id"] == thread
            assert answer.json()["error"].endswith(f"GET {join} waits for the end of the run.")
            eventually(succeeded(client, thread, run), 180)
            state = client.threads.get_state(thread)
            first, second = outputs(state)
            assert first.startswith("7\n")
            assert second.startswith(f"{NEW_SANDBOX}14\n")
            assert (server.workspace / "threads" / thread / "ran").read_text() == "1\n2\n"
            assert http.get(join).json()["messages"][-1]["content"] == "Finished."
            assert other.get(join).status_code == 404
            assert other.post("/run", json={"input": "x", "thread_id": thread}).status_code == 404
    finally:
        server.end()


def test_reload_during_a_command_over_the_limit(tmp_path: Path, clients: Clients) -> None:
    """The program that causes the reload is written by a command that does not end in time."""
    waiting = "echo x >> /workspace/direct; sleep 500"
    writing = (
        "echo x >> /workspace/queued; until [ -e /workspace/direct ]; do sleep 0.1; done; "
        "echo 'print(1)' > /scripts/p.py; sleep 500"
    )
    server = Served(
        tmp_path,
        script(queued=[writing], direct=[waiting]),
        APPROVALS="auto",
        SHUTDOWN_SECONDS="2",
        SANDBOX_TIMEOUT="600",
    )
    server.reloads = True
    try:
        server.start()
        client = clients(server)
        queued = client.threads.create()["thread_id"]
        run = client.runs.create(queued, "deep_agent", input=task("queued"))["run_id"]
        answer = httpx.post(f"{server.url}/run", json={"input": "task direct."}, timeout=120)
        assert answer.status_code == 503, answer.text
        direct = answer.json()
        for thread, each in ((queued, run), (direct["thread_id"], direct["run_id"])):
            eventually(succeeded(client, thread, each), 180)
            state = client.threads.get_state(thread)
            [told] = outputs(state)
            assert told.startswith(CUT_OFF), told
            assert state["values"]["messages"][-1]["content"] == "Finished."
        for name in ("queued", "direct"):
            assert (server.workspace / name).read_text() == "x\n"
        assert "Steps stopped before their end: 2." in server.log()
        assert server.log().count("Application started up") > 1, server.log()
    finally:
        server.end()


def test_sigterm_waits_for_the_running_step(tmp_path: Path, clients: Clients) -> None:
    slow = [
        "echo x >> /workspace/{0}; until [ -e /workspace/go ]; do sleep 0.1; done; echo waited",
        "echo y >> /workspace/{0}; echo second",
    ]
    commands = {name: [each.format(name) for each in slow] for name in ("queued", "direct", "loose", "inner")}
    server = Served(tmp_path, delegating(script(**commands), "inner"), APPROVALS="auto")

    def release() -> None:
        """Let the commands end when the server waits for them."""
        eventually(lambda: "SHUTDOWN_SECONDS" in server.log())
        (server.workspace / "go").touch()

    try:
        server.start()
        client = clients(server)
        thread = client.threads.create()["thread_id"]
        client.runs.create(thread, "deep_agent", input=task("queued"))
        client.runs.create(None, "deep_agent", input=task("loose"))
        outer = client.threads.create()["thread_id"]
        client.runs.create(outer, "deep_agent", input=task("outer"))
        with ThreadPoolExecutor(2) as pool:
            asking = pool.submit(httpx.post, f"{server.url}/run", json={"input": "task direct."}, timeout=120)
            for name in commands:
                eventually(began(server, name))
            releasing = pool.submit(release)
            server.end()
            releasing.result()
            answer = asking.result()
        assert "Steps stopped" not in server.log()
        assert answer.status_code == 503, answer.text
        direct, continued = answer.json()["thread_id"], answer.json()["run_id"]
        for name, ran in {"queued": "x\n", "inner": "x\n", "direct": "x\n", "loose": "x\ny\n"}.items():
            assert (server.workspace / name).read_text() == ran

        server.start()
        for each in (thread, outer, direct):
            client.runs.join(each, client.runs.list(each)[0]["run_id"])
        assert [each["run_id"] for each in client.runs.list(direct)] == [continued]
        for found in (thread, direct):
            state = client.threads.get_state(found)
            waited, second = outputs(state)
            assert waited.startswith("waited\n")
            assert second.startswith(f"{NEW_SANDBOX}second\n")
            assert state["values"]["status"] == "completed"
        assert outputs(client.threads.get_state(outer)) == ["Finished."]
        for name in commands:
            assert (server.workspace / name).read_text() == "x\ny\n"
    finally:
        server.end()


@pytest.mark.parametrize("twice", [False, True], ids=["over the limit", "second signal"])
def test_step_that_is_cut_off_is_reported_and_not_repeated(
    tmp_path: Path, clients: Clients, *, twice: bool
) -> None:
    command = "echo x >> /workspace/{0}; sleep 500"
    server = Served(
        tmp_path,
        script(queued=[command.format("queued")], loose=[command.format("loose")]),
        APPROVALS="auto",
        SHUTDOWN_SECONDS="3600" if twice else "1",
        SANDBOX_TIMEOUT="600",
    )
    try:
        server.start()
        client = clients(server)
        thread = client.threads.create()["thread_id"]
        run = client.runs.create(thread, "deep_agent", input=task("queued"))
        client.runs.create(None, "deep_agent", input=task("loose"))
        for name in ("queued", "loose"):
            eventually(began(server, name))
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        if twice:
            eventually(lambda: "SHUTDOWN_SECONDS" in server.log())
            time.sleep(1.5)  # a signal within a second belongs to the first one
            server.process.send_signal(signal.SIGTERM)
        server.end()
        assert "Steps stopped before their end: 2." in server.log()

        server.start()
        client.runs.join(thread, run["run_id"])
        state = client.threads.get_state(thread)
        [told] = outputs(state)
        assert told.startswith(CUT_OFF), told
        assert state["values"]["messages"][-1]["content"] == "Finished."
        for name in ("queued", "loose"):
            assert (server.workspace / name).read_text() == "x\n"
        assert "has no thread and was cut off: it is not repeated" in server.log()
    finally:
        server.end()
