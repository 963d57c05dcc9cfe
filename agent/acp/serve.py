"""`code-agent acp`: an editor at the other end of standard input and output, until it hangs up."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

from acp.agent.connection import AgentSideConnection

from agent.acp.server import EditorAgent
from agent.acp.stdio import StdioTransport, take_stdio
from agent.sinks import KNOWN

__all__ = ["serve"]


def serve(directory: Path | None) -> None:
    """Serve until the end of the input. Nothing but the protocol's messages goes to standard output.

    Args:
        directory: where `.env`, the workspace and the threads are looked for; None: the current folder.

    Raises:
        OSError: there is no such folder.
    """
    at_terminal = sys.stdin.isatty()
    source, sink = take_stdio()
    if directory is not None:
        os.chdir(directory)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("agent.acp").setLevel(logging.INFO)
    if at_terminal:
        sys.stderr.write(
            "This is for editors: it speaks the Agent Client Protocol, one JSON object a line (see "
            "docs/editors.md). `code-agent run` is for people. Ctrl-D ends it.\n"
        )
    asyncio.run(_serve(source, sink))


async def _serve(source: int, sink: int) -> None:
    agent = EditorAgent()
    transport = StdioTransport(source, sink, KNOWN.values)
    connection = AgentSideConnection(lambda _: agent, transport, listening=False)  # type: ignore[arg-type, return-value]
    try:
        await connection.listen()
    finally:
        await connection.close()
        await agent.close()
