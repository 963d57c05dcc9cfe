"""What a program sends while nothing is let out never gets out, however late the gateway reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.gateway.gateway_thread import Gateway
from libs.gateway.program_stream import ProgramStream
from libs.gateway.proxy import Proxy
from libs.gateway.rules.allow_list import Rules
from tests.servers.gateway_loopback import Names, Site, serving, until
from tests.servers.http_messages import tunnel
from tests.unit.gateway.test_gateway_thread import Connection
from tests.unit.gateway.tls.test_gateway_tunnel import HELLO


class Refusing:
    """A gateway's door, and a connection of a program whose network can be refused."""

    def __init__(self, gateway: Gateway) -> None:
        self.refused: set[str] | None = None
        self._door = gateway.door()
        self._door.refuse(lambda: self.refused)

    def connected(self) -> tuple[Connection, ProgramStream]:
        connection = Connection()
        stream = self._door.connected(connection)
        assert stream is not None
        return connection, stream


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, Refusing]]:
    """A site whose connections stay open and record what they get, and a gateway that allows the site."""

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            site.requests.append(data)

    async with serving(record) as site:
        names = Names(site_test=["127.0.0.1"])
        gateway = Gateway(lambda: Proxy(rules=Rules.parse([site.where]), resolve=names.resolve))
        yield site, Refusing(gateway)
        await asyncio.to_thread(gateway.close)


async def test_connection_of_a_call_without_network_never_gets_out(site: tuple[Site, Refusing]) -> None:
    """A call may end, and the next one may have the network, before the gateway reads what the call sent."""
    there, door = site
    door.refused = asked = set()
    connection, stream = door.connected()
    door.refused = None
    stream.came(f"GET http://{there.where}/ HTTP/1.1\r\nHost: {there.where}\r\n\r\n".encode())
    await until(lambda: connection.over)
    assert b"site.test is not reached: before a person has approved it" in connection.sent
    assert (asked, there.connections) == ({"site.test"}, 0)


async def test_open_tunnel_carries_nothing_of_a_call_without_network(site: tuple[Site, Refusing]) -> None:
    """A program of an earlier call may still have the tunnel."""
    there, door = site
    connection, stream = door.connected()
    stream.came(tunnel(there.where))
    await until(lambda: b"200" in connection.sent)
    stream.came(HELLO)
    await until(lambda: b"".join(there.requests) == HELLO)
    door.refused = asked = set()
    stream.came(b"of a call without network")
    door.refused = None
    await until(lambda: connection.over)
    assert (asked, b"".join(there.requests)) == ({"site.test"}, HELLO)


async def test_open_request_carries_nothing_of_a_call_without_network(site: tuple[Site, Refusing]) -> None:
    there, door = site
    connection, stream = door.connected()
    head = f"POST http://{there.where}/ HTTP/1.1\r\nHost: {there.where}\r\nContent-Length: 100\r\n\r\n"
    stream.came(head.encode() + b"begin")
    await until(lambda: b"begin" in b"".join(there.requests))
    door.refused = asked = set()
    stream.came(b"of a call without network")
    door.refused = None
    await until(lambda: connection.over)
    assert (asked, b"without" in b"".join(there.requests)) == ({"site.test"}, False)
