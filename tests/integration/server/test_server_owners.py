"""Tests with two owners at one server that no route shows one owner's things to the other."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from agent.settings.token_settings import Token, new_token
from tests.servers.served import Served
from tests.support.owners import ALICE, ALICES, BOB, BOBS

pytestmark = pytest.mark.docker

CANARY = "alices-canary-7d1f"
SCRIPT = f"""\
conversations:
- when: {CANARY}
  replies:
  - text: I shall write a file.
    tool_calls: [{{name: execute, args: {{command: "echo {CANARY} > /workspace/one.txt"}}}}]
  - text: That is done.
- when: of bob
  replies:
  - text: Here I am.
"""
EVE, EVES = new_token("eve")
EXPIRED = Token("eve", EVES.digest, date(2024, 2, 29))
OWNED = {"AUTH_TOKENS": f"{ALICES},{BOBS},{EXPIRED}"}

APPROVE = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
CRON = {
    "assistant_id": "deep_agent",
    "schedule": "0 0 1 1 *",
    "on_run_completed": "keep",
    "input": {"messages": CANARY},
}


class Things(dict[str, str]):
    """Alice's objects: path parameter -> id."""

    def path(self, pattern: str) -> str:
        return pattern.format_map(self)


def task(text: str, **more: Any) -> dict[str, Any]:
    return {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": text}]}, **more}


def made(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def things(alice: httpx.Client) -> Things:
    spoofed = {"owner": "bob", "created_by": "system"}
    assistant = {"graph_id": "deep_agent", "name": CANARY, "metadata": spoofed}
    thread = made(alice.post("/threads", json={"metadata": {"title": CANARY}}))["thread_id"]
    made(alice.post(f"/threads/{thread}/runs/wait", json=task(CANARY)))
    [run] = made(alice.get(f"/threads/{thread}/runs"))
    state = made(alice.get(f"/threads/{thread}/state"))
    assert state["interrupts"]
    item = {"namespace": ["notes"], "key": "one", "value": {"text": CANARY}}
    assert alice.put("/store/items", json=item).status_code == 204
    return Things(
        thread_id=thread,
        run_id=run["run_id"],
        checkpoint_id=state["checkpoint"]["checkpoint_id"],
        assistant_id=made(alice.post("/assistants", json=assistant))["assistant_id"],
        cron_id=made(alice.post("/runs/crons", json=CRON))["cron_id"],
        namespace="x",
        grant_id="0" * 32,
        digest="0" * 64,
    )


def routes(alice: httpx.Client) -> list[tuple[str, str]]:
    """Return every method and path of the server's description."""
    paths = made(alice.get("/openapi.json"))["paths"]
    return [(name.upper(), path) for path, each in paths.items() for name in each if name != "parameters"]


def status_of(http: httpx.Client, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """Return the status, and the answer unless it is a stream."""
    with http.stream(method, path, json=body) as answer:
        kind = answer.headers.get("content-type", "")
        return answer.status_code, "" if kind.startswith("text/event-stream") else answer.read().decode()


def test_nothing_but_health_answers_without_a_token(server: Served, alice: httpx.Client) -> None:
    more = ("docs", "openapi.json", "metrics", "info", "ui/x", "internal/x", "deploy", "nowhere", "app")
    found = routes(alice)
    ids = dict.fromkeys(re.findall(r"{(\w+)}", str(found)), "5f6d5f4c-9f6c-4d0e-8ed5-0f2a2f6fd1c7")
    asked = [*found, *((method, f"/{path}") for path in more for method in ("GET", "POST"))]
    for headers in ({}, {"x_auth_scheme": "langsmith"}, {"authorization": "Bearer nobody"}):
        with server.client(**headers) as http:
            answers = {route: status_of(http, route[0], Things(ids).path(route[1])) for route in asked}
            open_to_all = {route for route, (status, _) in answers.items() if status != 401}
            assert open_to_all == {("GET", "/ok"), ("GET", "/health")}
            assert all("oken" in said for _, (status, said) in answers.items() if status == 401)


def test_expired_token_is_explained(server: Served) -> None:
    with server.client(EVE) as http:
        refused = http.post("/threads/search", json={})
    assert refused.status_code == 401
    assert "expired: its last day was 2024-02-29" in refused.json()["error"]
    assert refused.headers["www-authenticate"] == "Bearer"


def a2a(text: str, *, method: str = "message/send", **more: str) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"kind": "text", "text": text}], "messageId": "1", **more}
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": {"message": message}}


BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/assistants/{assistant_id}"): {"name": "bobs", "metadata": {"owner": "bob"}},
    ("POST", "/assistants/{assistant_id}/versions"): {},
    ("POST", "/assistants/{assistant_id}/latest"): {"version": 1},
    ("POST", "/threads/{thread_id}/state"): {"values": {"messages": []}},
    ("PATCH", "/threads/{thread_id}"): {"metadata": {"owner": "bob"}},
    ("POST", "/threads/{thread_id}/runs"): {**APPROVE, "if_not_exists": "create"},
    ("POST", "/threads/{thread_id}/runs/wait"): APPROVE,
    ("POST", "/threads/{thread_id}/runs/crons"): CRON,
    ("PATCH", "/runs/crons/{cron_id}"): {"enabled": False},
    ("POST", "/run/{thread_id}/resume"): {"decisions": [{"type": "approve"}]},
    ("POST", "/a2a/{assistant_id}"): a2a(CANARY),
    ("POST", "/threads/{thread_id}/commands"): {
        "id": 1,
        "method": "run.start",
        "params": {"assistant_id": "deep_agent", "input": {"messages": []}},
    },
}


def test_no_route_reads_or_changes_things_of_another_owner(
    server: Served, alice: httpx.Client, bob: httpx.Client, things: Things
) -> None:
    thread = things.path("/threads/{thread_id}")
    checkpoint = {"thread_id": things["thread_id"], "checkpoint_id": things["checkpoint_id"]}
    bodies = BODIES | {("POST", "/threads/{thread_id}/state/checkpoint"): {"checkpoint": checkpoint}}
    asked = [route for route in routes(alice) if "{" in route[1] and route != ("POST", "/ui/{graph_id}")]
    assert len(asked) > 30
    assert bodies.keys() <= set(asked)
    answers = {}
    for method, path in asked:
        status, said = status_of(bob, method, things.path(path), bodies.get((method, path)))
        assert CANARY not in said, (method, path)
        if status != 404:
            answers[method, path] = status, said
    # The a2a protocol answers errors with status 200.
    assert [route for route in answers if not route[1].startswith("/a2a/")] == []
    assert all(status == 405 or "error" in json.loads(said) for status, said in answers.values()), answers

    state = made(alice.get(f"{thread}/state"))
    assert state["interrupts"], "the question still waits"
    assert len(made(alice.get(f"{thread}/runs"))) == 1
    assert made(alice.get(things.path("/assistants/{assistant_id}")))["name"] == CANARY
    assert made(alice.get(things.path("/runs/crons/{cron_id}")))["enabled"]
    assert not list(server.folder.glob("workspace/**/one.txt"))


def test_own_thread_in_a_path_gives_no_access_to_others(bob: httpx.Client, things: Things) -> None:
    own = made(bob.post("/threads", json={}))["thread_id"]
    run = things["run_id"]
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/join"), ("POST", "/cancel")]:
        status, said = status_of(bob, method, f"/threads/{own}/runs/{run}{path}")
        assert (status, CANARY in said) in {(404, False), (200, False)}
        assert status == 404 or "not found" in said, (method, path, said)
    checkpoint = {"thread_id": things["thread_id"], "checkpoint_id": things["checkpoint_id"]}
    asked = {"checkpoint": checkpoint}
    for path in ("state/checkpoint", "history", "state"):
        assert CANARY not in bob.post(f"/threads/{own}/{path}", json=asked).text
    assert CANARY not in bob.get(f"/threads/{own}/state/{things['checkpoint_id']}").text
    run_on = task("of bob", config={"configurable": checkpoint}, checkpoint=checkpoint)
    assert CANARY not in bob.post(f"/threads/{own}/runs/wait", json=run_on).text


