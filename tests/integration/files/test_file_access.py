"""The file routes return nothing outside the workspace, no secret, and nothing of another owner."""

from __future__ import annotations

import base64
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.integration.files.calls import PAGE, is_refused, new_thread, put
from tests.servers.served import Served

pytestmark = pytest.mark.docker

SECRET = "sk-proj-canary-5f2b9c1d7e"
OWNED = {"OPENAI_API_KEY": SECRET}
SCRIPT = """\
conversations:
- when: for all the thread
  replies:
  - tool_calls: [{name: execute, args: {command: "echo once"}}]
  - tool_calls: [{name: execute, args: {command: "echo once"}}]
  - text: That is done.
  - tool_calls: [{name: execute, args: {command: "echo once"}}]
- when: something long
  replies:
  - tool_calls: [{name: execute, args: {command: "sleep 30"}}]
"""


class TestPaths:
    def test_path_outside_the_workspace_is_404(self, get: Any, workspace: Path) -> None:
        (workspace / "page.html").write_text(PAGE)
        for path, status in [
            ("../../etc/passwd", 404),
            ("/workspace/../etc/passwd", 404),
            ("/workspacex", 404),
            ("/skills/web/SKILL.md", 404),
            ("/proc/self/environ", 404),
            ("/workspace/nowhere", 404),
            ("/workspace", 409),
            ("a\0b", 400),
            ("", 400),
            ("x" * 5_000, 400),
            ("/workspace/" + "x" * 300, 400),
        ]:
            is_refused(get("content", path=path), status)
            assert get("content", path=path, view="text").status_code == status
            assert get("table", path=path).status_code == status

    def test_empty_path_of_a_list_is_the_workspace(self, get: Any) -> None:
        named, empty = get("list", path="/workspace"), get("list", path="")
        assert (empty.status_code, empty.json()) == (200, named.json())

    @pytest.mark.parametrize("target", ["/etc", "../../../../etc", "/dev/zero"])
    def test_link_to_outside_is_404(
        self, alice: httpx.Client, get: Any, thread: str, workspace: Path, target: str
    ) -> None:
        link = workspace / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        for path in ("link", "link/passwd", "link/environ"):
            for part in ("content", "table", "pdf", "list"):
                got = get(part, path=path)
                assert got.status_code == 404, (part, path, got.text)
        for path in ("link", "link/made-here"):
            for replace in ("0", "1"):
                assert put(alice, thread, path, b"x", replace=replace).status_code in {403, 404, 409}
        assert link.is_symlink()
        link.unlink()

    def test_fifo_is_refused_at_once(self, get: Any, workspace: Path) -> None:
        os.mkfifo(workspace / "fifo")
        (workspace / "to-fifo").symlink_to("fifo")
        for part in ("content", "table", "pdf"):
            began = time.monotonic()
            for name in ("fifo", "to-fifo"):
                is_refused(get(part, path=name), 422)
            assert time.monotonic() - began < 10

    def test_changing_link_reaches_nothing_outside(self, get: Any, workspace: Path) -> None:
        """The link changes between check and read. The answer is the file in the workspace or an error."""
        (workspace / "mine.txt").write_text("mine")
        going = True

        def change() -> None:
            turn = workspace / "turning.new"
            while going:
                for target in ("mine.txt", "/etc/passwd"):
                    turn.symlink_to(target)
                    turn.rename(workspace / "turning")

        with ThreadPoolExecutor() as pool:
            changing = pool.submit(change)
            try:
                for _ in range(20):
                    for query in ({}, {"view": "text"}):
                        got = get("content", path="turning", **query)
                        assert got.text == "mine" or got.status_code == 404, got.text
            finally:
                going = False
            changing.result()


class TestSecrets:
    def test_no_secret_is_returned(self, get: Any, workspace: Path) -> None:
        (workspace / f"{SECRET}.txt").write_text("x")
        (workspace / "leak.csv").write_text(f"key,x\n{SECRET},{'y' * 990}{SECRET}\n")
        (workspace / "leak.bin").write_bytes(b"\0\xff" + SECRET.encode())
        padding = "z" * (262_144 - 10)
        (workspace / "edge.txt").write_text(padding + SECRET + "z" * 10_000)
        answers = [
            get("list"),
            get("content", path="leak.csv"),
            get("content", path="leak.csv", view="text"),
            get("content", path="leak.bin"),
            get("table", path="leak.csv"),
            get("content", path="edge.txt", view="text"),
        ]
        for each in answers:
            for piece in (SECRET, SECRET[:10], base64.b64encode(SECRET.encode()).decode()):
                assert piece not in each.text, (each.url, each.text[-300:])
        assert "[REDACTED]" in answers[4].text

    def test_upload_with_a_secret_is_refused(self, alice: httpx.Client, thread: str, workspace: Path) -> None:
        for content in (SECRET.encode(), b"\0\xff" + SECRET.encode()):
            is_refused(put(alice, thread, "key.txt", content), 422)
        assert not (workspace / "key.txt").exists()


