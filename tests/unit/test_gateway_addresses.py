"""Which addresses a name may lead to, and that just these are connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.gateway.addresses import Address, connect, resolve_public
from libs.gateway.errors import GatewayError
from tests.unit.gateway_loopback import Names, Site, nothing_left, serving


async def resolved(*addresses: str, private: Sequence[str] = (), host: str = "site.test") -> list[str]:
    names = Names()
    names["site.test"] = addresses
    networks: list[Any] = [ipaddress.ip_network(text) for text in private]
    found = await resolve_public(host, 443, private=networks, lookup=names.lookup)
    assert all(address.port == 443 for address in found)
    return [address.ip for address in found]


PRIVATE = [
    *("127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0.0.0.0"),
    *("169.254.1.1", "100.64.0.1", "192.0.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("::", "::1", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1", "2001::1", "100::1", "3fff::1"),
    *(
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "::10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
    ),
    *("64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::1", "5f00::1", "fec0::1"),
    *("2001:0:7f00:1::", "2001:20::1", "4000::1", "::ffff:0:127.0.0.1"),
]
METADATA = [
    *("169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"),
    *("100.100.100.200", "168.63.129.16", "169.254.170.2", "fd20:ce::254"),
]
PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.216.34",
    "2606:4700::1111",
    "2a00:1450::8a",
    "64:ff9b::808:808",
    "2002:808:808::1",
]


@pytest.mark.parametrize("address", PUBLIC)
async def test_public_addresses(address: str) -> None:
    assert await resolved(address) == [address]
    assert await resolved(host=address) == [address]


@pytest.mark.parametrize("address", PRIVATE)
async def test_private_addresses_are_refused(address: str) -> None:
    for host in ("site.test", address):
        with pytest.raises(GatewayError, match="private: EGRESS_PRIVATE does not list it") as error:
            await resolved(address, host=host)
        assert error.value.status == 403
        assert str(error.value).startswith(f"{host} ")


@pytest.mark.parametrize("address", METADATA)
async def test_metadata_is_refused_whatever_is_listed(address: str) -> None:
    for host in ("site.test", address):
        with pytest.raises(GatewayError, match="credentials") as error:
            await resolved(address, host=host, private=["0.0.0.0/0", "::/0"])
        assert error.value.status == 403


@pytest.mark.parametrize(
    "addresses",
    [
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
        ["2606:4700::1111", "::1"],
        ["8.8.8.8", "::ffff:10.0.0.1"],
        ["8.8.8.8"] * 20 + ["169.254.169.254"],
    ],
)
async def test_one_private_address_refuses_the_name(addresses: list[str]) -> None:
    with pytest.raises(GatewayError, match=r"site\.test leads to"):
        await resolved(*addresses)


async def test_private_networks_that_are_listed() -> None:
    assert await resolved("10.1.2.3", private=["10.0.0.0/8"]) == ["10.1.2.3"]
    assert await resolved("::ffff:10.1.2.3", private=["10.0.0.0/8"]) == ["10.1.2.3"]
    assert await resolved("fd12::1", "8.8.8.8", private=["fd12::/16"]) == ["fd12::1", "8.8.8.8"]
    with pytest.raises(GatewayError, match=r"10\.1\.2\.3"):
        await resolved("10.1.2.3", private=["10.0.0.0/16", "fd00::/8"])


async def test_names_that_lead_nowhere() -> None:
    with pytest.raises(GatewayError, match=r"other\.test is not found: Name or service not known") as error:
        await resolved("8.8.8.8", host="other.test")
    assert error.value.status == 502
    with pytest.raises(GatewayError, match="no address"):
        await resolved()


async def test_an_address_is_not_looked_up() -> None:
    names = Names()
    await resolve_public("8.8.8.8", 80, lookup=names.lookup)
    assert names.asked == []


async def test_the_machine_itself_is_asked() -> None:
    found = await resolve_public(
        "localhost", 80, private=[ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1")]
    )
    assert {address.ip for address in found} <= {"127.0.0.1", "::1"}
    with pytest.raises(GatewayError, match="localhost leads to"):
        await resolve_public("localhost", 80)


@given(st.ip_addresses())
def test_whatever_leads_to_a_private_ipv4_address_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    try:
        asyncio.run(resolve_public(str(address), 1))
    except GatewayError as error:
        assert error.status == 403
        return
    assert address.is_global
    assert not address.is_multicast
    if isinstance(address, ipaddress.IPv6Address):
        assert all(form is None or form.is_global for form in (address.ipv4_mapped, address.sixtofour))


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def accepted(site: Site) -> None:
    """Wait for it: asyncio leaks a connection that it accepts while its server is being closed."""
    for _ in range(200):
        if site.connections:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("nothing has come")


def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


async def test_the_next_address_is_taken_where_one_does_not_answer() -> None:
    async with nothing_left(), serving(silent, host="127.0.0.3") as site:
        connected = await connect([Address("127.0.0.2", site.port), Address("127.0.0.3", site.port)])
        with connected:
            assert connected.getpeername() == ("127.0.0.3", site.port)
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            await accepted(site)


async def test_a_dead_address_holds_up_the_next_a_quarter_of_a_second() -> None:
    with socket.socket() as full:
        # Its backlog is full: it neither accepts nor refuses.
        full.bind(("127.0.0.4", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.4", port))
        async with nothing_left():
            server = await asyncio.start_server(silent, "127.0.0.5", port)
            began = time.monotonic()
            connected = await connect([Address("127.0.0.4", port), Address("127.0.0.5", port)])
            assert time.monotonic() - began < 2
            assert connected.getpeername()[0] == "127.0.0.5"
            connected.close()
            server.close()
            await server.wait_closed()
        for filler in fillers:
            filler.close()


async def test_what_the_first_address_says_is_told_where_none_answers() -> None:
    async with nothing_left():
        with pytest.raises(ConnectionRefusedError):
            await connect([Address("127.0.0.2", closed_port()), Address("127.0.0.3", closed_port())])


async def test_the_only_address_is_refused() -> None:
    async with nothing_left():
        with pytest.raises(ConnectionRefusedError, match="refused"):
            await connect([Address("127.0.0.2", closed_port())])


@pytest.mark.parametrize("count", [1, 2])
async def test_nothing_stays_open_where_connecting_is_given_up(count: int) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.4", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.4", port))
        async with nothing_left():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.4):
                    await connect([Address("127.0.0.4", port)] * count)
        for filler in fillers:
            filler.close()
