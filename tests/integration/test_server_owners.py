"""Two owners at one server, over HTTP: nothing of the one is there for the other, whatever the route (V3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import httpx
import pytest
from langgraph_server import Server, langgraph_dev
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from agent.tokens import Token, new_token

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
ALICE, ALICES = new_token("alice")
BOB, BOBS = new_token("bob")
EVE, EVES = new_token("eve")
EXPIRED = Token("eve", EVES.digest, date(2024, 2, 29))

APPROVE = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
CRON = {"assistant_id": "deep_agent", "schedule": "0 0 1 1 *", "input": {"messages": CANARY}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = ",".join(map(str, (ALICES, BOBS, EXPIRED)))
    with langgraph_dev(tmp_path_factory.mktemp("owned"), SCRIPT, AUTH_TOKENS=tokens) as server:
        yield server


@pytest.fixture(scope="module")
def alice(server: Server) -> Iterator[httpx.Client]:
    with server.client(ALICE) as http:
        yield http


@pytest.fixture(scope="module")
def bob(server: Server) -> Iterator[httpx.Client]:
    with server.client(BOB) as http:
        yield http


@dataclass
class Things:
    """What is Alice's, by the names that paths have for it."""

    ids: dict[str, str]

    def path(self, pattern: str) -> str:
        return re.sub(r"{(\w+)}", lambda match: self.ids[match[1]], pattern)


