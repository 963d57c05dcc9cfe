"""Serves an editor on standard input and output until the editor closes them."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

from acp.agent.connection import AgentSideConnection
from acp.stdio import stdio_streams

from agent.acp.acp_agent import EditorAgent

__all__ = ["serve"]


def serve(directory: Path | None) -> None:
    """Serve until the end of the input. Only messages of the protocol go to standard output.

    Args:
        directory: folder with `.env`, workspace and threads; None: the current folder.
    """
    if directory is not None:
        os.chdir(directory)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("agent.acp").setLevel(logging.INFO)
    if sys.stdin.isatty():
        sys.stderr.write(
            "This is for editors: it speaks the Agent Client Protocol, one JSON object a line (see "
            "docs/editors.md). `code-agent run` is for people. Ctrl-D ends it.\n"
        )
    asyncio.run(_serve())


async def _serve() -> None:
    agent = EditorAgent()
    # The protocol has descriptors of its own. Child processes read nothing, and other prints go to standard
    # error.
    sys.stdin, sys.stdout = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    reader, writer = await stdio_streams()
    sys.stdout = sys.stderr
    connection = AgentSideConnection(lambda _: agent, writer, reader, listening=False)  # type: ignore[arg-type, return-value]
    try:
        await connection.listen()
    finally:
        await connection.close()
        await agent.close()
