"""The server process of the browser, shared by all programs of the sandbox, until it is closed or idle.

Each connection carries one request and one answer, each a line of JSON. Requests are served in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from typing import IO, Any

from skills.browser import _memory as memory
from skills.browser._chromium import START_SECONDS, Chromium
from skills.browser._processes import FOLDER, LOCK, WORK, end_all, record
from skills.browser._server_client import DEAD, READY, SOCKET

IDLE_SECONDS = float(os.environ.get("BROWSER_IDLE_SECONDS", "600"))
_MAX_REQUEST = 1 << 26
_PATIENCE = 5.0
"""Seconds for a process to end by itself."""
_GRACE = 11.0
"""Seconds beyond the time-out of a call after which the browser is given up, before the client gives up."""


class Server:
    """Serves requests until the browser is closed, crashes, or is idle for `IDLE_SECONDS`."""

    def __init__(self) -> None:
        self._chromium: Chromium | None = None
        self._turn = asyncio.Lock()
        self._ended = asyncio.Event()
        self._under_way = 0
        self._rest: asyncio.TimerHandle | None = None

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        SOCKET.unlink(missing_ok=True)
        listener = await asyncio.start_unix_server(self._one, SOCKET, limit=_MAX_REQUEST)
        self._begin_rest()
        watch = asyncio.create_task(memory.watch())
        await self._ended.wait()
        watch.cancel()
        SOCKET.unlink(missing_ok=True)
        listener.close()
        await self._shut()

    async def _shut(self) -> None:
        if self._chromium:
            if not self._chromium.stopped():
                closing = asyncio.create_task(self._chromium.close())
                await asyncio.wait({closing}, timeout=_PATIENCE)
            await asyncio.to_thread(end_all)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._ended.is_set():
            writer.close()
            return
        self._under_way += 1
        if self._rest:
            self._rest.cancel()
        last = False
        try:
            writer.write(READY)
            request = json.loads(await reader.readline() or b"null")
            if request is None:  # the client only checked that the server lives
                return
            answer, last = await self._bounded(request, reader)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._under_way -= 1
            if last:
                self._ended.set()
            elif not self._under_way:
                self._begin_rest()

    async def _bounded(
        self, request: dict[str, Any], reader: asyncio.StreamReader
    ) -> tuple[dict[str, Any], bool]:
        """Return the answer to a request, and whether the server ends; a hanging request ends the server."""
        seconds = request["seconds"] + _GRACE + (0 if self._chromium else START_SECONDS)
        work = asyncio.create_task(self._answer(**request))
        gone = asyncio.create_task(reader.read(1))
        await asyncio.wait({work, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not work.done():  # the request hangs, or the client is gone
            hangs = not gone.done()
            work.cancel()
            await asyncio.wait({work}, timeout=_GRACE)
            return {"error": DEAD, "notes": []}, hangs or not work.done()
        return work.result()

    def _begin_rest(self) -> None:
        self._rest = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._ended.set)

    async def _answer(self, **request: Any) -> tuple[dict[str, Any], bool]:
        do, seconds, arguments = request["do"], request["seconds"], request["with"]
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        try:
            await asyncio.wait_for(self._turn.acquire(), seconds)
        except TimeoutError:
            error = f"the browser was busy for {seconds:g} seconds with what another program asks of it"
            return {"error": error, "notes": []}, False
        try:
            if do == "close" and not arguments["tab"]:
                await self._shut()
                return {"value": None, "notes": []}, True
            if self._chromium is None:
                self._chromium = Chromium(WORK)
                if failure := await self._chromium.start():
                    return {"error": failure, "notes": []}, True
                record()
                until = loop.time() + seconds
            elif do == "open" and not await self._chromium.lives():
                return {"again": True}, True
            return await self._chromium.do(do, arguments, seconds, until), False
        finally:
            self._turn.release()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with LOCK.open("a") as lock:
        _take(lock)
        end_all()  # processes of a killed server
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir()
        record()
        memory.spare_this()
        # The driver creates the profile of Chromium here; the path identifies processes of this server.
        os.environ["TMPDIR"] = str(WORK)
        asyncio.run(_until_the_end())


async def _until_the_end() -> None:
    await Server().serve()
    shutil.rmtree(WORK, ignore_errors=True)
    os._exit(0)  # does not wait for hanging tasks or threads


def _take(lock: IO[str]) -> None:
    """Become the only server: wait for an ending server, and kill a hanging one."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > deadline:
            end_all()
            deadline += _PATIENCE
        time.sleep(0.05)


if __name__ == "__main__":
    main()
