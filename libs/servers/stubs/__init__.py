"""Write the Python package of an MCP server: one function for each tool.

In come the tools that a server lists. Out come the texts of the files below `/servers/<name>/`.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Sequence
from urllib.parse import quote

from mcp import Tool

__all__ = ["declaration", "package_of", "python_name", "summary_of"]


_CHANNEL = "_channel"


def python_name(text: str, fallback: str = "server") -> str:
    """Return an ASCII identifier that resembles `text`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", plain)[:60].lstrip("_")
    if not name or name[0].isdigit():
        name = f"{fallback}_{name}".rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) else name


def declaration(server: str, tool: str) -> str:
    """Return the line that code must contain in its first lines before it calls a tool that is not free."""
    return f"# uses: {quote(server, errors='surrogatepass')}.{quote(tool, errors='surrogatepass')}"


def package_of(server: str, tools: Sequence[Tool], *, free: Collection[str] = ()) -> dict[str, str]:
    """Return the files of a package: relative path -> text."""
    made = [f"from typing import Any\n\nfrom servers.{_CHANNEL} import call\n"]
    for tool in sorted(tools, key=lambda tool: tool.name):
        needs = "" if tool.name in free else f"\n\nFirst line of the code: {declaration(server, tool.name)}"
        made.append(
            f"\ndef {python_name(tool.name, 'tool')}(**arguments: Any) -> Any:\n"
            f"    return call({server!r}, {tool.name!a}, arguments)\n"
            f"\n{python_name(tool.name, 'tool')}.__doc__ = {f'{tool.description}{needs}'!a}\n"
        )
    return {"__init__.py": "\n".join(made)}


def summary_of(
    server: str, tools: Sequence[Tool], *, free: Collection[str] = (), about: str | None = None
) -> str:
    """Return the line about a server in the prompt."""
    said = f" The server says: {' '.join(about.split())[:80]}" if about else ""
    count = f"{len(tools)} functions, {sum(tool.name in free for tool in tools)} free"
    return f"- `servers.{server}`: {count} (`/servers/{server}/__init__.py`){said}"
