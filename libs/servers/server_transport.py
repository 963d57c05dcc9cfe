"""Connects to an MCP server with the transports of the SDK."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from libs.servers.server_config import ServerConfig

__all__ = ["transport_to"]

_MOST_EVENT: Final = 64 * 2**20
"""Bytes of one event of a server over HTTP."""
_ANSWER_SECONDS: Final = 300.0
"""Longest silence of a server over HTTP. A call ends earlier."""


@asynccontextmanager
async def transport_to(config: ServerConfig, ended: asyncio.Event, log: Path) -> AsyncIterator[Any]:
    """Connect to a server, and provide the streams of its messages.

    Args:
        config: how to reach the server.
        ended: set when a program has closed its output.
        log: file for the errors that a program prints.
    """
    if not config.command:
        async with _over_http(config) as streams:
            yield streams
        return
    program = StdioServerParameters(
        command=config.command, args=list(config.args), env=dict(config.env), cwd=config.cwd
    )
    with await asyncio.to_thread(_opened, log) as errors:
        async with stdio_client(program, errors) as (read, write), _watched(read, ended) as passed_on:
            yield passed_on, write


@asynccontextmanager
async def _over_http(config: ServerConfig) -> AsyncIterator[Any]:
    headers = dict(config.headers)
    if config.sse:
        async with sse_client(config.url, headers, sse_read_timeout=_ANSWER_SECONDS) as streams:
            yield streams
        return
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=_ANSWER_SECONDS)) as http,
        streamable_http_client(config.url, http_client=http, max_sse_event_size=_MOST_EVENT) as streams,
    ):
        yield streams


def _opened(log: Path) -> Any:
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w")  # noqa: PTH123 - the mode


@asynccontextmanager
async def _watched(read: Any, ended: asyncio.Event) -> AsyncIterator[Any]:
    """Pass the messages of a program on, and note its end before a call would find out."""
    into, out = anyio.create_memory_object_stream[Any](0)

    async def pass_on() -> None:
        async with into:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for message in read:
                    await into.send(message)
            ended.set()

    async with anyio.create_task_group() as tasks, out:
        tasks.start_soon(pass_on)
        try:
            yield out
        finally:
            tasks.cancel_scope.cancel()
