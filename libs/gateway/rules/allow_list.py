"""Parses EGRESS_ALLOW and decides which hosts are allowed, by scheme, name and port."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import idna

from libs.gateway.gateway_errors import printable
from libs.gateway.rules.addresses import gives_credentials

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

__all__ = [
    "DEFAULT_PORTS",
    "Rule",
    "Rules",
    "authority",
    "in_url",
    "is_address",
    "no_host",
    "normal_host",
    "port_number",
    "site_of",
]

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_LONGEST_NAME = 253
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
"""A last label that makes C libraries (`inet_aton`) read a name as an address."""
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_ENTRY = re.compile(r"(?:([^:/]*)://)?(\[[^\]]*\]|[^:]*)(?::(.*))?", re.DOTALL)
_NO_PART = re.compile(r"[\s\x00-\x1f\x7f/?#@\\%]")


def normal_host(host: str) -> str:
    """Return the normal form of the host of a URL. Hosts are compared in this form.

    Names are in lower case (RFC 1123, and `_`). IPv6 addresses are as in RFC 5952, without brackets;
    IPv4-mapped ones become IPv4.

    Raises:
        ValueError: the host is invalid, has a zone or a dot at the end, or is an address that programs read
            in different ways (`127.1`, `0x7f.1`, `0177.0.0.1`, `2130706433`). The message does not contain
            the host.
    """
    if not host:
        raise ValueError("it is empty")
    if host[0] == "[" or ":" in host:
        return _normal_ipv6(host)
    if not host.isascii():
        raise ValueError("it holds characters beyond ASCII")
    host = host.lower()
    if host[-1] == ".":
        raise ValueError("it ends in a dot")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise ValueError("it is not an IPv4 address of four decimal numbers") from None
    if len(host) > _LONGEST_NAME:
        raise ValueError(f"it has more than {_LONGEST_NAME} characters")
    if not _NAME.fullmatch(host):
        raise ValueError("it is not a name of letters, digits, hyphens and dots")
    return host


def _normal_ipv6(host: str) -> str:
    bare = host[1:-1] if host[0] == "[" and host[-1] == "]" else host
    if "%" in bare:
        raise ValueError("it names a zone")
    try:
        address = ipaddress.IPv6Address(bare)
    except ValueError:
        raise ValueError("it is not an IPv6 address") from None
    return str(address.ipv4_mapped or address)


def no_host(host: str, why: object) -> str:
    """Return the message for a request whose host `normal_host` refuses."""
    return f"{printable(host)} is not a host that EGRESS_ALLOW could list: {why}"


def port_number(text: str) -> int:
    """Parse the port of a URL. Raises ValueError."""
    if not _PORT.fullmatch(text) or int(text) > 65_535:
        raise ValueError(f"{printable(text, 20)!r} is not a port from 1 to 65535")
    return int(text)


def is_address(host: str) -> bool:
    """Return whether a host in normal form is an IP address."""
    return ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def in_url(host: str) -> str:
    """Return a normal host as it is written in a URL: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def authority(scheme: str, host: str, port: int) -> str:
    """Return host and port as in a URL, without the default port of the scheme."""
    return in_url(host) if DEFAULT_PORTS.get(scheme) == port else f"{in_url(host)}:{port}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of EGRESS_ALLOW."""

    host: str
    """In normal form, without the `*.` of a wildcard."""
    below: bool
    """Whether the entry is a wildcard: all names below the host, but not the host."""
    ends: frozenset[tuple[str, int]]
    """Allowed pairs of scheme and port."""

    @classmethod
    def parse(cls, entry: str) -> Rule:
        """Parse `[scheme://]host[:port]`.

        The scheme is http or https; without a scheme both are allowed. Without a port, the default port of
        each scheme is allowed. A host is a name, `*.` and a name, or an address. Names beyond ASCII are
        encoded (UTS 46).

        Raises:
            ValueError: the entry is invalid, or a wildcard over names that anybody can register (`*.com`,
                `*.co.uk`, `*.github.io`; by the public suffix list). The message names the entry.
        """
        text = entry.strip()
        try:
            return cls._parsed(text)
        except ValueError as error:
            raise ValueError(f"{printable(text)!r}: {error}") from None

    @classmethod
    def _parsed(cls, text: str) -> Rule:
        found = _ENTRY.fullmatch(text)
        if found is None or (not text.startswith("[") and "://" not in text and text.count(":") > 1):
            raise ValueError("write host, host:port or scheme://host:port, an IPv6 address in brackets")
        scheme, host, port = found.groups()
        if scheme is not None and scheme.lower() not in DEFAULT_PORTS:
            raise ValueError("the scheme must be http or https")
        if _NO_PART.search(host + (port or "")):
            raise ValueError("a host and a port, without user, path, query or spaces")
        schemes = [scheme.lower()] if scheme is not None else list(DEFAULT_PORTS)
        number = None if port is None else port_number(port)
        below = host.startswith("*.")
        host = _listed_host(host.removeprefix("*."))
        if below:
            _refuse_if_too_wide(host)
        return cls(host, below, frozenset((name, number or DEFAULT_PORTS[name]) for name in schemes))


