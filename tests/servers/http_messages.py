"""HTTP messages as bytes: requests to a proxy, answers of a site, and the parts of both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping


def page(where: str, *headers: bytes, method: str = "GET", path: str = "/", version: str = "1.1") -> bytes:
    """Return a request to the proxy."""
    lines = [f"{method} http://{where}{path} HTTP/{version}".encode(), b"Host: x", *headers, b"", b""]
    return b"\r\n".join(lines)


def last(where: str, *headers: bytes, **line: str) -> bytes:
    """Return a request that closes its connection."""
    return page(where, b"Connection: close", *headers, **line)


def tunnel(where: str) -> bytes:
    return f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Read a head with its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    if b"content-length:" in lower:
        return head + await reader.readexactly(int(lower.split(b"content-length:")[1].split(b"\r\n")[0]))
    if b"transfer-encoding:" in lower:
        return head + await reader.readuntil(b"0\r\n\r\n")
    return head


def ok(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers, b"", b""]
    return b"\r\n".join(lines) + body


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def headers_of(message: bytes) -> Mapping[str, str]:
    lines = message.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def reason_of(answer: bytes) -> str:
    return answer.split(b"\r\n")[0].split(b" ", 2)[2].decode()
