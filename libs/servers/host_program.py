"""Runs an MCP server as a program on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from mcp.client.stdio import get_default_environment

from libs.servers.server_config import ServerConfig
from libs.servers.stdio_transport import MOST_LINE, Pipes

__all__ = ["host_program"]

_GRACE_SECONDS: Final = 2.0
"""Time for a program to end after its input has ended, and again after SIGTERM (MCP, Lifecycle, Shutdown)."""


@asynccontextmanager
async def host_program(config: ServerConfig) -> AsyncIterator[Pipes]:
    """Start the program. Afterwards it is ended: after the end of its input, by SIGTERM, then by SIGKILL.

    Raises:
        OSError: the program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *(config.command, *config.args),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=get_default_environment() | dict(config.env),
        cwd=config.cwd,
        start_new_session=True,
        limit=MOST_LINE,
    )
    pipes: Any = process  # typed as if there were no pipes
    try:
        yield Pipes(pipes.stdin, pipes.stdout, pipes.stderr)
    finally:
        pipes.stdin.close()
        exited = asyncio.create_task(process.wait())
        for number in (signal.SIGTERM, signal.SIGKILL):
            await asyncio.wait([exited], timeout=_GRACE_SECONDS)
            if not exited.done():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
        await asyncio.wait([exited], timeout=_GRACE_SECONDS)
        exited.cancel()
        await asyncio.wait([exited])
