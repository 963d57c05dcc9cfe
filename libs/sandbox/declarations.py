"""Reads which tools of MCP servers a command declares. What is declared is approved with the command."""

from __future__ import annotations

import re

__all__ = ["declared_uses"]

_LINE = re.compile(r"#\s*uses:(.*)", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d]\w*\.\S+")


def declared_uses(text: object) -> tuple[str, ...]:
    """Return the tools that a command or program declares in its first lines, as `server.tool`.

    A declaration is a comment before any code, such as `# uses: github.create_issue, files.write`. There may
    be several. Blank lines and other comments may stand between them.
    """
    found: dict[str, None] = {}
    # Not `splitlines`, which knows line ends that Python and bash do not.
    for line in text.split("\n") if isinstance(text, str) else ():
        if not line.strip():
            continue
        if not line.startswith("#"):
            break
        if match := _LINE.fullmatch(line):
            found.update(
                dict.fromkeys(name for name in re.split(r"[\s,]+", match[1]) if _NAME.fullmatch(name))
            )
    return tuple(found)