def _listed_host(host: str) -> str:
    if host == "*":
        raise ValueError("every host is too many: name the hosts")
    if "*" in host:
        raise ValueError("* stands only at the beginning, followed by a dot")
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError as error:
            raise ValueError(f"it is not a host: {error}") from None
    host = host.removesuffix(".").lower()
    normal = normal_host(host)
    if normal != host.strip("[]"):
        raise ValueError(f"write the address as {in_url(normal)}")
    return normal


@cache
def _suffixes() -> PublicSuffixList:
    # Reading the list takes a while, and most programs never need it.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


def site_of(host: str) -> str:
    """Return the registered domain of a host, or the host itself."""
    return _suffixes().privatesuffix(host) or host


def _refuse_if_too_wide(host: str) -> None:
    if is_address(host):
        raise ValueError("an address has no names below it")
    # `any.{host}` is for suffixes such as *.ck, below which every name is a public suffix.
    if any(_suffixes().publicsuffix(name) == name for name in (host, f"any.{host}")):
        raise ValueError(f"too wide, anybody can have a name below {host}: name the hosts")


class Rules:
    """The entries of EGRESS_ALLOW. Immutable; false if empty, which allows nothing."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._hosts: dict[str, frozenset[tuple[str, int]]] = {}
        self._below: dict[str, frozenset[tuple[str, int]]] = {}
        for rule in rules:
            ends = self._below if rule.below else self._hosts
            ends[rule.host] = ends.get(rule.host, frozenset()) | rule.ends

    @classmethod
    def parse(cls, entries: Sequence[str]) -> Rules:
        """Parse the entries. Raises ValueError like `Rule.parse`."""
        return cls(Rule.parse(entry) for entry in entries)

    def __bool__(self) -> bool:
        return bool(self._hosts or self._below)

    def check(self, scheme: str, host: str, port: int) -> str | None:
        """Return why a host is not allowed, as a message for the program; None if the host is allowed.

        `scheme` is `https` for tunnels; `host` as in a URL, in any form.
        """
        try:
            host = normal_host(host)
        except ValueError as error:
            return no_host(host, error)
        if not self:
            return f"EGRESS_ALLOW is empty: {host} is refused, as every host is"
        if any((scheme, port) in ends for ends in self._ends(host)):
            return None
        if gives_credentials(host):
            return f"{host} is where clouds hand out credentials: no setting allows it"
        entry = f"{scheme}://{authority(scheme, host, port)}"
        where = authority("", host, port)
        return f"{where} is not in EGRESS_ALLOW: ask the person to add {entry} to it, or do without"

    def _ends(self, host: str) -> Iterator[frozenset[tuple[str, int]]]:
        if host in self._hosts:
            yield self._hosts[host]
        above = host if self._below else ""
        while above := above.partition(".")[2]:
            if above in self._below:
                yield self._below[above]
