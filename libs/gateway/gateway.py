"""The gateway: one thread that serves the connections of all sandboxes.

Each sandbox has a door of its own, which the host has made: whose request it is never depends on what comes
from inside. Where the gateway is closed, or fails, nothing gets out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from libs.gateway.authority import Authority
from libs.gateway.limits import ClientLimits
from libs.gateway.proxy import Client, Proxy
from libs.gateway.transport import ConnectionStream, StreamTransport

__all__ = ["Gateway", "GatewayDoor"]

logger = logging.getLogger(__name__)

_READ_AHEAD = 128 * 1024
"""Bytes that are read from a program before somebody wants them; twice as many at most."""


class Gateway:
    """Serves connections by `proxy`. The thread starts with the first of them. Thread-safe.

    Args:
        proxy: decides and connects.
        limits: makes what one sandbox may use.
        credential_hosts: hosts whose TLS is ended here, so that a credential can be added.
        variables: what commands find in their environment: placeholders of the credentials.
    """

    def __init__(
        self,
        proxy: Proxy,
        *,
        limits: Callable[[], ClientLimits],
        credential_hosts: frozenset[str] = frozenset(),
        variables: Mapping[str, str] = {},
    ) -> None:
        self.proxy = proxy
        self._limits = limits
        self._credential_hosts = credential_hosts
        self.variables = dict(variables)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def door(self) -> GatewayDoor:
        """The way out of one new sandbox."""
        authority = Authority(self._credential_hosts) if self._credential_hosts else None
        return GatewayDoor(self, Client("", "", self._limits(), authority), authority)

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Where connections are served; None once the gateway is closed."""
        with self._lock:
            if self._loop is None and not self._closed:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="gateway", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Break off what is under way; refuse what comes."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop and self._thread:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(5)

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()


@dataclass(slots=True)
class GatewayDoor:
    """The way out of one sandbox."""

    gateway: Gateway
    client: Client
    authority: Authority | None

    @property
    def certificate(self) -> bytes:
        """PEM of the authority that programs inside are to trust; empty where no credential is set."""
        return self.authority.certificate_pem if self.authority else b""

    @property
    def variables(self) -> Mapping[str, str]:
        return self.gateway.variables

    def belongs_to(self, sandbox: str, thread: str) -> None:
        """Whose requests come through it from now on."""
        self.client = Client(sandbox, thread, self.client.limits, self.authority)

    def connected(self, stream: ConnectionStream) -> StreamTransport | None:
        """Serve a connection; None refuses it."""
        loop = self.gateway.loop()
        if loop is None:
            return None

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = asyncio.StreamReader(limit=_READ_AHEAD, loop=loop)
            return asyncio.StreamReaderProtocol(reader, self._serve, loop=loop)

        return StreamTransport(loop, stream, make_protocol=protocol)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.gateway.proxy.serve(reader, writer, self.client)
