"""Connects to an MCP server: a program, or over HTTP with the transports of the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from libs.servers.host_program import host_program
from libs.servers.http_client import bounded_client
from libs.servers.sandbox_program import MakeSandbox, sandbox_program
from libs.servers.server_config import ServerConfig
from libs.servers.server_log import ServerLog
from libs.servers.stdio_transport import program_streams

__all__ = ["transport_to"]

_MOST_EVENT: Final = 64 * 2**20
"""Bytes of one event of a server over HTTP."""
_ANSWER_SECONDS: Final = 300.0
"""Longest silence of a server over HTTP. A call ends earlier."""


@asynccontextmanager
async def transport_to(
    config: ServerConfig, ended: asyncio.Event, log: ServerLog, make: MakeSandbox
) -> AsyncIterator[Any]:
    """Connect to a server, and provide the streams of its messages.

    Args:
        config: how to reach the server.
        ended: set when a program has closed its output.
        log: of the errors that a program prints.
        make: makes the sandbox of a program that runs in one.
    """
    if not config.command:
        transport = _over_http(config)
    else:
        running = sandbox_program(config, make) if config.sandbox else host_program(config)
        transport = program_streams(running, ended, log)
    async with transport as streams:
        yield streams


@asynccontextmanager
async def _over_http(config: ServerConfig) -> AsyncIterator[Any]:
    headers = dict(config.headers)
    if config.sse:
        async with sse_client(
            config.url, headers, sse_read_timeout=_ANSWER_SECONDS, httpx_client_factory=bounded_client
        ) as streams:
            yield streams
        return
    async with (
        bounded_client(headers, httpx2.Timeout(30, read=_ANSWER_SECONDS)) as http,
        streamable_http_client(config.url, http_client=http, max_sse_event_size=_MOST_EVENT) as streams,
    ):
        yield streams
