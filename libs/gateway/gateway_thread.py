"""The thread of the gateway, which serves the connections of all sandboxes.

The host makes a `GatewayDoor` for each sandbox. The door says which sandbox a request comes from; data of
the sandbox cannot. If the gateway is closed or fails, nothing gets out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from libs.gateway.gateway_limits import ClientLimits, EgressLimits

if TYPE_CHECKING:
    from libs.gateway.program_stream import ChannelConnection, ProgramStream
    from libs.gateway.proxy import Proxy
    from libs.gateway.tls import Authority

__all__ = ["Gateway", "GatewayDoor"]

logger = logging.getLogger(__name__)

_REASON = "the gateway did not start and lets nothing out: the log of the application says why"
_DOWN = (
    f"HTTP/1.1 502 {_REASON}\r\nContent-Type: text/plain\r\nContent-Length: {len(_REASON) + 1}\r\n"
    f"Connection: close\r\n\r\n{_REASON}\n"
).encode()


class Gateway:
    """Serves connections with a proxy in a thread of its own. Thread-safe.

    The thread and the proxy start with the first connection, because most sandboxes never open one.

    Args:
        make_proxy: makes the proxy; called once, in the thread of the gateway.
        limits: limits of each sandbox.
        credential_hosts: hosts whose TLS the gateway terminates to add a credential.
        variables: environment variables for commands, such as placeholders of credentials.
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
        self._connections: WeakSet[ProgramStream] = WeakSet()
        self._tasks: set[asyncio.Task[None]] = set()

    def door(self) -> GatewayDoor:
        """Return the gateway's entrance for a new sandbox."""
        authority = None
        if self._credential_hosts:
            from libs.gateway.tls import Authority

            authority = Authority(self._credential_hosts)
        return GatewayDoor(self, ClientLimits(self._limits), authority)

    def connect(
        self,
        connection: ChannelConnection,
        serve: Callable[[ProgramStream], Coroutine[Any, Any, None]],
        refused: Callable[[], set[str] | None],
    ) -> ProgramStream | None:
        """Serve a connection. Returns None if the gateway is closed or cannot start."""
        from libs.gateway.program_stream import ProgramStream  # imports HTTP, which only connections need

        with self._lock:
            if self._loop is None and not self._closed:
                self._start()
            if (loop := self._loop) is None or loop.is_closed():
                return None
            stream = ProgramStream(loop, connection, refused)

            def begin() -> None:
                task = loop.create_task(serve(stream))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

            self._connections.add(stream)
            loop.call_soon_threadsafe(begin)
            return stream

    def _start(self) -> None:
        from libs.gateway.dns import GatewayLoop  # imports what only connections need

        loop = None
        try:
            loop = GatewayLoop()
            thread = threading.Thread(target=self._serve, args=(loop,), name="gateway", daemon=True)
            thread.start()
        except (OSError, RuntimeError):  # no file descriptor or no thread is available
            logger.exception("the gateway cannot be started, nothing gets out")
            if loop:
                loop.close()
            return
        self._loop, self._thread = loop, thread

    def close(self) -> None:
        """End open connections and refuse new ones."""
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
                connection.reset()  # connections whose task had not started
            if self.proxy:
                loop.run_until_complete(self.proxy.aclose())
            with suppress(RuntimeError):  # at interpreter exit no thread can start
                loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()


@dataclass(slots=True)
class GatewayDoor:
    """The gateway as one sandbox sees it."""

    gateway: Gateway
    limits: ClientLimits
    authority: Authority | None
    sandbox: str = ""
    thread: str = ""
    refused: Callable[[], set[str] | None] = lambda: None
    """See `refuse`."""
    declared: dict[int, Collection[str]] = field(default_factory=dict)
    """See `declare`."""
    unreached: set[str] = field(default_factory=set)
    """See `Client.unreached`."""

    @property
    def certificate(self) -> bytes:
        """PEM of the authority that programs in the sandbox trust; empty without credentials."""
        return self.authority.certificate_pem if self.authority else b""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables for commands."""
        return self.gateway.variables

    def belongs_to(self, sandbox: str, thread: str) -> None:
        """Set the sandbox and thread of this door."""
        self.sandbox, self.thread = sandbox, thread

    def refuse(self, refused: Callable[[], set[str] | None]) -> None:
        """Let nothing out while `refused` returns a set, which gets the hosts that are allowed."""
        self.refused = refused

    def declare(self, request: int, uses: Collection[str]) -> None:
        """Set the tools of servers that programs of a request may call: none, if the request has ended."""
        if uses:
            self.declared[request] = uses
        else:
            self.declared.pop(request, None)

    def connected(self, connection: ChannelConnection) -> ProgramStream | None:
        """Serve a connection. Returns None to refuse it."""
        return self.gateway.connect(connection, self._serve, self.refused)

    async def _serve(self, stream: ProgramStream) -> None:
        proxy = self.gateway.proxy
        if proxy is None:
            await stream.write(_DOWN)
            await stream.close(0)
            return
        from libs.gateway.gateway_protocol import Client

        client = Client(
            *(self.sandbox, self.thread, self.limits, self.authority),
            refused=lambda: stream.refused,
            unreached=self.unreached,
            declared=lambda: self.declared.get(stream.request, ()),
        )
        await proxy.serve(stream, client)
