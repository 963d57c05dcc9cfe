"""An MCP server for tests: `python mcp_program.py`, or `python mcp_program.py http PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
WEB = ToolAnnotations(read_only_hint=True)


def note(text: str) -> None:
    with Path(os.environ["NOTES_FILE"]).open("a") as file:
        file.write(f"{text}\n")


server = MCPServer("notes", instructions="Keeps notes.\nSecond line.")


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=READS)
def words(text: str) -> dict[str, int]:
    """Count words."""
    return {word: text.split().count(word) for word in text.split()}


@server.tool(annotations=READS)
def picture() -> Image:
    """Return a picture."""
    return Image(data=b"\x89PNG picture", format="png")


@server.tool(annotations=READS)
def fail() -> str:
    """Fail."""
    raise ValueError("the notes are locked")


@server.tool(annotations=READS)
def token() -> str:
    """Return the credential of this server."""
    return os.environ.get("NOTES_TOKEN", "")


@server.tool(annotations=READS)
def die() -> str:
    """End this server in the middle of a call."""
    os._exit(1)


@server.tool(annotations=READS)
def large(size: int) -> str:
    """Return a long text."""
    return "x" * size


@server.tool(annotations=READS)
async def wait() -> str:
    """Wait for ever. Notes the begin of the call and its cancellation."""
    note("begun")
    try:
        await asyncio.sleep(3600)
    finally:
        note("cancelled")
    return ""


@server.tool()
def write_note(text: str) -> str:
    """Write a note into the file NOTES_FILE."""
    note(text)
    return "written"


@server.tool(annotations=WEB)
def fetch(url: str) -> str:
    """Pretend to read a page."""
    return f"page of {url}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
