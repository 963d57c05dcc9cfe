"""Streams files of an index, or of the disk, as answers of virtual hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import BinaryIO, Final

import httpx

from libs.gateway.gateway_errors import GatewayError, printable
from libs.gateway.gateway_protocol import Body, ServiceResponse
from libs.gateway.packages.host_index_settings import Index
from libs.gateway.packages.index_client import IndexClient, origin_text, refuse_failure

__all__ = ["from_disk", "from_outside"]

_PIECE: Final = 256 * 1024
_KEPT: Final = ("Content-Type", "Content-Encoding")
"""Headers that are passed on. Cache headers are not, because a sandbox has little room."""


async def from_outside(client: IndexClient, url: str, index: Index, method: str) -> ServiceResponse | None:
    """Return a file of an index, or None if it does not exist. Raises GatewayError."""
    async with AsyncExitStack() as stack:
        response = await stack.enter_async_context(client.fetch(url, index, method=method))
        if response.status_code in (404, 410):
            return None
        refuse_failure(response)
        length = response.headers.get("Content-Length", "")
        headers = [
            (name.encode(), response.headers[name].encode("latin-1"))
            for name in _KEPT
            if name in response.headers
        ]
        kept = stack.pop_all()
    body = Body(_pieces(response), int(length) if length.isdecimal() else None, kept.aclose)
    return ServiceResponse(200, body, headers)


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    where = origin_text(response.url)
    try:
        async for piece in response.aiter_raw():
            yield piece
    except httpx.TimeoutException:
        raise GatewayError(504, f"{where} says nothing more: time is up") from None
    except httpx.HTTPError as error:
        raise GatewayError(502, f"{where} breaks off: {printable(str(error))}") from None


def from_disk(file: BinaryIO, size: int) -> ServiceResponse:
    """Return an open file of the host. The file is closed after the answer."""

    async def pieces() -> AsyncIterator[bytes]:
        left = size
        while left:
            piece = await asyncio.to_thread(file.read, min(_PIECE, left))
            if not piece:
                raise GatewayError(502, "a file of a local index has become shorter while it was read")
            left -= len(piece)
            yield piece

    async def close() -> None:
        file.close()

    return ServiceResponse(200, Body(pieces(), size, close), [(b"Content-Type", b"application/octet-stream")])
