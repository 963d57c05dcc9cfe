"""Shows what a call has done, for the person who decides whether that stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["described", "everything"]

_DIFF = {"+": "green", "-": "red", "@": "cyan"}
"""First character of a line of a unified diff -> style."""
_PARTS = {"deleted": "red", "changed": "yellow", "created": "green"}
"""Kind of paths -> style; deletions first."""


def described(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines of a call's description, each with its style: diffs and deleted paths are coloured."""
    effect = request.get("effect") or {}
    deleted = tuple(f"  {path}" for path in effect.get("deleted", ()))
    in_diff = False
    for line in request["description"].split("\n"):
        fence = bool(effect) and line == ("```" if in_diff else "```diff")
        in_diff ^= fence
        style = _DIFF.get(line[:1], "") if in_diff else "red" if deleted and line.startswith(deleted) else ""
        yield line, "dim" if fence else style


def everything(effect: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield all paths and the whole output of a question, line by line, each with its style."""
    more = effect.get("more") or {}
    for kind, style in _PARTS.items():
        for path in effect[kind]:
            yield f"{kind} {path}", style
        if kind in more:
            yield f"{kind} {more[kind]:,} more", style
    yield "output:" if effect["output"].strip() else "It printed nothing.", ""
    for line in effect["output"].rstrip("\n").split("\n"):
        yield f"│ {line}", "dim"
