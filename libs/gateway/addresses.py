"""Where a name leads: to a public address, or the request ends; then connecting to just that address."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from libs.gateway.errors import GatewayError

__all__ = ["Address", "IPAddress", "IPNetwork", "Lookup", "Resolve", "connect", "lookup", "resolve_public"]

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect to: checked, and not a name any more."""

    ip: str
    port: int


Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Host and port to addresses, in the order to try. Raises GatewayError."""
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""A name and a port to IP addresses. Raises OSError."""

_MOST: Final = 8
"""Addresses of a name that are tried."""
_BESIDE: Final = 0.25
"""Seconds until the next address is tried beside one that has not answered (RFC 8305)."""

_UNDER_WAY: Final = (errno.EINPROGRESS, errno.EALREADY)
"""What a socket that waits for nothing says of a connection that is being made, connect(2)."""

_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # most clouds
        "fd00:ec2::254",  # AWS
        "fd20:ce::254",  # Google
        "169.254.170.2",  # AWS: credentials of containers
        "169.254.170.23",
        "fd00:ec2::23",
        "168.63.129.16",  # Azure
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
    )
)
"""Where machines in a cloud are given credentials."""

_GLOBAL_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL: Final = tuple(
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20")  # newer than some Pythons
)


async def lookup(host: str, port: int) -> list[str]:
    """What the host's own resolver says, `/etc/hosts` included; see `libs.gateway.names`. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]).partition("%")[0] for *_, address in found]


async def resolve_public(
    host: str, port: int, *, private: Sequence[IPNetwork] = (), lookup: Lookup = lookup
) -> list[Address]:
    """The addresses of a host, each of which may be reached.

    One that may not refuses the whole name: who answers with both would have the choice which is taken. An
    IPv6 address that leads to an IPv4 address (NAT64, 6to4) is looked at as both; a mapped one is that one.

    Args:
        host: in normal form.
        port: of all the addresses.
        private: EGRESS_PRIVATE, networks that may be reached although they are not public.
        lookup: asks for the addresses of a name.

    Raises:
        GatewayError: 403, it leads to a private address or to metadata; 502, nowhere; 504, nobody says where.
    """
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        found = await _looked_up(host, port, lookup)
    else:
        found = [_plain(literal)]
    for address in found:
        if why := _refusal(address, private):
            leads = f"{host} is" if str(address) == host else f"{host} leads to {address}, which is"
            raise GatewayError(403, f"{leads} {why}")
    return [Address(str(address), port) for address in found[:_MOST]]


async def _looked_up(host: str, port: int, lookup: Lookup) -> list[IPAddress]:
    try:
        names = await lookup(host, port)
    except TimeoutError as error:
        raise GatewayError(504, f"{host} is not found: {error}") from None
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "the name cannot be looked up"
        raise GatewayError(502, f"{host} is not found: {why}") from None
    if not names:
        raise GatewayError(502, f"{host} is not found: it has no address")
    return list(dict.fromkeys(_plain(ipaddress.ip_address(name)) for name in names))


def _plain(address: IPAddress) -> IPAddress:
    """The IPv4 address where it is one that is written as IPv6."""
    return getattr(address, "ipv4_mapped", None) or address


def _refusal(address: IPAddress, private: Sequence[IPNetwork]) -> str | None:
    forms = list(_forms(address))
    if _METADATA.intersection(forms):
        return "where clouds hand out credentials: no setting allows it, EGRESS_PRIVATE neither"
    if _listed(address, private) or all(_is_public(form) or _listed(form, private) for form in forms):
        return None
    return "private: EGRESS_PRIVATE does not list it"


def _listed(address: IPAddress, networks: Sequence[IPNetwork]) -> bool:
    return any(address in network for network in networks)


def _forms(address: IPAddress) -> Iterator[IPAddress]:
    """The address, and what it leads to where it is one on the way to another."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.sixtofour:
            yield address.sixtofour
        if address in _NAT64:
            yield ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
            return
    yield address


def _is_public(address: IPAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_IPV6:
        return False
    return address.is_global and not address.is_multicast and not _listed(address, _SPECIAL)


async def connect(addresses: Sequence[Address]) -> socket.socket:
    """A connection to the first address that answers. Nothing else stays open.

    Raises:
        OSError: none does; what the first of them says.
    """
    if len(addresses) == 1:
        return await _connect_to(addresses[0])
    loop = asyncio.get_running_loop()
    waiting = list(addresses)
    pending: set[asyncio.Task[socket.socket]] = set()
    errors: list[OSError] = []
    try:
        while waiting or pending:
            if waiting:
                pending.add(loop.create_task(_connect_to(waiting.pop(0))))
            beside = _BESIDE if waiting else None
            done, _ = await asyncio.wait(pending, timeout=beside, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                pending.discard(task)
                try:
                    connected = task.result()
                except OSError as error:
                    errors.append(error)
                else:
                    return connected
    finally:
        for task in pending:
            task.cancel()
        for late in await asyncio.gather(*pending, return_exceptions=True):
            if isinstance(late, socket.socket):
                late.close()
    raise errors[0] if errors else OSError("no address")


async def _connect_to(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.ip else socket.AF_INET
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        where = (address.ip, address.port)
        number = connecting.connect_ex(where)
        if number == errno.EINPROGRESS:
            # What is on this machine has answered by now; anything else is waited for.
            number = connecting.connect_ex(where)
        if number in _UNDER_WAY:
            try:
                await asyncio.get_running_loop().sock_connect(connecting, where)
            except OSError as error:
                number = error.errno or errno.EIO
            else:
                number = 0
        if number not in (0, errno.EISCONN):  # which BSD says where Linux says nothing
            raise OSError(number, os.strerror(number))
    except BaseException:
        connecting.close()
        raise
    return connecting
