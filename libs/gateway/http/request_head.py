"""Reads the head of a request, with a time-out, and refuses ambiguous heads.

h11 accepts some old forms (RFC 9112, 2.2 and 5.2): bare LF, folded headers, the same length twice. Such a
head could hide a second request from a lenient reader. The gateway writes each forwarded head anew, which
already prevents that; refusing the old forms is a second line of defence.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Final

import h11

from libs.gateway.gateway_errors import GatewayError, Unreadable, malformed, printable
from libs.gateway.gateway_streams import MOST_HEAD, Peer
from libs.gateway.rules import DEFAULT_PORTS, authority, no_host, normal_host, port_number

__all__ = ["Target", "absolute_target", "connect_target", "origin_target", "read_head"]

_END: Final = b"\r\n\r\n"
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BARE = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")
_LENGTH = re.compile(rb"[ \t]*[0-9]{1,18}[ \t]*")
_ONCE = (b"content-length", b"transfer-encoding", b"host")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_FIRST_LINE = re.compile(rb"[A-Z]{1,20}[ \t]+(?:[a-z]{1,10}://)?([^\x00-\x20/?#]{1,300})")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """The host, port and path that a request is for."""

    scheme: str
    host: str
    """In normal form."""
    port: int
    path: bytes = b""
    """Path and query; empty for a tunnel."""

    @property
    def host_header(self) -> bytes:
        return authority(self.scheme, self.host, self.port).encode("ascii")


async def read_head(near: Peer, seconds: float, *, wait: float | None = None) -> h11.Request | None:
    """Return the head of the next request, or None if the program has closed the connection.

    The first byte must come within `wait` seconds, or the result is None. Then `seconds` are left for the
    complete head; without `wait`, they count from now on.

    Raises:
        Unreadable: 408, too slow; 431, more than 64 KiB; 400, 417 or 505, malformed.
        OSError: the connection broke off.
    """
    began = bytearray(near.http.trailing_data[0])
    if not began and wait is not None:
        try:
            async with asyncio.timeout(wait):
                data = await near.stream.read()
        except TimeoutError:
            return None
        near.http.receive_data(data)
        if not data:
            return None
        began += data
    try:
        return await _read(near, began, seconds)
    except Unreadable as error:
        error.host = _probable_host(began)
        raise


async def _read(near: Peer, began: bytearray, seconds: float) -> h11.Request | None:
    try:
        async with asyncio.timeout(seconds):
            head = await _read_whole(near, began)
    except TimeoutError:
        raise Unreadable(408, f"the head of the request has not come within {seconds:g} s") from None
    if head is None:
        return None
    if fault := _fault(head):
        raise Unreadable(400, f"the request is malformed: {fault}")
    try:
        request = near.http.next_event()
    except h11.RemoteProtocolError as error:
        raise Unreadable(400, f"the request is malformed: {malformed(error)}") from None
    if not isinstance(request, h11.Request):
        raise Unreadable(400, "the request is malformed")
    _check(request)
    return request


def _probable_host(head: bytes | bytearray) -> str:
    """Return the host in the first line of an unreadable head, or an empty text."""
    found = _FIRST_LINE.match(head)
    return printable(found[1]) if found else ""


async def _read_whole(near: Peer, head: bytearray) -> bytes | None:
    """Read a head that begins with `head`. The parser of `near` gets all bytes, too."""
    looked_at = 0
    while True:
        if head and head[0] < 0x21:
            raise Unreadable(400, "the request is malformed: this is a proxy for HTTP")
        end = head.find(_END, max(0, looked_at - len(_END)))
        if end >= 0 and end <= MOST_HEAD:
            return bytes(head[: end + 2])
        if len(head) > MOST_HEAD:
            raise Unreadable(431, f"the head of the request has more than {MOST_HEAD:,} bytes")
        if _BARE.search(head, max(0, looked_at - 1)):
            raise Unreadable(400, "the request is malformed: a line that does not end in CR LF")
        looked_at = len(head)
        data = await near.stream.read()
        if not data:
            if head:
                raise Unreadable(400, "the request is malformed: it breaks off within its head")
            return None
        head += data
        near.http.receive_data(data)


def _fault(head: bytes) -> str | None:
    """Return what is wrong with a head that h11 accepts, or None."""
    if _CONTROL.search(head):
        return "a control character"
    if _BARE.search(head):
        return "a line that does not end in CR LF"
    names: list[bytes] = []
    for line in head.split(b"\r\n")[1:-1]:
        if line.startswith((b" ", b"\t")):
            return "a header over two lines"
        name, _, value = line.partition(b":")
        if name != name.strip():
            return "a space before a colon"
        names.append(name.lower())
        if names[-1] == b"content-length" and not _LENGTH.fullmatch(value):
            return "Content-Length is not a number"
    for name in _ONCE:
        if names.count(name) > 1:
            return f"{name.decode().title()} is there twice"
    if b"content-length" in names and b"transfer-encoding" in names:
        return "both Content-Length and Transfer-Encoding say how long it is"
    return None


def _check(request: h11.Request) -> None:
    headers = dict(request.headers)
    if request.http_version not in (b"1.0", b"1.1"):
        raise Unreadable(505, "only versions 1.0 and 1.1 of HTTP are spoken here")
    if request.http_version == b"1.0" and b"transfer-encoding" in headers:
        raise Unreadable(400, "the request is malformed: HTTP/1.0 has no Transfer-Encoding")
    if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise Unreadable(417, "nothing but 100-continue can be expected")
    if request.method == b"CONNECT" and (
        b"transfer-encoding" in headers or int(headers.get(b"content-length", b"0"))
    ):
        raise Unreadable(400, "the request is malformed: CONNECT with a body")


def connect_target(target: bytes) -> Target:
    """Parse the `host:port` of CONNECT. Raises GatewayError."""
    host, port = _authority(target.decode("ascii"), "")
    return Target("https", host, port)


def absolute_target(method: bytes, target: bytes) -> Target:
    """Parse the URL of a request to the proxy, http only. Raises GatewayError."""
    found = _URL.fullmatch(target.decode("ascii"))
    if found is None:
        raise GatewayError(
            400,
            f"{printable(target)} is not a URL: this is the gateway of the sandbox, a proxy, and serves no "
            "pages. Let HTTP_PROXY and HTTPS_PROXY name it",
        )
    scheme, where, path, fragment = found.groups()
    if scheme.lower() == "https":
        raise GatewayError(400, f"{printable(where)}: https requests must use CONNECT")
    if scheme.lower() != "http":
        raise GatewayError(
            400, f"{printable(where)}: only http and https go through, not {printable(scheme)}"
        )
    if fragment:
        raise GatewayError(400, f"{printable(where)}: the URL of a request must not have a fragment")
    host, port = _authority(where, str(DEFAULT_PORTS["http"]))
    if not path and method == b"OPTIONS":
        path = "*"  # RFC 9112, 3.2.4
    elif not path.startswith("/"):
        path = "/" + path
    return Target("http", host, port, path.encode("ascii"))


def origin_target(tunnel: Target, method: bytes, target: bytes) -> Target:
    """Parse the path of a request in a tunnel. Raises GatewayError."""
    if method == b"CONNECT" or (target != b"*" and (not target.startswith(b"/") or b"#" in target)):
        raise GatewayError(400, f"{tunnel.host}: {printable(target)} is not a path on this host")
    return Target(tunnel.scheme, tunnel.host, tunnel.port, target)


def _authority(text: str, default_port: str) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise GatewayError(400, f"{printable(text)} is not a host and port that EGRESS_ALLOW could list")
    host, port = found.groups()
    try:
        host = normal_host(host)
    except ValueError as error:
        raise GatewayError(403, no_host(host, error)) from None
    try:
        return host, port_number(default_port if port is None else port)
    except ValueError as error:
        raise GatewayError(
            400, f"{printable(text)} is refused, EGRESS_ALLOW can list no such port: {error}"
        ) from None
