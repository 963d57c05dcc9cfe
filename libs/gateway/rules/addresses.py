"""Looks up addresses of a host, refuses private ones, and connects to the checked addresses."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from libs.gateway.gateway_errors import GatewayError

__all__ = [
    "Address",
    "IPAddress",
    "IPNetwork",
    "Lookup",
    "Resolve",
    "connect",
    "gives_credentials",
    "lookup",
    "resolve_public",
]

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Address:
    """A checked IP address with a port."""

    ip: str
    port: int


Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Returns the addresses of a host and port, in the order to try. Raises GatewayError."""
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks up the IP addresses of a name and port. Raises OSError."""

_MOST: Final = 8
"""Largest number of addresses to try."""
_EACH: Final = 2.0
"""Seconds until the next address is tried."""

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
"""Addresses at which clouds give credentials to their machines."""

_GLOBAL_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL: Final = tuple(
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20")  # unknown to older Pythons
)


def gives_credentials(host: str) -> bool:
    """Return whether a host in normal form is an address at which clouds give credentials: it is refused."""
    try:
        return not _METADATA.isdisjoint(_forms(_plain(ipaddress.ip_address(host))))
    except ValueError:
        return False


async def lookup(host: str, port: int) -> list[str]:
    """Look up a name with the resolver of the machine, including `/etc/hosts`. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]).partition("%")[0] for *_, address in found]


async def resolve_public(
    host: str, port: int, *, private: Sequence[IPNetwork] = (), lookup: Lookup = lookup
) -> list[Address]:
    """Return the addresses of a host, all of which are allowed.

    One forbidden address refuses the whole name, because an attacker could answer with both. An IPv6 address
    that contains an IPv4 address (NAT64, 6to4) is checked as both; a mapped one counts as IPv4.

    Args:
        host: in normal form.
        port: the port of the addresses.
        private: EGRESS_PRIVATE, private networks that are allowed.
        lookup: looks up the addresses of a name.

    Raises:
        GatewayError: 403, a private or metadata address; 502, the name is not found; 504, no answer.
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
    """Return the IPv4 address of an IPv4-mapped IPv6 address; other addresses unchanged."""
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
    """Yield the addresses to check: of NAT64 the IPv4 address, of 6to4 both, else the address."""
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
    """Return a socket that is connected to the first address that answers.

    An address has two seconds, the last one as long as the caller waits.

    Raises:
        OSError: no address answers; the error of the last one.
    """
    for address in addresses[:-1]:
        with suppress(OSError):
            async with asyncio.timeout(_EACH):
                return await _connect_to(address)
    return await _connect_to(addresses[-1])


async def _connect_to(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.ip else socket.AF_INET
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connecting, (address.ip, address.port))
    except OSError as error:
        connecting.close()
        number = error.errno or errno.EIO
        # asyncio's message contains the address instead of the reason.
        raise OSError(number, os.strerror(number)) from None
    except BaseException:
        connecting.close()
        raise
    return connecting