def test_lists_and_counts_show_no_other_owner(alice: httpx.Client, bob: httpx.Client, things: Things) -> None:
    thread = things["thread_id"]
    for asked in ({}, {"ids": [thread]}, {"metadata": {"owner": "alice"}}, {"metadata": {"title": CANARY}}):
        found = made(bob.post("/threads/search", json=asked | {"limit": 1000}))
        assert thread not in [each["thread_id"] for each in found]
        if "ids" not in asked:  # which a count does not know
            assert made(bob.post("/threads/count", json=asked)) == len(found)
    for asked in ({"name": CANARY}, {"metadata": {"owner": "alice"}}):
        assert made(bob.post("/assistants/search", json=asked)) == []
        assert made(bob.post("/assistants/count", json=asked)) == 0
    assert made(bob.post("/runs/crons/search", json={})) == []
    assert bob.post("/runs/crons/count", json={}).status_code == 422
    assert made(bob.post("/runs/crons/count", json={"metadata": {"owner": "alice"}})) == 0
    assert made(alice.post("/runs/crons/count", json={"metadata": {"owner": "alice"}})) == 1
    assert bob.post("/threads/prune", json={"thread_ids": [thread]}).status_code == 404
    assert bob.post("/runs/cancel", json={"status": "all"}).status_code == 404
    assert bob.post("/threads", json={"thread_id": thread, "if_exists": "do_nothing"}).status_code == 409


def test_each_owner_has_a_store(alice: httpx.Client, bob: httpx.Client, things: Things) -> None:
    found = made(alice.get("/store/items", params={"namespace": "notes", "key": "one"}))
    assert (found["namespace"], found["value"]) == (["alice", "notes"], {"text": CANARY})
    for namespace in ("notes", "alice.notes"):
        assert made(bob.get("/store/items", params={"namespace": namespace, "key": "one"})) is None
    for prefix in ([], ["alice"], ["notes"]):
        assert made(bob.post("/store/items/search", json={"namespace_prefix": prefix}))["items"] == []
        namespaces = made(bob.post("/store/namespaces", json={"prefix": prefix}))["namespaces"]
        assert {each[0] for each in namespaces} <= {"bob"}, "what was looked for is there, and is empty"
    for namespace in (["notes"], ["alice", "notes"]):
        assert bob.request("DELETE", "/store/items", json={"namespace": namespace, "key": "one"}).is_success
        mine = {"namespace": namespace, "key": "one", "value": {"text": "bobs"}}
        assert bob.put("/store/items", json=mine).status_code == 204
    kept = made(alice.post("/store/items/search", json={"namespace_prefix": ["alice"]}))["items"]
    assert [each["value"] for each in kept] == [{"text": CANARY}]
    assert ["alice", "notes"] in made(alice.post("/store/namespaces", json={}))["namespaces"]


def test_owner_of_a_thing_cannot_be_changed(alice: httpx.Client, bob: httpx.Client, things: Things) -> None:
    spoofed = {"metadata": {"owner": "alice"}}
    own = made(bob.post("/threads", json=spoofed))
    assert own["metadata"]["owner"] == "bob"
    path = f"/threads/{own['thread_id']}"
    assert made(bob.patch(path, json=spoofed))["metadata"]["owner"] == "bob"
    run = task("of bob", config=spoofed, **spoofed)
    made(bob.post(f"{path}/runs/wait", json=run))
    new = "/threads/5f6d5f4c-9f6c-4d0e-8ed5-0f2a2f6fd1c8"
    made(bob.post(f"{new}/runs/wait", json=run | {"if_not_exists": "create"}))
    assert {each["metadata"]["owner"] for each in made(bob.post("/threads/search", json={}))} == {"bob"}
    assert alice.get(path).status_code == 404
    copied = made(bob.post(f"{path}/copy"))
    assert copied["metadata"]["owner"] == "bob"
    system = made(bob.post("/assistants/search", json={"graph_id": "deep_agent"}))[0]["assistant_id"]
    for method, body in (("PATCH", {"name": "bobs"}), ("DELETE", None)):
        assert bob.request(method, f"/assistants/{system}", json=body).status_code == 404
    assert made(alice.get(things.path("/assistants/{assistant_id}")))["metadata"] == {"owner": "alice"}


