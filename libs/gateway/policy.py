"""What decides, for all connections of all sandboxes; and how a host is connected to that is allowed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from libs.gateway.addresses import Resolve, connect
from libs.gateway.errors import GatewayError, shown
from libs.gateway.limits import Timeouts
from libs.gateway.protocol import Credentials, Service
from libs.gateway.request_head import Target
from libs.gateway.request_log import RequestLog
from libs.gateway.rules import Rules, in_url
from libs.gateway.streams import Stream

__all__ = ["Policy", "within"]

_READ_AHEAD: Final = 64 * 1024


@asynccontextmanager
async def within(seconds: float, message: str) -> AsyncIterator[None]:
    """Raises GatewayError, 504, with the message, once so many seconds have gone by."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise GatewayError(504, message) from None
        raise


@dataclass(frozen=True)
class Policy:
    """See `Proxy`."""

    rules: Rules
    resolve: Resolve
    credentials: Credentials | None
    services: Mapping[str, Service]
    log: RequestLog | None
    given_tls: ssl.SSLContext | None
    timeouts: Timeouts

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """TLS with hosts."""
        if self.given_tls:
            return self.given_tls
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def has_credential(self, host: str) -> bool:
        return self.credentials is not None and host in self.credentials

    async def open(self, target: Target) -> Stream:
        """A connection to a host, with TLS where it is https. Raises GatewayError."""
        async with self._connecting(target):
            tls = self.tls if target.scheme == "https" else None
            sock = await connect(await self.resolve(target.host, target.port))
            reader, writer = await asyncio.open_connection(
                sock=sock, limit=_READ_AHEAD, ssl=tls, server_hostname=target.host if tls else None
            )
        return Stream(reader, writer)

    async def reach(self, target: Target) -> socket.socket:
        """A connection to a host, of which nothing is read or sent yet. Raises GatewayError."""
        async with self._connecting(target):
            return await connect(await self.resolve(target.host, target.port))

    @asynccontextmanager
    async def _connecting(self, target: Target) -> AsyncIterator[None]:
        """Raises GatewayError instead of OSError, or where it takes too long."""
        where = f"{in_url(target.host)}:{target.port}"
        seconds = self.timeouts.connect
        try:
            async with within(seconds, f"{where} does not answer within {seconds:g} s"):
                yield
        except ssl.SSLCertVerificationError as error:
            why = shown(error.verify_message)
            raise GatewayError(502, f"{where} shows a certificate that is not trusted: {why}") from None
        except ssl.SSLError as error:
            why = shown(error.reason or str(error))
            raise GatewayError(502, f"{where} agrees on no TLS: {why}") from None
        except OSError as error:
            why = error.strerror or shown(str(error))
            raise GatewayError(502, f"{where} cannot be reached: {why}") from None