def made(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def things(alice: httpx.Client) -> Things:
    assistant = {
        "graph_id": "deep_agent",
        "name": CANARY,
        "metadata": {"owner": "bob", "created_by": "system"},
    }
    thread = made(alice.post("/threads", json={"metadata": {"title": CANARY}}))["thread_id"]
    asked = {"assistant_id": "deep_agent", "input": {"messages": [{"role": "user", "content": CANARY}]}}
    made(alice.post(f"/threads/{thread}/runs/wait", json=asked))
    [run] = made(alice.get(f"/threads/{thread}/runs"))
    state = made(alice.get(f"/threads/{thread}/state"))
    assert state["interrupts"]
    item = {"namespace": ["notes"], "key": "one", "value": {"text": CANARY}}
    assert alice.put("/store/items", json=item).status_code == 204
    return Things(
        {
            "thread_id": thread,
            "run_id": run["run_id"],
            "checkpoint_id": state["checkpoint"]["checkpoint_id"],
            "assistant_id": made(alice.post("/assistants", json=assistant))["assistant_id"],
            "cron_id": made(alice.post("/runs/crons", json=CRON))["cron_id"],
            "namespace": "x",
            "grant_id": "0" * 32,
        }
    )


def routes(server: Server) -> list[tuple[str, str]]:
    """Every method and path that the server's own description has."""
    with server.client(ALICE) as http:
        paths = made(http.get("/openapi.json"))["paths"]
    methods = ("get", "post", "put", "patch", "delete")
    return [(name.upper(), path) for path, each in paths.items() for name in each if name in methods]


def status_of(http: httpx.Client, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """The status, and the answer if it is no stream."""
    with http.stream(method, path, json=body) as answer:
        kind = answer.headers.get("content-type", "")
        return answer.status_code, "" if kind.startswith("text/event-stream") else answer.read().decode()


# without a token


def test_nothing_but_health_answers_without_a_token(server: Server) -> None:
    more = [
        "/docs",
        "/openapi.json",
        "/metrics",
        "/info",
        "/ui/x",
        "/internal/truncate",
        "/deploy",
        "/nowhere",
        "/",
    ]
    ids = dict.fromkeys(re.findall(r"{(\w+)}", str(routes(server))), "5f6d5f4c-9f6c-4d0e-8ed5-0f2a2f6fd1c7")
    asked = [*routes(server), *(("GET", path) for path in more), *(("POST", path) for path in more)]
    for headers in ({}, {"x_auth_scheme": "langsmith"}, {"authorization": "Bearer nobody"}):
        with server.client(**headers) as http:
            open_to_all = set()
            for method, path in asked:
                status, said = status_of(http, method, Things(ids).path(path))
                if status != 401:
                    open_to_all.add((method, path, status))
                else:
                    assert "oken" in json.loads(said)["error"]
            assert open_to_all == {("GET", "/ok", 200), ("GET", "/health", 200)}


def test_a_token_that_has_expired_says_so(server: Server) -> None:
    with server.client(EVE) as http:
        refused = http.post("/threads/search", json={})
    assert refused.status_code == 401
    assert "expired: its last day was 2024-02-29" in refused.json()["error"]
    assert refused.headers["www-authenticate"] == "Bearer"


def test_a_client_of_langgraph_may_send_it_as_its_key(server: Server, things: Things) -> None:
    with server.client(x_api_key=ALICE) as http:
        assert made(http.get(things.path("/threads/{thread_id}")))["thread_id"] == things.ids["thread_id"]


# the other's things

BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/assistants/{assistant_id}"): {"name": "bobs", "metadata": {"owner": "bob"}},
    ("POST", "/assistants/{assistant_id}/versions"): {},
    ("POST", "/assistants/{assistant_id}/latest"): {"version": 1},
    ("POST", "/threads/{thread_id}/state"): {"values": {"messages": []}},
    ("POST", "/threads/{thread_id}/history"): {},
    ("PATCH", "/threads/{thread_id}"): {"metadata": {"owner": "bob"}},
    ("POST", "/threads/{thread_id}/stream/events"): {"channels": ["values"]},
    ("POST", "/threads/{thread_id}/runs"): {**APPROVE, "if_not_exists": "create"},
    ("POST", "/threads/{thread_id}/runs/stream"): APPROVE,
    ("POST", "/threads/{thread_id}/runs/wait"): APPROVE,
    ("POST", "/threads/{thread_id}/runs/crons"): CRON,
    ("PATCH", "/runs/crons/{cron_id}"): {"enabled": False},
    ("POST", "/run/{thread_id}/resume"): {"decisions": [{"type": "approve"}]},
    ("POST", "/a2a/{assistant_id}"): {
        "jsonrpc": "2.0",
        "id": "1",
        "method": "message/send",
        "params": {
            "message": {"role": "user", "parts": [{"kind": "text", "text": CANARY}], "messageId": "1"}
        },
    },
    ("POST", "/threads/{thread_id}/commands"): {
        "id": 1,
        "method": "run.start",
        "params": {"assistant_id": "deep_agent", "input": {"messages": []}},
    },
}


def test_no_route_gives_or_changes_what_is_anothers(
    server: Server, alice: httpx.Client, bob: httpx.Client, things: Things
) -> None:
    thread = things.path("/threads/{thread_id}")
    checkpoint = {"thread_id": things.ids["thread_id"], "checkpoint_id": things.ids["checkpoint_id"]}
    bodies = BODIES | {("POST", "/threads/{thread_id}/state/checkpoint"): {"checkpoint": checkpoint}}
    asked = [route for route in routes(server) if "{" in route[1] and route != ("POST", "/ui/{graph_id}")]
    assert len(asked) > 30
    assert bodies.keys() <= set(asked)
    answers = {}
    for method, path in asked:
        status, said = status_of(bob, method, things.path(path), bodies.get((method, path)))
        assert CANARY not in said, (method, path)
        if status != 404:
            answers[method, path] = status, said
    # The protocol puts its errors into answers that are well.
    assert [route for route in answers if not route[1].startswith("/a2a/")] == []
    assert all(status == 405 or "error" in json.loads(said) for status, said in answers.values()), answers

    state = made(alice.get(f"{thread}/state"))
    assert state["interrupts"], "the question still waits"
    assert len(made(alice.get(f"{thread}/runs"))) == 1
    assert made(alice.get(things.path("/assistants/{assistant_id}")))["name"] == CANARY
    assert made(alice.get(things.path("/runs/crons/{cron_id}")))["enabled"]
    assert not list(server.folder.glob("workspace/**/one.txt"))


def test_a_path_with_ones_own_thread_leads_to_no_other(bob: httpx.Client, things: Things) -> None:
    own = made(bob.post("/threads", json={}))["thread_id"]
    run = things.ids["run_id"]
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/join"), ("POST", "/cancel")]:
        status, said = status_of(bob, method, f"/threads/{own}/runs/{run}{path}")
        assert (status, CANARY in said) in {(404, False), (200, False)}
        assert status == 404 or "not found" in said, (method, path, said)
    checkpoint = {"thread_id": things.ids["thread_id"], "checkpoint_id": things.ids["checkpoint_id"]}
    asked = {"checkpoint": checkpoint}
    for path in ("state/checkpoint", "history", "state"):
        assert CANARY not in bob.post(f"/threads/{own}/{path}", json=asked).text
    assert CANARY not in bob.get(f"/threads/{own}/state/{things.ids['checkpoint_id']}").text
    config = {"configurable": checkpoint}
    given = {"messages": [{"role": "user", "content": "of bob"}]}
    run_on = {"assistant_id": "deep_agent", "input": given, "config": config, "checkpoint": checkpoint}
    assert CANARY not in bob.post(f"/threads/{own}/runs/wait", json=run_on).text


def test_lists_and_counts_know_nothing_of_others(
    alice: httpx.Client, bob: httpx.Client, things: Things
) -> None:
    thread = things.ids["thread_id"]
    for asked in ({}, {"ids": [thread]}, {"metadata": {"owner": "alice"}}, {"metadata": {"title": CANARY}}):
        found = made(bob.post("/threads/search", json=asked | {"limit": 1000}))
        assert thread not in [each["thread_id"] for each in found]
        if "ids" not in asked:  # which a count does not know
            assert made(bob.post("/threads/count", json=asked)) == len(found)
    graphs = {"deep_agent", "code_agent"}
    assert {each["name"] for each in made(bob.post("/assistants/search", json={}))} >= graphs
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
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"accept": "application/json, text/event-stream"}
    tools = bob.post("/mcp", json=listed, headers=accept)
    assert CANARY not in tools.text
    assert "deep_agent" in tools.text


