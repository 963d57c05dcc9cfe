"""A server whose threads work on a cluster until it is killed: `python -m tests.load.cluster_server`.

Argument: JSON with `settings`, the `name` of the server, its `threads`, a `seed`, the `kinds` of steps, the
`pause` after each, and `again`: for each thread the step that an earlier server had not answered, which is
asked again with the same key. The program prints a JSON line for each event: thread, event, token of the
step, a detail. At the end of its input, the steps under way end, and the sandboxes are closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from random import Random
from typing import Any

from langchain_core.runnables import RunnableLambda

from agent.config import build_backend, load_settings
from agent.parts import captures_of
from libs.backends.docker import DockerExecutionBackend
from tests.load.crowd import is_typed
from tests.load.journals import command_of, kind_of, new_token

_AFTER_ERROR = 0.5


class Worker:
    """Carries out the steps of one thread."""

    def __init__(self, server: Server, thread: str) -> None:
        self._server = server
        self._thread = thread
        self._sandbox = server.backend.sandbox_of(thread)
        self._random = Random(f"{server.seed}/{thread}")
        self._number = 0

    def tell(self, event: str, token: str, detail: Any = None) -> None:
        # A single write, so that a killed program leaves whole lines.
        os.write(1, (json.dumps([self._thread, event, token, detail]) + "\n").encode())

    async def work(self, again: str | None) -> None:
        if again:
            await self.step(again)
        while not self._server.ending.is_set():
            if self._number % 5 == 0:
                await self._server.captures.begin_turn(self._thread)
            await self.step(
                new_token(self._server.name, self._number, self._random.choice(self._server.kinds))
            )
            self._number += 1
            await asyncio.sleep(self._server.pause)

    async def step(self, token: str) -> None:
        begun = time.monotonic()
        self.tell("begins", token)
        try:
            await self._calls(token)
        except Exception as error:  # noqa: BLE001 - every error is judged
            known = "error" if is_typed(error) else "fault"
            said = f"{type(error).__name__}: {error} {getattr(error, 'hint', '')}"
            self.tell(known, token, [said, time.monotonic() - begun])
            await asyncio.sleep(_AFTER_ERROR)
            failed = True
        else:
            failed = False
        await self._server.captures.after_step(self._thread)
        note = await self._server.captures.unkept(self._thread)
        if note or failed:
            self.tell("lost", token, note)
        else:
            self.tell("kept", token, time.monotonic() - begun)

    async def _calls(self, token: str) -> None:
        live = bytearray()
        told = False

        def seen(output: bytes) -> None:
            nonlocal told
            live.extend(output)
            if f"runs {token}\n".encode() in live and not told:
                told = True
                self.tell("runs", token, self._sandbox.node)

        if kind_of(token) == "file":
            await self._sandbox.afile(
                "write", path="/workspace/written", replace=True, content=token.encode(), key=f"{token} file"
            )
        result = await self._sandbox.arun(
            command_of(token), key=token, on_output=seen, note_new=True, timeout=60
        )
        self.tell("ended", token, [result.exit_code, result.output, self._sandbox.node])


class Server:
    """The program."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.name: str = asked["name"]
        self.seed: str = asked["seed"]
        self.kinds: list[str] = asked["kinds"]
        self.pause: float = asked["pause"]
        self.ending = threading.Event()
        self._threads: list[str] = asked["threads"]
        read = load_settings(None, **asked["settings"])
        backend = build_backend(read)
        assert isinstance(backend.default, DockerExecutionBackend)
        captures = captures_of(read, backend)
        assert captures is not None
        self.backend = backend.default
        self.captures = captures

    async def run(self, again: dict[str, str]) -> None:
        async def one(thread: str) -> None:
            work = RunnableLambda(Worker(self, thread).work)
            await work.ainvoke(again.get(thread), {"configurable": {"thread_id": thread}})

        await asyncio.gather(*map(one, self._threads))

    def wait_for_the_end(self) -> None:
        sys.stdin.read()
        self.ending.set()


def main() -> None:
    asked = json.loads(sys.argv[1])
    server = Server(asked)
    threading.Thread(target=server.wait_for_the_end, daemon=True).start()
    with server.backend:
        asyncio.run(server.run(asked["again"]))


if __name__ == "__main__":
    main()
