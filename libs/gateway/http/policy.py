"""The policy that all connections share, and connecting to allowed hosts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from libs.gateway.credentials import Credentials
from libs.gateway.gateway_errors import GatewayError, printable
from libs.gateway.gateway_limits import Timeouts
from libs.gateway.gateway_protocol import Service
from libs.gateway.gateway_streams import SocketStream
from libs.gateway.http.request_head import Target
from libs.gateway.request_log import RequestLog
from libs.gateway.rules import Resolve, Rules, connect, in_url, resolve_public

__all__ = ["Policy", "within"]

_READ_AHEAD: Final = 64 * 1024


@asynccontextmanager
async def within(seconds: float, message: str) -> AsyncIterator[None]:
    """Raise GatewayError (504) with the message after `seconds`."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise GatewayError(504, message) from None
        raise


@dataclass
class Policy:
    """The decisions of the gateway."""

    rules: Rules
    """The allowed hosts."""
    resolve: Resolve = resolve_public
    """Looks up addresses, and refuses private ones."""
    credentials: Credentials | None = None
    """Secrets to add to https requests."""
    services: Mapping[str, Service] = field(default_factory=dict)
    """Virtual hosts by name. They are reached over http and need no rule."""
    never_refused: Collection[str] = ()
    """Virtual hosts that a program reaches even while nothing is let out. They decide themselves."""
    log: RequestLog | None = None
    """Records every request and tunnel."""
    tls: ssl.SSLContext | None = None
    """Verifies hosts that have a credential; by default with the certificates of the machine."""
    timeouts: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        if self.credentials is not None and self.tls is None:
            self.tls = ssl.create_default_context()  # now, because loading blocks the event loop
            self.tls.set_alpn_protocols(["http/1.1"])

    def has_credential(self, host: str) -> bool:
        return self.credentials is not None and host in self.credentials

    async def open(self, target: Target, *, tls: bool = False) -> SocketStream:
        """Connect to a host. Raises GatewayError."""
        async with self._connecting(target):
            sock = await connect(await self.resolve(target.host, target.port))
            reader, writer = await asyncio.open_connection(
                sock=sock,
                limit=_READ_AHEAD,
                ssl=self.tls if tls else None,
                server_hostname=target.host if tls else None,
            )
        return SocketStream(reader, writer)

    @asynccontextmanager
    async def _connecting(self, target: Target) -> AsyncIterator[None]:
        """Turn OSError and the connect time-out into GatewayError."""
        where = f"{in_url(target.host)}:{target.port}"
        seconds = self.timeouts.connect
        try:
            async with within(seconds, f"{where} does not answer within {seconds:g} s"):
                yield
        except ssl.SSLCertVerificationError as error:
            why = printable(error.verify_message)
            raise GatewayError(502, f"{where} shows a certificate that is not trusted: {why}") from None
        except ssl.SSLError as error:
            why = printable(error.reason or str(error))
            raise GatewayError(502, f"{where} agrees on no TLS: {why}") from None
        except OSError as error:
            why = error.strerror or printable(str(error))
            raise GatewayError(502, f"{where} cannot be reached: {why}") from None
