"""Carries the frames of one container of a node. Runs in the actor of the node."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final

from libs.sandbox.docker import AttachedTransport

__all__ = ["NodeConnection"]

_MOST_WAITING: Final = 4_000_000
"""Bytes that wait until the server asks for them. Then the container has to wait, too."""


class NodeConnection:
    """A container whose frames the server asks for. Used on the actor's event loop.

    Args:
        work: runs calls that wait for the container.
        thread: the thread of the sandbox; empty for a spare.
    """

    def __init__(self, transport: AttachedTransport, work: Executor, thread: str) -> None:
        self.thread = thread
        self._transport = transport
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._waiting = bytearray()
        self._changed = threading.Condition()
        self._ended = False
        self._pieces: dict[int, bytes] = {}
        """Number -> data that came before its turn: Ray may begin two calls in another order."""
        self._next = 0
        self._sending = asyncio.Lock()
        self._reader = threading.Thread(target=self._read, name="node-reader", daemon=True)

    async def start(self) -> None:
        """Start the container.

        Raises:
            SandboxError: the Engine refuses. No container is left.
        """
        try:
            self._reader.start()
            await self._apart(self._transport.start)
        except BaseException:
            await self._apart(self._transport.discard)
            raise

    async def receive(self) -> bytes:
        """Wait for the next frames and return them. Empty at the end."""
        while True:
            self._arrived.clear()
            with self._changed:
                if data := bytes(self._waiting):
                    self._waiting.clear()
                    self._changed.notify_all()
                    return data
                if self._ended:
                    return b""
            await self._arrived.wait()

    async def send(self, number: int, data: bytes) -> None:
        """Send data after the data with the numbers before. Returns when nothing before it waits.

        Raises:
            OSError: the connection has ended.
        """
        self._pieces[number] = data
        async with self._sending:
            while (piece := self._pieces.pop(self._next, None)) is not None:
                self._next += 1
                sent = self._transport.send_now(piece)
                if sent < len(piece):
                    await self._apart(partial(self._transport.send, piece[sent:]))

    async def epitaph(self) -> str:
        """Return why the container ended."""
        return await self._loop.run_in_executor(self._work, self._transport.epitaph)

    async def close(self) -> None:
        """End the container and wait until it is removed."""
        await self._apart(self._close)

    async def _apart(self, work: Callable[[], None]) -> None:
        await self._loop.run_in_executor(self._work, work)

    def _close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._transport.close()
        if self._reader.ident:
            self._reader.join()
        self._transport.release()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._transport.receive():
                with self._changed:
                    while len(self._waiting) > _MOST_WAITING and not self._ended:
                        self._changed.wait()
                    self._waiting += data
                self._tell()
        with self._changed:
            self._ended = True
        self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended with the actor
            self._loop.call_soon_threadsafe(self._arrived.set)
