"""The head of a request: read whole and in time, and refused wherever two readers could read it in two ways.

h11 is lenient where old programs were (RFC 9112, 2.2 and 5.2): a line that ends in a bare LF, a folded
header, the same length twice. What is forwarded is written anew from what was read, so that none of it could
smuggle a second request; here it is refused nevertheless, so that nobody has to rely on that.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Final

import h11

from libs.gateway.errors import GatewayError, Unreadable, malformed, shown
from libs.gateway.rules import DEFAULT_PORTS, authority, no_host, normal_host, port_number
from libs.gateway.streams import MOST_HEAD, Peer

__all__ = ["Target", "absolute_target", "connect_target", "origin_target", "read_head"]

_END: Final = b"\r\n\r\n"
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BARE = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")
_LENGTH = re.compile(rb"[ \t]*[0-9]{1,18}[ \t]*")
_ONCE = (b"content-length", b"transfer-encoding", b"host")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_SEEMS_FOR = re.compile(rb"[A-Z]{1,20}[ \t]+(?:[a-z]{1,10}://)?([^\x00-\x20/?#]{1,300})")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is for."""

    scheme: str
    host: str
    """In normal form."""
    port: int
    path: bytes = b""
    """Path and query as they are sent on; empty for a tunnel."""

    @property
    def host_header(self) -> bytes:
        return authority(self.scheme, self.host, self.port).encode("ascii")


async def read_head(near: Peer, seconds: float, *, wait: float | None = None) -> h11.Request | None:
    """The next request, without its body; None where the program has closed the connection.

    Args:
        near: the program's side.
        seconds: for the whole head, from its first byte on.
        wait: for the first byte, as long as nothing is answered where none comes; else that counts too.

    Raises:
        Unreadable: 408, it took longer; 431, it has more than 64 KiB; 400, 417, 505, it is malformed.
        OSError: the program is gone.
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
        error.host = _seems_for(began)
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


def _seems_for(head: bytes | bytearray) -> str:
    """The host in the first line of what may be the beginning of a head, as it may be shown; or nothing."""
    found = _SEEMS_FOR.match(head)
    return shown(found[1]) if found else ""


async def _read_whole(near: Peer, head: bytearray) -> bytes | None:
    """The head up to its end, from what has come of it. `near` is handed all that is read."""
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
    """What is wrong with a head that h11 would let pass."""
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
            return "Content-Length is no number"
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
    """`host:port` of CONNECT. Raises GatewayError."""
    host, port = _authority(target.decode("ascii"), "")
    return Target("https", host, port)


def absolute_target(method: bytes, target: bytes) -> Target:
    """The URL of a request to a proxy, http alone. Raises GatewayError."""
    found = _URL.fullmatch(target.decode("ascii"))
    if found is None:
        raise GatewayError(
            400,
            f"{shown(target)} is no URL: this is the gateway of the sandbox, a proxy, and serves no pages. "
            "Let HTTP_PROXY and HTTPS_PROXY name it",
        )
    scheme, where, path, fragment = found.groups()
    if scheme.lower() == "https":
        raise GatewayError(400, f"{shown(where)}: what is https goes through the gateway by CONNECT")
    if scheme.lower() != "http":
        raise GatewayError(400, f"{shown(where)}: only http and https go through, not {shown(scheme)}")
    if fragment:
        raise GatewayError(400, f"{shown(where)}: a URL that is asked for has no fragment")
    host, port = _authority(where, str(DEFAULT_PORTS["http"]))
    if not path and method == b"OPTIONS":
        path = "*"  # RFC 9112, 3.2.4
    elif not path.startswith("/"):
        path = "/" + path
    return Target("http", host, port, path.encode("ascii"))


def origin_target(tunnel: Target, method: bytes, target: bytes) -> Target:
    """What is asked for within a tunnel. Raises GatewayError."""
    if method == b"CONNECT" or (target != b"*" and (not target.startswith(b"/") or b"#" in target)):
        raise GatewayError(400, f"{tunnel.host}: {shown(target)} is no path of it")
    return Target(tunnel.scheme, tunnel.host, tunnel.port, target)


def _authority(text: str, default_port: str) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise GatewayError(400, f"{shown(text)} is no host and port that EGRESS_ALLOW could list")
    host, port = found.groups()
    try:
        host = normal_host(host)
    except ValueError as error:
        raise GatewayError(403, no_host(host, error)) from None
    try:
        return host, port_number(default_port if port is None else port)
    except ValueError as error:
        raise GatewayError(
            400, f"{shown(text)} is refused, EGRESS_ALLOW can list no such port: {error}"
        ) from None
