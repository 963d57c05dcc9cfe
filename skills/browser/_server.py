"""The browser's own process: one for all programs of the sandbox, until it is closed or has rested.

It answers one request a connection, a line of JSON each way, one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import IO, Any

from skills.browser._chromium import Chromium
from skills.browser._link import FOLDER, READY, SOCKET

IDLE_SECONDS = float(os.environ.get("BROWSER_IDLE_SECONDS", "600"))
_MAX_REQUEST = 1 << 26
_PATIENCE = 5.0
"""Seconds that one of before has, in which to end."""
WORK = FOLDER / "work"
"""Profile and scratch of Chromium, of no use once it has ended."""


class Server:
    """Serves requests until the browser is closed, has crashed or has rested for `IDLE_SECONDS`."""

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
        await self._ended.wait()
        SOCKET.unlink(missing_ok=True)
        listener.close()
        await self._shut()

    async def _shut(self) -> None:
        if self._chromium:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._chromium.close()

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
            if request is None:  # it has only looked whether somebody is here
                return
            work = asyncio.create_task(self._answer(**request))
            gone = asyncio.create_task(reader.read(1))
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if not work.done():  # whoever has asked was interrupted
                work.cancel()
                return
            answer, last = work.result()
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

    def _begin_rest(self) -> None:
        self._rest = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._ended.set)

    async def _answer(self, **request: Any) -> tuple[dict[str, Any], bool]:
        """What came of a request, and whether this was the last."""
        do, seconds, arguments = request["do"], request["seconds"], request["with"]
        try:
            await asyncio.wait_for(self._turn.acquire(), seconds)
        except TimeoutError:
            error = f"the browser was busy for {seconds:g} seconds with what another program asks of it"
            return {"error": error, "notes": []}, False
        try:
            if do == "close" and not arguments["tab"]:
                await self._shut()
                return {"value": None, "notes": []}, True
            if self._chromium and do == "open" and not await self._chromium.lives():
                await self._shut()
                self._chromium = None
            if self._chromium is None:
                self._chromium = Chromium(WORK)
            return await self._chromium.do(do, arguments, seconds), False
        finally:
            self._turn.release()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("a+") as lock:
        _take(lock)
        _clear_away()
        WORK.mkdir()
        asyncio.run(Server().serve())
        shutil.rmtree(WORK, ignore_errors=True)


def _take(lock: IO[str]) -> None:
    """Be the only one: wait for one that ends, and end one that does not."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                lock.seek(0)
                with contextlib.suppress(ValueError, ProcessLookupError):
                    os.kill(int(lock.read()), signal.SIGKILL)
                deadline += 2 * _PATIENCE
            time.sleep(0.05)
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def _clear_away() -> None:
    """What one that was killed has left: processes that were at work in its folder, and the folder."""
    left = [
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit()
        and int(process.name) != os.getpid()
        and os.fsencode(WORK) in _command(process)
    ]
    for pid in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(WORK, ignore_errors=True)


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main())
