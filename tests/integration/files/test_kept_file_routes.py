"""Files as they were before and after a turn, and copies of threads, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import yaml

from tests.integration.files.calls import is_refused, new_thread
from tests.servers.served import Served
from tests.support.owners import ALICE
from tests.support.small_files import png

pytestmark = pytest.mark.docker

KEY = "sk-known-to-this-server-0123456789"
OWNED = {"APPROVALS": "auto", "OPENAI_API_KEY": KEY}
PICTURE = "".join(f"\\x{byte:02x}" for byte in png())
MAKES = [
    "echo one > /results/a",
    "echo going > /results/gone",
    "ln -s a /results/link",
    f"printf '{PICTURE}' > /results/dot.png",
    "head -c 300000 /dev/zero | tr '\\0' x > /results/long",
]
SPOILS = ["echo two > /results/a", "rm /results/gone", f"printf '%s%s' {KEY[:9]} {KEY[9:]} > /results/key"]


def _reply(commands: list[str]) -> dict[str, Any]:
    return {"tool_calls": [{"name": "execute", "args": {"command": "; ".join(commands)}}]}


SCRIPT = yaml.safe_dump(
    [_reply(MAKES), {"text": "First."}, _reply(SPOILS), {"text": "Second."}], width=10_000
)


@pytest.fixture(scope="module")
def thread(alice: httpx.Client) -> str:
    """A thread of alice with two turns."""
    made = alice.post("/threads", json={"metadata": {"graph_id": "deep_agent"}}).json()["thread_id"]
    for words in ("make files", "spoil files"):
        message = {"messages": [{"role": "user", "content": words}]}
        run = {"assistant_id": "deep_agent", "input": message}
        ended = alice.post(f"/threads/{made}/runs/wait", json=run).raise_for_status().json()
        assert ended["messages"][-2]["artifact"]["exit_code"] == 0, ended["messages"][-2]
    return str(made)


@pytest.fixture
def kept(alice: httpx.Client, thread: str) -> Any:
    def kept(path: str, turn: int, **query: Any) -> httpx.Response:
        return alice.get(f"/files/{thread}/content", params={"path": path, "turn": turn, **query})

    return kept


def test_file_is_read_as_it_was_before_and_after_a_turn(kept: Any) -> None:
    assert kept("/results/a", 1).content == b"one\n"
    assert kept("/workspace/results/a", 2, view="text").text == "two\n"
    assert kept("results/a", 2, moment="before").text == "one\n"
    assert kept("/results/gone", 2, moment="before").text == "going\n", "the turn deleted this file"
    picture = kept("/results/dot.png", 1, view="image")
    assert (picture.headers["content-type"], picture.content) == ("image/png", png())
    assert picture.headers["content-security-policy"] == "sandbox; default-src 'none'"
    long = kept("/results/long", 1, view="text")
    assert (long.headers["x-truncated"], len(long.text)) == ("1", 262_144)


def test_turns_name_the_messages_of_the_person(alice: httpx.Client, thread: str) -> None:
    messages = alice.get(f"/threads/{thread}/state").json()["values"]["messages"]
    turns = alice.get(f"/page/threads/{thread}/turns").json()["turns"]
    asked = [[each["id"]] for each in messages if each["type"] == "human"]
    assert [turn["messages"] for turn in turns] == [[], *asked]


def test_thread_without_a_run_has_no_turns(alice: httpx.Client) -> None:
    thread = new_thread(alice)
    turns = alice.get(f"/page/threads/{thread}/turns")
    assert (turns.status_code, turns.json()["turns"]) == (200, [])


def test_known_secret_is_removed_from_a_kept_file(kept: Any) -> None:
    assert kept("/results/key", 2).text == "[REDACTED]"


def test_what_cannot_be_read_is_refused(kept: Any) -> None:
    is_refused(kept("/results/gone", 2), 404)
    is_refused(kept("/results/a", 0), 404)
    is_refused(kept("/etc/passwd", 1), 404)
    is_refused(kept("/results", 1), 409)
    is_refused(kept("/results/link", 1), 422)
    is_refused(kept("/results/a", 9), 400)
    is_refused(kept("/results/a", -1), 400)


@pytest.mark.thorough
def test_copy_belongs_to_its_owner_and_has_the_files_of_its_turn(
    alice: httpx.Client, bob: httpx.Client, server: Served, thread: str
) -> None:
    copy = alice.post(f"/page/threads/{thread}/fork", json={"at": 1}).raise_for_status().json()["thread_id"]
    assert alice.get(f"/files/{copy}/content", params={"path": "/results/a"}).text == "one\n"
    server.kill()
    server.start()
    for http, status in ((alice, 200), (bob, 404)):
        assert http.get(f"/threads/{copy}/state").status_code == status
        assert http.get(f"/page/threads/{copy}/turns").status_code == status
    words = [turn["words"] for turn in alice.get(f"/page/threads/{copy}/turns").json()["turns"]]
    assert words == ["", "make files"]
    went_on = {"input": "go on", "thread_id": copy}
    assert bob.post("/run", json=went_on).status_code == 404
    assert alice.post("/run", json=went_on).json()["output"] == "Second."
    with server.client(ALICE) as http:
        found = http.post("/threads/search", json={"ids": [copy]}).json()
    assert [each["metadata"]["graph_id"] for each in found] == ["deep_agent"]


def test_removed_content_is_gone(server: Served, kept: Any) -> None:
    assert kept("/results/a", 1).is_success
    for content in (server.folder / ".code-agent").rglob("*"):
        if content.is_file() and content.parent.parent.name == "contents":
            content.unlink()
    is_refused(kept("/results/a", 1), 410)