def test_the_store_is_parted(alice: httpx.Client, bob: httpx.Client, things: Things) -> None:
    found = made(alice.get("/store/items", params={"namespace": "notes", "key": "one"}))
    assert (found["namespace"], found["value"]) == (["alice", "notes"], {"text": CANARY})
    for namespace in ("notes", "alice.notes", "bob.alice.notes"):
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


def test_nobody_gives_away_or_takes(alice: httpx.Client, bob: httpx.Client, things: Things) -> None:
    spoofed = {"metadata": {"owner": "alice"}}
    own = made(bob.post("/threads", json=spoofed))
    assert own["metadata"]["owner"] == "bob"
    path = f"/threads/{own['thread_id']}"
    assert made(bob.patch(path, json=spoofed))["metadata"]["owner"] == "bob"
    given = {"messages": [{"role": "user", "content": "of bob"}]}
    run = {"assistant_id": "deep_agent", "input": given, "config": spoofed} | spoofed
    made(bob.post(f"{path}/runs/wait", json=run))
    made(
        bob.post(
            "/threads/5f6d5f4c-9f6c-4d0e-8ed5-0f2a2f6fd1c8/runs/wait", json=run | {"if_not_exists": "create"}
        )
    )
    assert {each["metadata"]["owner"] for each in made(bob.post("/threads/search", json={}))} == {"bob"}
    assert alice.get(path).status_code == 404
    copied = made(bob.post(f"{path}/copy"))
    assert copied["metadata"]["owner"] == "bob"
    system = made(bob.post("/assistants/search", json={"graph_id": "deep_agent"}))[0]["assistant_id"]
    for method, body in (("PATCH", {"name": "bobs"}), ("DELETE", None)):
        assert bob.request(method, f"/assistants/{system}", json=body).status_code == 404
    assert made(alice.get(things.path("/assistants/{assistant_id}")))["metadata"] == {"owner": "alice"}


