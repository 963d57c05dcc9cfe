"""The gateway: one thread that serves the connections of all sandboxes.

Each sandbox has a door of its own, which the host has made: whose request it is never depends on what comes
from inside. Where the gateway is closed, or fails, nothing gets out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from libs.gateway.limits import ClientLimits, EgressLimits
from libs.gateway.names import GatewayLoop
from libs.gateway.transport import ConnectionStream, StreamTransport

if TYPE_CHECKING:
    from libs.gateway.authority import Authority
    from libs.gateway.proxy import Proxy

__all__ = ["Gateway", "GatewayDoor"]

logger = logging.getLogger(__name__)

_READ_AHEAD = 128 * 1024
"""Bytes that are read from a program before somebody wants them; twice as many at most."""

_REASON = "the gateway did not start and lets nothing out: the log of the application says why"
_DOWN = (
    f"HTTP/1.1 502 {_REASON}\r\nContent-Type: text/plain\r\nContent-Length: {len(_REASON) + 1}\r\n"
    f"Connection: close\r\n\r\n{_REASON}\n"
).encode()


class Gateway:
    """Serves connections by a proxy. Thread-safe.

    The thread, and in it the proxy, starts with the first connection: what most sandboxes never need costs
    them nothing.

    Args:
        make_proxy: makes what decides and connects; called once, in the thread of the gateway.
        limits: what one sandbox may use.
        credential_hosts: hosts whose TLS is ended here, so that a credential can be added.
        variables: what commands find in their environment: placeholders of the credentials.
    """

    def __init__(
        self,
        make_proxy: Callable[[], Proxy],
        *,
        limits: EgressLimits | None = None,
        credential_hosts: frozenset[str] = frozenset(),
        variables: Mapping[str, str] = {},
    ) -> None:
        self._make_proxy = make_proxy
        self._limits = limits
        self._credential_hosts = credential_hosts
        self.variables = dict(variables)
        self.proxy: Proxy | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._connections: WeakSet[StreamTransport] = WeakSet()
        self._tasks: set[asyncio.Task[None]] = set()

    def door(self) -> GatewayDoor:
        """The way out of one new sandbox."""
        authority = None
        if self._credential_hosts:
            from libs.gateway.authority import Authority

            authority = Authority(self._credential_hosts)
        return GatewayDoor(self, ClientLimits(self._limits), authority)

    def connect(
        self,
        stream: ConnectionStream,
        serve: Callable[[StreamReader, StreamWriter], Coroutine[Any, Any, None]],
    ) -> StreamTransport | None:
        """Serve a connection; None once the gateway is closed, or where it cannot be started."""
        with self._lock:
            if self._loop is None and not self._closed:
                self._start()
            if (loop := self._loop) is None or loop.is_closed():
                return None

            def begin(reader: StreamReader, writer: StreamWriter) -> None:
                # Not left to asyncio, which complains of every task that is cancelled.
                task = loop.create_task(serve(reader, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

            def protocol() -> asyncio.StreamReaderProtocol:
                return asyncio.StreamReaderProtocol(
                    StreamReader(limit=_READ_AHEAD, loop=loop), begin, loop=loop
                )

            made = StreamTransport(loop, stream, make_protocol=protocol)
            self._connections.add(made)
            return made

    def _start(self) -> None:
        loop = None
        try:
            loop = GatewayLoop()
            thread = threading.Thread(target=self._serve, args=(loop,), name="gateway", daemon=True)
            thread.start()
        except (OSError, RuntimeError):  # no descriptor, or no thread, is to be had
            logger.exception("the gateway cannot be started, nothing gets out")
            if loop:
                loop.close()
            return
        self._loop, self._thread = loop, thread

    def close(self) -> None:
        """Break off what is under way; refuse what comes."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop and self._thread:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(5)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            self.proxy = self._make_proxy()
        except Exception:
            logger.exception("the gateway cannot be made: nothing gets out")
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            with self._lock:
                left = list(self._connections)
            for connection in left:
                connection.abort()  # one that nobody had begun to serve
            if self.proxy:
                loop.run_until_complete(self.proxy.aclose())
            with suppress(RuntimeError):  # at the end of the interpreter no thread can be started for it
                loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()


@dataclass(slots=True)
class GatewayDoor:
    """The way out of one sandbox."""

    gateway: Gateway
    limits: ClientLimits
    authority: Authority | None
    sandbox: str = ""
    thread: str = ""

    @property
    def certificate(self) -> bytes:
        """PEM of the authority that programs inside are to trust; empty where no credential is set."""
        return self.authority.certificate_pem if self.authority else b""

    @property
    def variables(self) -> Mapping[str, str]:
        """What commands find in their environment besides."""
        return self.gateway.variables

    def belongs_to(self, sandbox: str, thread: str) -> None:
        """Whose requests come through it from now on."""
        self.sandbox, self.thread = sandbox, thread

    def connected(self, stream: ConnectionStream) -> StreamTransport | None:
        """Serve a connection; None refuses it."""
        return self.gateway.connect(stream, self._serve)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        proxy = self.gateway.proxy
        if proxy is None:
            writer.write(_DOWN)
            writer.close()
            return
        from libs.gateway.protocol import Client

        client = Client(self.sandbox, self.thread, self.limits, self.authority)
        await proxy.serve(reader, writer, client)
