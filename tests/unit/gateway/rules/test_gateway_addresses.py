"""Which addresses a name may have, and connections to the checked addresses only."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.rules import addresses
from libs.gateway.rules.addresses import Address, connect, resolve_public
from tests.servers.gateway_loopback import Names, nothing_left


async def resolved(*listed: str, private: Sequence[str] = (), host: str = "site.test") -> list[str]:
    names = Names()
    names["site.test"] = listed
    networks: list[Any] = [ipaddress.ip_network(text) for text in private]
    found = await resolve_public(host, 443, private=networks, lookup=names.lookup)
    assert all(address.port == 443 for address in found)
    return [address.ip for address in found]


PRIVATE = [
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0.0.0.0", "169.254.1.1"),
    *("100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("192.88.99.1", "::", "::1", "fe80::1", "fd12::1", "ff02::1", "2001:db8::1", "2001::1", "100::1"),
    *("::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::808:808", "2002:a00:1::1", "5f00::1"),
    *("fec0::1", "2001:0:7f00:1::", "2001:20::1", "3fff::1", "4000::1", "::ffff:0:127.0.0.1"),
]
METADATA = [
    *("169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"),
    *("100.100.100.200", "168.63.129.16", "169.254.170.2", "fd20:ce::254"),
]
PUBLIC = ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1"]


@pytest.mark.parametrize("address", PUBLIC)
async def test_public_addresses_are_allowed(address: str) -> None:
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
async def test_cloud_metadata_is_always_refused(address: str) -> None:
    for host in ("site.test", address):
        with pytest.raises(GatewayError, match="credentials") as error:
            await resolved(address, host=host, private=["0.0.0.0/0", "::/0"])
        assert error.value.status == 403


@pytest.mark.parametrize("listed", [["8.8.8.8", "::ffff:10.0.0.1"], ["8.8.8.8"] * 20 + ["169.254.169.254"]])
async def test_one_private_address_refuses_the_whole_name(listed: list[str]) -> None:
    with pytest.raises(GatewayError, match=r"site\.test leads to"):
        await resolved(*listed)


async def test_listed_private_networks_are_allowed() -> None:
    assert await resolved("10.1.2.3", private=["10.0.0.0/8"]) == ["10.1.2.3"]
    assert await resolved("::ffff:10.1.2.3", private=["10.0.0.0/8"]) == ["10.1.2.3"]
    assert await resolved("fd12::1", "8.8.8.8", private=["fd12::/16"]) == ["fd12::1", "8.8.8.8"]
    with pytest.raises(GatewayError, match=r"10\.1\.2\.3"):
        await resolved("10.1.2.3", private=["10.0.0.0/16", "fd00::/8"])


async def test_resolver_of_the_machine_is_used() -> None:
    found = await resolve_public(
        "localhost", 80, private=[ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1")]
    )
    assert {address.ip for address in found} <= {"127.0.0.1", "::1"}
    with pytest.raises(GatewayError, match="localhost leads to"):
        await resolve_public("localhost", 80)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@contextmanager
def deaf() -> Iterator[int]:
    """Yield a port of 127.0.0.4 whose backlog is full, so that connections hang."""
    with socket.socket() as full, ExitStack() as fillers:
        full.bind(("127.0.0.4", 0))
        full.listen(0)
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        yield full.getsockname()[1]


async def test_next_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a refusal, and after two seconds without an answer."""
    monkeypatch.setattr(addresses, "_EACH", 0.2)
    with deaf() as port:
        async with nothing_left():
            server = await asyncio.start_server(silent, "127.0.0.5", port)
            connected = await connect([Address(f"127.0.0.{end}", port) for end in (2, 4, 5)])
            assert connected.getpeername()[0] == "127.0.0.5"
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            connected.close()
            server.close()
            await server.wait_closed()
            with pytest.raises(ConnectionRefusedError, match="refused"):
                await connect([Address("127.0.0.4", port), Address("127.0.0.2", port)])


async def test_cancelled_connect_leaves_no_socket() -> None:
    with deaf() as port:
        async with nothing_left():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.4):
                    await connect([Address("127.0.0.4", port)])


@settings(max_examples=50, deadline=None)
@given(st.ip_addresses())
def test_allowed_address_is_public_in_every_form(address: Any) -> None:
    try:
        asyncio.run(resolve_public(str(address), 1))
    except GatewayError as error:
        assert error.status == 403
        return
    assert address.is_global
    assert not address.is_multicast
    for form in (getattr(address, "ipv4_mapped", None), getattr(address, "sixtofour", None)):
        assert form is None or form.is_global
