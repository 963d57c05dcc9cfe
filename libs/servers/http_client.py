"""The HTTP client for MCP servers. The SDK bounds the events of a stream; this bounds other bodies."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

import httpx2

__all__ = ["bounded_client"]

MOST_BODY: Final = 16 * 2**20
"""Bytes of the largest body of an answer, unless it is a stream of events."""


def bounded_client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Return a client for the transports of the SDK; see `mcp.shared`'s factory for the arguments.

    A body over MOST_BODY is a StreamError, and so is a compressed body: it could become a thousand times
    larger.
    """
    return httpx2.AsyncClient(
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        timeout=timeout or httpx2.Timeout(30),
        auth=auth,
        event_hooks={"response": [_bound]},
    )


async def _bound(response: httpx2.Response) -> None:
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - a client that is asynchronous
        response.stream = _Bounded(response.stream, response.headers.get("content-encoding", "identity"))


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding != "identity":
            raise httpx2.StreamError(f"the server has compressed its answer ({self._encoding[:20]})")
        size = 0
        pieces: AsyncIterable[bytes] = self._stream
        async for piece in pieces:
            size += len(piece)
            if size > MOST_BODY:
                raise httpx2.StreamError(
                    f"the result has over {MOST_BODY:,} bytes: ask the server for a part of it"
                )
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
