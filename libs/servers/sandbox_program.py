"""Runs an MCP server as a program in a sandbox of its own.

The protocol of a sandbox has no input for a command that runs. It has connections of programs inside to the
gateway, though, which carry bytes both ways. The first two connections of this sandbox are the standard
streams of the server, and stay on this side of the gateway. All others are requests of the server, for which
the rules of the gateway hold.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from libs.sandbox import Sandbox
from libs.sandbox.host import Door, EgressStream, Receiver
from libs.servers.server_config import ServerConfig
from libs.servers.stdio_transport import MOST_LINE, Pipes

if TYPE_CHECKING:
    from libs.gateway.program_stream import ProgramStream

__all__ = ["MakeSandbox", "sandbox_program"]

MakeSandbox = Callable[[str, Callable[[Door], Door]], Sandbox]
"""Makes the sandbox of a server. Takes its name, and a function that replaces the gateway's door."""

_BEGIN_SECONDS: Final = 60.0
"""Time for the program to connect its standard streams."""
_GRACE_SECONDS: Final = 2.0
"""Time for a server to end after its input has ended. Then its sandbox is closed."""
_PIECE: Final = 2**16
_STARTER: Final = Path(__file__).parent / "inside" / "stream_starter.py"


@asynccontextmanager
async def sandbox_program(config: ServerConfig, make: MakeSandbox) -> AsyncIterator[Pipes]:
    """Start the program in a new sandbox. Afterwards the sandbox is closed, with all that runs in it.

    Raises:
        SandboxError: the sandbox cannot be started.
        TimeoutError: the program has not connected its streams within 60 seconds.
    """
    from libs.gateway.program_stream import ProgramStream  # imports HTTP, which only connections need

    loop = asyncio.get_running_loop()
    begun: asyncio.Queue[ProgramStream] = asyncio.Queue()

    def opened(connection: EgressStream) -> ProgramStream:
        stream = ProgramStream(loop, connection)
        loop.call_soon_threadsafe(begun.put_nowait, stream)
        return stream

    relays: list[asyncio.Task[None]] = []
    sandbox = make(config.name, lambda door: _StreamsFirst(door, opened))
    try:
        starter = await asyncio.to_thread(_STARTER.read_text)
        words = shlex.join(["python3", "-I", "-c", starter, config.cwd or ".", config.command, *config.args])
        # In the background: a command in the foreground has a time limit.
        await sandbox.arun(f"{words} > /dev/null 2>&1 &", env=dict(config.env))
        async with asyncio.timeout(_BEGIN_SECONDS):
            stdout, stdin = await _relayed(await begun.get(), relays)
            stderr, unused = await _relayed(await begun.get(), relays)
        try:
            yield Pipes(stdin, stdout, stderr, unused)
        finally:
            for writer in (stdin, unused):
                # Not `close`, which would drop what the program has printed and nobody has read yet.
                with suppress(OSError):  # raised outside Linux, if the program has closed its end
                    writer.write_eof()
            await asyncio.wait(relays, timeout=_GRACE_SECONDS)
    finally:
        try:
            await sandbox.aclose()
        finally:
            for relay in relays:
                relay.cancel()
            if relays:
                await asyncio.wait(relays)


class _StreamsFirst:
    """The gateway's door, whose first two connections are the standard streams of a server."""

    def __init__(self, door: Door, opened: Callable[[EgressStream], Receiver]) -> None:
        self._door = door
        self._opened = opened
        self._awaited = 2

    @property
    def certificate(self) -> bytes:
        return self._door.certificate

    @property
    def variables(self) -> Mapping[str, str]:
        return self._door.variables

    @property
    def unreached(self) -> set[str]:
        return self._door.unreached

    def belongs_to(self, sandbox: str, thread: str) -> None:
        self._door.belongs_to(sandbox, thread)

    def refuse(self, refused: Callable[[], set[str] | None]) -> None:
        self._door.refuse(refused)

    def declare(self, request: int, uses: Collection[str]) -> None:
        self._door.declare(request, uses)

    def connected(self, stream: EgressStream) -> Receiver | None:
        if not self._awaited:
            return self._door.connected(stream)
        self._awaited -= 1
        return self._opened(stream)


async def _relayed(
    stream: ProgramStream, relays: list[asyncio.Task[None]]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the ends of a connection as streams of asyncio, which bound what is not read yet."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours, limit=MOST_LINE)
    near, far = await asyncio.open_connection(sock=theirs)

    async def coming() -> None:
        try:
            with suppress(OSError):
                while data := await stream.read():
                    far.write(data)
                    await far.drain()
        finally:
            far.close()

    async def going() -> None:
        with suppress(OSError):
            while data := await near.read(_PIECE):
                await stream.write(data)
        stream.end()

    relays += [asyncio.create_task(coming()), asyncio.create_task(going())]
    return reader, writer
