"""Serves one connection of a program: reads requests, checks them, forwards them and logs them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Final

import h11

from libs.gateway.gateway_errors import GatewayError, Unreadable, printable
from libs.gateway.gateway_protocol import Client
from libs.gateway.gateway_streams import EndedTls, Peer, Stream
from libs.gateway.http import (
    Policy,
    Target,
    absolute_target,
    connect_target,
    forward,
    inside,
    origin_target,
    outside,
    read_head,
    request_headers,
    require_http,
    serve_virtual,
    within,
)
from libs.gateway.request_log import LogEntry
from libs.gateway.rules import in_url, is_address
from libs.gateway.tls import HelloReader, NoClientHello, tunnel

__all__ = ["Conversation"]

_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_MOST_REASON: Final = 500

Handle = Callable[[Peer, h11.Request, LogEntry], Awaitable[None]]


class Conversation:
    """One connection of a program. Call `run`, then `close`."""

    def __init__(self, policy: Policy, stream: Stream, client: Client) -> None:
        self._policy = policy
        self._stream = stream
        self._client = client
        self._times = policy.timeouts
        self._ended = False
        """Whether every answer was sent completely."""
        self._unread = False
        """Whether the program may still send bytes that the gateway does not need."""

    async def run(self) -> None:
        """Answer requests until the connection ends. Raises OSError where an answer breaks off."""
        await self._requests(inside(self._stream), self._handle, wait=None)
        self._ended = True

    async def close(self) -> None:
        """Close the connection; at once if an answer is incomplete."""
        if not self._ended:
            self._stream.reset()
        elif self._unread:
            await self._stream.finish(self._times.linger)
        else:
            await self._stream.close(self._times.idle)

    async def turn_away(self, error: GatewayError) -> None:
        """Answer with an error before anything was read, and close."""
        try:
            with suppress(OSError):
                await self._refuse(self._stream.write, error, LogEntry())
        finally:
            await self._stream.finish(self._times.linger)

    # -- requests, one after the other

    async def _requests(self, near: Peer, handle: Handle, *, wait: float | None, host: str = "") -> None:
        """Answer the requests of `near`; `host`: of the tunnel. Raises OSError where an answer breaks off."""
        while True:
            entry = LogEntry()
            began = time.monotonic()
            try:
                request = await read_head(near, self._times.head, wait=wait)
                if request is None:
                    return
                began = time.monotonic() if wait else began
                entry.method = printable(request.method, 20)
                await handle(near, request, entry)
            except GatewayError as error:
                entry.seconds = time.monotonic() - began
                if isinstance(error, Unreadable):
                    error = error.for_host(entry.host or host)
                counted = self._counted(error, entry)
                if entry.status or near.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                    self._log(entry, counted)
                    raise ConnectionAbortedError("an answer breaks off") from None
                self._unread = True
                await self._refuse(near.stream.write, counted, entry)
                return
            except BaseException as error:
                entry.seconds = time.monotonic() - began
                entry.reason = _broken_off(error)
                if entry.method or isinstance(error, OSError):
                    self._log(entry)
                raise
            entry.seconds = time.monotonic() - began
            self._log(entry)
            if {near.http.our_state, near.http.their_state} != {h11.DONE}:
                self._unread = self._unread or near.http.their_state is h11.SEND_BODY
                return
            near.http.start_next_cycle()
            wait = self._times.keep_alive

    async def _handle(self, near: Peer, request: h11.Request, entry: LogEntry) -> None:
        """Answer one request to the proxy."""
        if request.method == b"CONNECT":
            target = self._allowed(connect_target(request.target), entry)
            ended = self._policy.has_credential(target.host)
            await (self._end_tls if ended else self._tunnel)(near, target, entry)
            return
        target = self._allowed(absolute_target(request.method, request.target), entry)
        if service := self._policy.services.get(target.host):
            async with self._lifetime(target.host):
                await serve_virtual(
                    service, self._client, near, request, target, entry=entry, idle=self._times.idle
                )
        else:
            await self._forward(near, request, target, entry)

    def _allowed(self, target: Target, entry: LogEntry) -> Target:
        """Count a request and return its target. Raises GatewayError where the target is not allowed."""
        entry.scheme, entry.host, entry.port = target.scheme, target.host, target.port
        entry.path = printable(target.path.partition(b"?")[0], len(target.path))
        self._client.limits.admit(target.host)
        if target.host in self._policy.services:
            require_http(target)
        elif why := self._policy.rules.check(target.scheme, target.host, target.port):
            self._client.note_unreached(target.host)
            raise GatewayError(403, why)
        if target.host in self._policy.never_refused:
            return target
        self._require_network(target.host)
        return target

    def _require_network(self, host: str) -> None:
        """Raise GatewayError if nothing of this connection is let out."""
        if (refused := self._client.refused()) is not None:
            refused.add(host)
            raise GatewayError(
                403, f"{host} is not reached: before a person has approved it, this runs without network"
            )

    async def _open(self, target: Target, *, tls: bool = False) -> Stream:
        """Connect to a host. Raises GatewayError."""
        try:
            return await self._policy.open(target, tls=tls)
        except GatewayError:
            self._client.note_unreached(target.host)
            raise

    async def _forward(self, near: Peer, request: h11.Request, target: Target, entry: LogEntry) -> None:
        """Forward a request and its answer; for https, add the credential of the host."""
        headers, answer = request_headers(request, target), None
        secret = target.scheme == "https"
        if self._policy.credentials is not None and secret:
            headers = self._policy.credentials.sent(target.host, headers)
            answer = self._policy.credentials.answer_filter(target.host, request.method)
        meter = self._client.limits.meter(target.host)
        check = partial(self._require_network, target.host)
        async with self._lifetime(target.host):
            far = await self._open(target, tls=secret)
            try:
                peer = outside(far, target.host)
                entry.status = await forward(
                    *(near, peer, request, target, headers),
                    meter=meter,
                    idle=self._times.idle,
                    answer=answer,
                    check=check,
                )
            finally:
                entry.bytes_in, entry.bytes_out = meter.came, meter.went
                await far.close(0)

    # -- tunnels

    async def _tunnel(self, near: Peer, target: Target, entry: LogEntry) -> None:
        """Pass the program's TLS to the host."""
        meter = self._client.limits.meter(target.host)
        async with self._lifetime(target.host):
            far = await self._open(target)
            whole = False
            try:
                hello = await self._read_hello(near, target, entry)
                check = partial(self._require_network, target.host)
                await tunnel(
                    *(self._stream, far, hello),
                    host=target.host,
                    meter=meter,
                    idle=self._times.idle,
                    check=check,
                )
                whole = True
            finally:
                entry.bytes_in, entry.bytes_out = meter.came, meter.went
                await far.close(self._times.idle if whole else 0)

    async def _end_tls(self, near: Peer, target: Target, entry: LogEntry) -> None:
        """Terminate the program's TLS, and add the credential of the host to each request."""
        authority = self._client.authority
        if authority is None:
            raise GatewayError(
                502, f"{target.host} is in EGRESS_CREDENTIALS, but no authority ends TLS for this sandbox"
            )

        async def handle(near: Peer, request: h11.Request, entry: LogEntry) -> None:
            asked = self._allowed(origin_target(target, request.method, request.target), entry)
            _refuse_other_host(request, target)
            await self._forward(near, request, asked, entry)

        hello = await self._read_hello(near, target, entry)
        tls = EndedTls(self._stream, authority.context_for(target.host), hello)
        async with within(self._times.head, f"{target.host}: no TLS within {self._times.head:g} s"):
            try:
                await tls.handshake()
            except ssl.SSLError as error:
                why = printable(error.reason or str(error))
                raise GatewayError(
                    403, f"{target.host}: the program does not take the certificate of the gateway: {why}"
                ) from None
        await self._requests(inside(tls), handle, wait=self._times.keep_alive, host=target.host)
        with suppress(OSError):
            await tls.end()

    async def _read_hello(self, near: Peer, target: Target, entry: LogEntry) -> bytes:
        """Open a tunnel, and return its first bytes: a ClientHello for its host. Raises GatewayError."""
        await self._stream.write(_ESTABLISHED)
        entry.status = 200
        reader = HelloReader()
        more = data = near.http.trailing_data[0]
        async with within(self._times.head, f"{target.host}: no TLS within {self._times.head:g} s"):
            try:
                while (hello := reader.feed(more)) is None:
                    more = await self._stream.read()
                    if not more:
                        raise ConnectionResetError("the program has closed the tunnel")
                    data += more
            except NoClientHello as error:
                raise GatewayError(403, f"{target.host}: nothing but TLS may go through: {error}") from None
        named = hello.server_name
        if (named or target.host).lower() == target.host and (named or is_address(target.host)):
            return data
        with suppress(OSError):
            await self._stream.write(reader.alert)
        self._ended = self._unread = True  # close slowly, so that the program reads the alert
        server = "no server" if named is None else printable(named)
        raise GatewayError(403, f"{target.host}: the TLS names {server}, and only it is allowed")

    def _lifetime(self, host: str) -> AbstractAsyncContextManager[None]:
        seconds = self._client.limits.limits.seconds
        return within(seconds, f"{host} is cut off after {seconds:g} s: EGRESS_SECONDS allows no more")

    # -- errors and the log

    def _counted(self, error: GatewayError, entry: LogEntry) -> GatewayError:
        """Count a request that failed before its host was known; return the error to answer with."""
        if not entry.host:
            try:
                self._client.limits.admit("a request without a host")
            except GatewayError as too_many:
                return too_many
        return error

    async def _refuse(
        self, write: Callable[[bytes], Awaitable[None]], error: GatewayError, entry: LogEntry
    ) -> None:
        """Answer with an error. The reason phrase repeats the message for programs that show only that."""
        body = f"{error}\n".encode()
        head = [
            f"HTTP/1.1 {error.status} {printable(str(error), _MOST_REASON)}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        entry.status = error.status
        self._log(entry, error)
        await write("\r\n".join([*head, "", ""]).encode("ascii") + (b"" if entry.method == "HEAD" else body))

    def _log(self, entry: LogEntry, error: GatewayError | None = None) -> None:
        if self._policy.log is None or (error and error.repeated):
            return
        if error:
            entry.decision = "refused" if error.refused else "allowed"
            entry.reason = str(error)
        entry.sandbox, entry.thread = self._client.sandbox, self._client.thread
        self._policy.log.record(entry)


def _broken_off(error: BaseException) -> str:
    """Return the reason for the log."""
    if isinstance(error, OSError):
        return "the connection was broken off"
    closed = isinstance(error, asyncio.CancelledError)
    return "the gateway was closed" if closed else "the gateway failed: the log of the application says why"


def _refuse_other_host(request: h11.Request, target: Target) -> None:
    """Raise GatewayError (421) if the Host header names another host than the tunnel."""
    named = dict(request.headers).get(b"host", b"").lower()
    if named not in (target.host_header, f"{in_url(target.host)}:{target.port}".encode()):
        raise GatewayError(
            421, f"{target.host} is what this connection is for, not {printable(named) or 'no host'}"
        )
