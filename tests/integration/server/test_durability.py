"""Kills a server at random moments under load and checks that nothing acknowledged is lost.

A failure names its SERVER_SEED, which repeats the same moments. SERVER_KILLS is the number of kills of the
thorough test, 5 by default; use `SERVER_KILLS=20` for changes of the code that keeps threads.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from tests.servers.served import Served

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1500)]

SEED = os.environ.get("SERVER_SEED") or os.urandom(4).hex()
KILLS = int(os.environ.get("SERVER_KILLS", "5"))
WORKERS = 8
COMMANDS, MESSAGES = 50, 6


def script() -> str:
    """Plain answers for `talk`; for `work`, a command that needs approval comes first."""
    says = [{"text": f"answer {number}"} for number in range(MESSAGES)]
    conversations: list[Any] = [{"when": "talk;", "replies": says}]
    for number in range(COMMANDS):
        command = f"sleep 0.2; echo ran >> /workspace/results/{number}.txt; echo printed-{number}"
        calls = [{"name": "execute", "args": {"command": command}}]
        conversations.append({"when": f"work {number};", "replies": [{"tool_calls": calls}, *says]})
    return yaml.safe_dump({"conversations": conversations})


class Unanswered(Exception):
    """The server was killed before it answered."""


@dataclass
class Thread:
    """A thread, and what the server has acknowledged about it."""

    id: str
    job: int
    made: bool = False
    said: list[str] = field(default_factory=list)
    """Acknowledged messages."""
    result: list[Any] = field(default_factory=list)
    """The messages of the thread after its last run."""
    question: str | None = None
    """The id of the open question."""
    approved: bool = False
    open: bool = False
    """A request was sent and not answered: its effect may be there or not."""
    loose: bool = False
    """A run was started, and no client waits for it."""

    @property
    def command(self) -> int:
        return self.job % COMMANDS

    @property
    def works(self) -> bool:
        return bool(self.said) and self.said[0].startswith("work")


class Load:
    """Workers that begin and continue threads until the server is killed."""

    def __init__(self, server: Served, random: Random) -> None:
        self.server = server
        self.random = random
        self.threads: list[Thread] = []
        self.touched: set[str] = set()
        self.answers = self.begun = 0

    async def work(self) -> None:
        """Work until the server is killed."""
        async with httpx.AsyncClient(base_url=self.server.url, timeout=60) as client:
            with suppress(Unanswered):
                while True:
                    await self.step(client)

    async def step(self, client: httpx.AsyncClient) -> None:
        idle = [
            each for each in self.threads if each.id not in self.touched and len(each.said) < MESSAGES - 1
        ]
        if idle and self.random.random() < 0.5:
            thread = self.random.choice(idle)
        else:
            thread = Thread(str(uuid4()), self.begun)
            self.begun += 1
            self.threads.append(thread)
            made = {"thread_id": thread.id, "metadata": {"job": thread.job, "owner": None}}
            await self.ask(client, thread, "/threads", made)
            thread.made = True
        if thread.question:
            await self.approve(client, thread)
        else:
            await self.say(client, thread)
        if not thread.loose:
            self.touched.discard(thread.id)

    async def say(self, client: httpx.AsyncClient, thread: Thread) -> None:
        kind = "work" if thread.works or (not thread.said and self.random.random() < 0.6) else "talk"
        what = f"work {thread.command}" if kind == "work" else kind
        text = f"{what}; job {thread.job}, message {len(thread.said)}"
        given = {"input": {"messages": [{"role": "user", "content": text}]}}
        await self.run(client, thread, given, lambda: thread.said.append(text))

    async def approve(self, client: httpx.AsyncClient, thread: Thread) -> None:
        def acknowledged() -> None:
            thread.question, thread.approved = None, True

        answer = {"command": {"resume": {"decisions": [{"type": "approve"}]}}}
        await self.run(client, thread, answer, acknowledged)

    async def run(
        self, client: httpx.AsyncClient, thread: Thread, given: Any, acknowledged: Callable[[], None]
    ) -> None:
        """Start a run and wait for its end, through one of the server's routes."""
        body = {"assistant_id": "deep_agent", **given}
        runs = f"/threads/{thread.id}/runs"
        if self.random.random() < 0.7:
            run = await self.ask(client, thread, runs, body)
            acknowledged()
            if self.random.random() < 0.3:
                thread.loose = True
                return  # the thread is checked after the next start
            thread.open = True
            await self.get(client, f"{runs}/{run['run_id']}/join")
        else:
            await self.ask(client, thread, f"{runs}/wait", body)
            acknowledged()
        await self.look(client, thread)
        thread.open = False

    async def look(self, client: httpx.AsyncClient, thread: Thread) -> None:
        state = await self.get(client, f"/threads/{thread.id}/state")
        thread.result = state["values"].get("messages", [])
        thread.question = next((each["id"] for each in state["interrupts"]), None)

    async def ask(self, client: httpx.AsyncClient, thread: Thread, path: str, body: Any) -> Any:
        self.touched.add(thread.id)
        thread.open = True
        answer = await self._answer(client.post(path, json=body))
        thread.open = False
        return answer

    async def get(self, client: httpx.AsyncClient, path: str) -> Any:
        return await self._answer(client.get(path))

    async def _answer(self, asking: Awaitable[httpx.Response]) -> Any:
        try:
            answer = await asking
            told = answer.json()
        except (httpx.TransportError, ValueError):
            raise Unanswered from None
        assert answer.is_success, answer.text
        self.answers += 1
        return told

    # After the start

    async def check(self, threads: list[Thread]) -> None:
        """Check that everything acknowledged is there, once. Waits for runs to end."""
        async with httpx.AsyncClient(base_url=self.server.url, timeout=60) as client:
            for thread in threads:
                found = await client.get(f"/threads/{thread.id}")
                if found.status_code == 404 and not thread.made:
                    self.threads.remove(thread)  # the server was killed before it acknowledged the thread
                    continue
                assert found.is_success, f"{thread}: {found.text}"
                assert found.json()["metadata"]["job"] == thread.job
                if thread.question and not thread.open:  # nothing can have changed since
                    assert found.json()["status"] == "interrupted", f"{thread}: {found.json()}"
                await self._check(client, thread)

    async def _check(self, client: httpx.AsyncClient, thread: Thread) -> None:
        was = Thread(**vars(thread))
        deadline = time.monotonic() + 60
        while (now := (await client.get(f"/threads/{thread.id}")).json())["status"] == "busy":
            assert time.monotonic() < deadline, f"{thread} is still busy: {now}"
            await asyncio.sleep(0.1)
        assert now["status"] in {"idle", "interrupted"}, now
        await self.look(client, thread)
        told = f"\nbefore: {was}\nafter: {thread}"
        said = [each["content"] for each in thread.result if each["type"] == "human"]
        extra = said[len(was.said) :]
        assert said[: len(was.said)] == was.said, told
        assert len(extra) <= was.open, told
        thread.said = said
        kept = [(each["id"], each["content"]) for each in was.result]
        assert [(each["id"], each["content"]) for each in thread.result][: len(kept)] == kept, told
        if was.question and not was.open:
            assert thread.question == was.question, told
        if thread.question is None and thread.works:
            outputs = [each["content"] for each in thread.result if each["type"] == "tool"]
            assert len(outputs) == 1, told
            ran = self.server.workspace / "results" / f"{thread.command}.txt"
            if f"printed-{thread.command}" in outputs[0]:
                assert ran.read_text().startswith("ran\n"), told
            thread.approved = True
        if was.approved:
            assert thread.question is None, told
        if said and not thread.question:
            assert len(thread.result) > len(said), told  # every message has its answer
        assert now["interrupts"] or not thread.question, told
        thread.made, thread.open, thread.loose = True, False, False

    async def finish(self) -> None:
        """Approve every open question, and check that the approved command runs."""
        waiting = [each for each in self.threads if each.question]
        body = {"assistant_id": "deep_agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
        async with httpx.AsyncClient(base_url=self.server.url, timeout=60) as client:
            asked = {"status": "interrupted", "limit": 1000, "select": ["thread_id"]}
            found = (await client.post("/threads/search", json=asked)).json()
            assert {each.id for each in waiting} <= {each["thread_id"] for each in found}
            runs = (client.post(f"/threads/{thread.id}/runs/wait", json=body) for thread in waiting)
            assert all(answer.is_success for answer in await asyncio.gather(*runs))
            for thread in waiting:
                await self.look(client, thread)
                printed = [each["content"] for each in thread.result if each["type"] == "tool"]
                assert thread.question is None
                assert f"printed-{thread.command}" in printed[0]
                thread.approved = True
        await self.check(waiting)


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.thorough)], ids=["one", "many"])
@pytest.mark.thorough
async def test_nothing_acknowledged_is_lost(tmp_path: Path, kills: int) -> None:
    print(f"SERVER_SEED={SEED}")
    random = Random(SEED)  # its own generator: the draws do not depend on the server's speed
    server = Served(tmp_path, script(), APPROVALS="ask", HTTP_RATE="1000000")
    load = Load(server, Random(f"{SEED} load"))
    try:
        for number in range(kills):
            await asyncio.to_thread(server.start)
            await load.check([each for each in load.threads if each.id in load.touched])
            load.touched.clear()
            workers = asyncio.gather(*(load.work() for _ in range(WORKERS)))
            if number == kills - 1:
                async with asyncio.timeout(120):
                    while not workers.done() and (  # noqa: ASYNC110 - the server decides
                        load.answers <= 10 * kills or not any(each.approved for each in load.threads)
                    ):
                        await asyncio.sleep(0.05)
            await asyncio.sleep(random.uniform(0.1, 0.5 if kills == 1 else 4))
            server.kill()
            await workers
        await asyncio.to_thread(server.start)
        await load.check(list(load.threads))
        await load.finish()
    except AssertionError as error:
        raise AssertionError(f"SERVER_SEED={SEED}: {error}\n{server.log()[-5000:]}") from error
    finally:
        server.end()
    print(f"{kills} kills, {load.answers} answers, {len(load.threads)} threads")
    assert load.answers > 10 * kills
    assert any(each.approved for each in load.threads)
    assert "BlockingError" not in server.log()