class TestOwners:
    @pytest.mark.parametrize("form", [str, lambda thread: thread.upper(), lambda thread: UUID(thread).hex])
    def test_files_of_another_owner_are_404(
        self, bob: httpx.Client, alice: httpx.Client, thread: str, workspace: Path, form: Any
    ) -> None:
        (workspace / "mine.txt").write_text("mine")
        name = form(thread)
        assert alice.get(f"/files/{name}/content?path=mine.txt").text == "mine"
        for path in (
            f"/files/{name}/list",
            f"/files/{name}/content?path=mine.txt",
            f"/files/{name}/table?path=mine.txt",
            f"/files/{name}/pdf?path=mine.txt",
            f"/page/threads/{name}/grants",
        ):
            assert bob.get(path).status_code == 404, path
        is_refused(put(bob, name, "bobs.txt", b"x"), 404)
        assert bob.delete(f"/page/threads/{name}/grants/x").status_code == 404
        assert not (workspace / "bobs.txt").exists()

    def test_unknown_thread_is_404_and_has_no_sandbox(self, server: Served, alice: httpx.Client) -> None:
        for name in (str(uuid4()), "nobodys", "..", "%2e%2e", "a%2fb"):
            assert alice.get(f"/files/{name}/list").status_code == 404
        assert not list((server.folder / "workspace" / "threads").glob("*nobodys*"))


class TestGrants:
    def test_grants_are_listed_and_revoked(self, alice: httpx.Client, bob: httpx.Client) -> None:
        path = f"/threads/{new_thread(alice)}"
        ask = {
            "assistant_id": "deep_agent",
            "input": {"messages": [{"role": "user", "content": "for all the thread"}]},
        }
        alice.post(f"{path}/runs/wait", json=ask).raise_for_status()
        grants = f"/page{path}/grants"
        assert alice.get(grants).json() == {"grants": []}
        decision = {"type": "approve", "scope": "command"}
        answered = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [decision]}}}
        after = alice.post(f"{path}/runs/wait", json=answered).raise_for_status().json()
        [grant] = alice.get(grants).json()["grants"]
        assert grant["tool"] == "execute"
        assert "echo once" in grant["shown"]
        assert len(grant["digest"]) == 64
        assert bob.delete(f"{grants}/{grant['id']}").status_code == 404
        is_refused(alice.delete(f"{grants}/none"), 404)
        assert alice.get(grants).json()["grants"] == [grant]
        assert alice.delete(f"{grants}/{grant['id']}").json() == {"grants": []}
        assert alice.get(grants).json() == {"grants": []}
        assert len([step for step in after["messages"] if step["type"] == "tool"]) == 2, (
            "the second command was not asked about"
        )
        again = alice.post(f"{path}/runs/wait", json=ask).json()
        assert "__interrupt__" in again, "the command is asked about again"

    def test_no_owner_of_several_writes_a_rule(self, alice: httpx.Client, server: Served) -> None:
        path = f"/threads/{new_thread(alice)}"
        ask = {
            "assistant_id": "deep_agent",
            "input": {"messages": [{"role": "user", "content": "for all the thread"}]},
        }
        asked = alice.post(f"{path}/runs/wait", json=ask).raise_for_status().json()
        digest = asked["__interrupt__"][0]["value"]["action_requests"][0]["digest"]
        assert alice.get("/page/config").json()["writes_rules"] is False
        rules = f"/page{path}/rules/{digest}"
        is_refused(alice.get(rules), 403)
        is_refused(alice.post(rules, json={"rule": "[[rule]]"}), 403)
        assert not (server.folder / ".code-agent" / "approvals.toml").exists()

    def test_grant_of_a_running_thread_is_not_revoked(self, alice: httpx.Client) -> None:
        thread = new_thread(alice)
        ask = {
            "assistant_id": "deep_agent",
            "input": {"messages": [{"role": "user", "content": "something long"}]},
        }
        alice.post(f"/threads/{thread}/runs/wait", json=ask).raise_for_status()
        approve = {"resume": {"decisions": [{"type": "approve", "scope": "tool"}]}}
        run = alice.post(
            f"/threads/{thread}/runs", json={"assistant_id": "deep_agent", "command": approve}
        ).json()
        deadline = time.monotonic() + 30
        while not (held := alice.get(f"/page/threads/{thread}/grants").json()["grants"]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        is_refused(alice.delete(f"/page/threads/{thread}/grants/{held[0]['id']}"), 409)
        alice.post(f"/threads/{thread}/runs/{run['run_id']}/cancel?wait=1")
        assert alice.delete(f"/page/threads/{thread}/grants/{held[0]['id']}").json() == {"grants": []}
