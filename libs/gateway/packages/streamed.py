"""Files as virtual hosts answer with them: piece by piece, as fast as they are taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import BinaryIO, Final

import httpx

from libs.gateway.errors import GatewayError, shown
from libs.gateway.packages.host_settings import Index
from libs.gateway.packages.outside import Outside, refuse_failure, shown_url
from libs.gateway.protocol import ServiceResponse

__all__ = ["from_disk", "from_outside"]

_PIECE: Final = 256 * 1024
_KEPT: Final = ("Content-Type", "Content-Encoding")
"""Headers of a file that go on. None by which a program would keep it: a sandbox has little room."""


async def from_outside(outside: Outside, url: str, index: Index, method: str) -> ServiceResponse | None:
    """A file of an index; None where it is not there. Raises GatewayError."""
    stack = AsyncExitStack()
    try:
        response = await stack.enter_async_context(outside.fetch(url, index, method=method))
        if response.status_code in (404, 410):
            await stack.aclose()
            return None
        refuse_failure(response)
    except BaseException:
        await stack.aclose()
        raise
    length = response.headers.get("Content-Length", "")
    return ServiceResponse(
        200,
        _Answer(stack, response, int(length) if length.isdecimal() else None),
        _headers({name: response.headers.get(name, "") for name in _KEPT}),
    )


def from_disk(file: BinaryIO, size: int) -> ServiceResponse:
    """A file of the host, which is closed afterwards."""
    return ServiceResponse(200, _Disk(file, size), _headers({"Content-Type": "application/octet-stream"}))


def _headers(named: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in named.items() if value]


class _Answer:
    """What a host answers, byte for byte."""

    def __init__(self, stack: AsyncExitStack, response: httpx.Response, length: int | None) -> None:
        self._stack = stack
        self._response = response
        self.length = length

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        where = shown_url(self._response.url)
        try:
            async for piece in self._response.aiter_raw():
                yield piece
        except httpx.TimeoutException:
            raise GatewayError(504, f"{where} says nothing more: time is up") from None
        except httpx.HTTPError as error:
            raise GatewayError(502, f"{where} breaks off: {shown(str(error))}") from None

    async def aclose(self) -> None:
        await self._stack.aclose()


class _Disk:
    """A file of the host."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.length: int | None = size

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        left = self.length or 0
        while left:
            piece = await asyncio.to_thread(self._file.read, min(_PIECE, left))
            if not piece:
                raise GatewayError(502, "a file of a local index has become shorter while it was read")
            left -= len(piece)
            yield piece

    async def aclose(self) -> None:
        self._file.close()