def test_threads_of_run_have_owners(server: Server, alice: httpx.Client, bob: httpx.Client) -> None:
    asked = alice.post("/run", json={"input": CANARY, "agent": "deep"})
    assert asked.status_code == 202, asked.text
    thread = asked.json()["thread_id"]
    approve = {"decisions": [{"type": "approve"}]}
    deep_agent = made(bob.post("/assistants/search", json={"graph_id": "deep_agent"}))[0]["assistant_id"]
    for http, more in ((bob, {}), (bob, {"metadata": {"owner": "alice"}})):
        assert http.post(f"/run/{thread}/resume", json=approve).status_code == 404
        assert http.post("/run", json={"input": "of bob", "thread_id": thread}).status_code == 404
        # Whoever takes its id by LangGraph's routes finds nothing.
        http.post("/threads", json={"thread_id": thread, "if_exists": "do_nothing"} | more)
        given = {"messages": [{"role": "user", "content": "of bob"}]}
        run = {"assistant_id": "deep_agent", "input": given, "if_not_exists": "create"}
        assert CANARY not in http.post(f"/threads/{thread}/runs/wait", json=run).text
        assert CANARY not in http.get(f"/threads/{thread}/state").text
        assert http.post(f"/run/{thread}/resume", json=approve).status_code == 404
        # Nor is it taken by a route that names it in the body alone, and makes what it does not find.
        parts = [{"kind": "text", "text": "of bob"}]
        message = {"role": "user", "parts": parts, "messageId": "1"}
        params = {"message": message | {"contextId": thread}}
        said = {"jsonrpc": "2.0", "id": "1", "params": params}
        for method in ("message/send", "message/stream"):
            taken = http.post(
                f"/a2a/{deep_agent}", json={**said, "method": method}, headers={"accept": "*/*"}
            )
            assert '"error"' in taken.text, taken.text
        assert http.get(f"/threads/{thread}").status_code == 404
    assert not (server.folder / "workspace/threads" / thread / "one.txt").exists()
    assert made(alice.get(f"/threads/{thread}"))["status"] == "interrupted", "it is hers, and still waits"
    done = alice.post(f"/run/{thread}/resume", json=approve)
    assert (done.status_code, done.json()["status"]) == (200, "completed")


def test_routes_without_a_check_are_closed(alice: httpx.Client, bob: httpx.Client, things: Things) -> None:
    for http in (alice, bob):
        for method, path in [
            ("POST", "/internal/truncate"),
            ("GET", things.path("/internal/debug/thread/{thread_id}")),
            ("GET", "/deploy"),
            ("POST", "/deploy"),
            ("GET", "/deploy/x/stream"),
        ]:
            assert http.request(method, path).status_code == 404
    assert alice.get(things.path("/threads/{thread_id}")).is_success


def test_sockets_have_owners_too(server: Server, things: Things) -> None:
    url = server.url.replace("http", "ws") + things.path("/threads/{thread_id}/stream/events")
    for token, status in ((None, 401), ("nobody", 401), (EVE, 401), (BOB, 404)):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with pytest.raises(InvalidStatus) as raised, connect(url, additional_headers=headers):
            pass
        assert raised.value.response.status_code == status
    with connect(url, additional_headers={"Authorization": f"Bearer {ALICE}"}) as socket:
        socket.send(json.dumps({"id": 1, "method": "no.such"}))
        assert json.loads(socket.recv(10))["id"] == 1


def test_the_owner_approves_and_the_files_are_the_threads(
    server: Server, alice: httpx.Client, things: Things
) -> None:
    """Last: it answers the question that the tests before have left alone."""
    thread = things.ids["thread_id"]
    done = made(alice.post(f"/threads/{thread}/runs/wait", json=APPROVE))
    assert done.get("status") == "completed", done
    assert done["messages"][-2]["artifact"]["exit_code"] == 0, done["messages"][-2]
    assert (server.folder / "workspace/threads" / thread / "one.txt").read_text() == f"{CANARY}\n"
    assert not (server.folder / "workspace/one.txt").exists()
