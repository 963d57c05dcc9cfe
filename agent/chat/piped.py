"""Lines that come through a pipe or from a file, one a message."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading

__all__ = ["PipedLines"]

_CHUNK = 65_536
_MOST = 1 << 20
"""Bytes of one line."""


class PipedLines:
    """Reads standard input, in a thread that ends with the program. Never asks for anything."""

    def __init__(self) -> None:
        self._left = b""
        self._ended = False

    async def next(self, prompt: str, begun: str = "") -> str:  # noqa: ARG002 - nobody looks at a prompt
        """The next line; empty ones too.

        Raises:
            EOFError: there is none.
            ValueError: it is longer than 1 MB.
        """
        while b"\n" not in self._left and not self._ended:
            if len(self._left) > _MOST:
                raise ValueError("A line of the input is longer than 1 MB: it is not taken for a message.")
            data = await _some()
            self._left += data
            self._ended = not data
        line, newline, self._left = self._left.partition(b"\n")
        if not line and not newline:
            raise EOFError
        return line.decode("utf-8", "replace").rstrip("\r")


async def _some() -> bytes:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def tell(data: bytes) -> None:
        if not done.done():
            done.set_result(data)

    def read() -> None:
        try:
            data = os.read(sys.stdin.fileno(), _CHUNK)
        except OSError:
            data = b""
        with contextlib.suppress(RuntimeError):  # the program has ended meanwhile
            loop.call_soon_threadsafe(tell, data)

    # Not one of the loop's own threads: the end of the program waits for those.
    threading.Thread(target=read, daemon=True).start()
    return await done