def test_threads_of_run_belong_to_their_owner(server: Served, alice: httpx.Client, bob: httpx.Client) -> None:
    thread = made(alice.post("/run", json={"input": CANARY, "agent": "deep"}))["thread_id"]
    approve = {"decisions": [{"type": "approve"}]}
    deep_agent = made(bob.post("/assistants/search", json={"graph_id": "deep_agent"}))[0]["assistant_id"]
    assert bob.post(f"/run/{thread}/resume", json=approve).status_code == 404
    assert bob.post("/run", json={"input": "of bob", "thread_id": thread}).status_code == 404
    # A thread of the same id, created through LangGraph's routes, shows nothing.
    spoofed = {"thread_id": thread, "if_exists": "do_nothing", "metadata": {"owner": "alice"}}
    bob.post("/threads", json=spoofed)
    run = task("of bob", if_not_exists="create")
    assert CANARY not in bob.post(f"/threads/{thread}/runs/wait", json=run).text
    assert CANARY not in bob.get(f"/threads/{thread}/state").text
    # Nor does a route that names the thread only in its body, and creates missing threads.
    for method in ("message/send", "message/stream"):
        said = a2a("of bob", method=method, contextId=thread)
        assert '"error"' in bob.post(f"/a2a/{deep_agent}", json=said, headers={"accept": "*/*"}).text
    assert bob.post(f"/run/{thread}/resume", json=approve).status_code == 404
    assert bob.get(f"/threads/{thread}").status_code == 404
    assert not (server.folder / "workspace/threads" / thread / "one.txt").exists()
    assert made(alice.get(f"/threads/{thread}"))["status"] == "interrupted", "it is hers, and still waits"
    assert made(alice.post(f"/run/{thread}/resume", json=approve))["status"] == "completed"


def test_routes_without_a_check_are_closed(alice: httpx.Client, things: Things) -> None:
    debug = things.path("/internal/debug/thread/{thread_id}")
    for path in ("/internal/truncate", debug, "/deploy", "/deploy/x/stream"):
        for method in ("GET", "POST"):
            assert alice.request(method, path).status_code == 404
    assert alice.get(things.path("/threads/{thread_id}")).is_success


def test_sockets_are_limited_to_the_owner(server: Served, things: Things) -> None:
    url = server.url.replace("http", "ws") + things.path("/threads/{thread_id}/stream/events")
    for token, status in ((None, 401), ("nobody", 401), (EVE, 401), (BOB, 404)):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with pytest.raises(InvalidStatus) as raised, connect(url, additional_headers=headers):
            pass
        assert raised.value.response.status_code == status
    with connect(url, additional_headers={"Authorization": f"Bearer {ALICE}"}):
        pass


def test_owner_approves_and_files_stay_in_the_threads_workspace(
    server: Served, alice: httpx.Client, things: Things
) -> None:
    """The last test of the file: it answers the question that earlier tests need."""
    thread = things["thread_id"]
    done = made(alice.post(f"/threads/{thread}/runs/wait", json=APPROVE))
    assert done.get("status") == "completed", done
    assert done["messages"][-2]["artifact"]["exit_code"] == 0, done["messages"][-2]
    assert (server.folder / "workspace/threads" / thread / "one.txt").read_text() == f"{CANARY}\n"
    assert not (server.folder / "workspace/one.txt").exists()
