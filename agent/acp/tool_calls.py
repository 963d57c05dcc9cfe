"""Calls of tools as an editor shows them: a title, a kind, places, and what they would do or have done."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from acp.helpers import ToolCallContentVariant, text_block, tool_content, tool_diff_content
from acp.schema import PlanEntry, ToolCallLocation, ToolKind

from agent.show import harmless
from libs.middleware.visible import visible

__all__ = ["HostPath", "fenced", "host_path", "kind_of", "locations", "plan_of", "proposed", "title_of"]

HostPath = Callable[[str], str | None]
"""Where a path of the sandbox is on the host; None where it is not there."""

_KINDS: Mapping[str, ToolKind] = {
    "execute": "execute",
    "execute_code": "execute",
    "read_file": "read",
    "ls": "search",
    "glob": "search",
    "grep": "search",
    "edit_file": "edit",
    "write_file": "edit",
    "delete": "delete",
    "task": "think",
}
_MOST_IN_TITLE = 120
_STATUSES = ("pending", "in_progress", "completed")
_LINKED = re.compile(r"/(?:workspace/)?((?:data|scripts|results)(?:/.*)?)|/workspace(?:/(.*))?", re.DOTALL)


def host_path(workspace: str) -> HostPath:
    """Finds paths of the sandbox on the host, in the folder that is its workspace."""

    def find(path: str) -> str | None:
        found = _LINKED.fullmatch(path)
        if found is None or ".." in path.split("/"):
            return None
        return f"{workspace}/{found[1] or found[2] or ''}".rstrip("/")

    return find


def kind_of(name: str) -> ToolKind:
    """What kind of tool this is, for the icon."""
    return _KINDS.get(name, "other")


def title_of(name: str, args: Mapping[str, Any]) -> str:
    """One line that names the call. The whole of it is in its content."""
    if name in ("execute", "execute_code"):
        return _one_line(str(args.get("command") or args.get("code") or name))
    keys = ("file_path", "path", "pattern", "description", "skill")
    about = next((args[key] for key in keys if args.get(key)), "")
    return _one_line(f"{name} {about}".rstrip())


def locations(args: Mapping[str, Any], on_host: HostPath) -> list[ToolCallLocation]:
    """The file that a call is about, for an editor that follows along."""
    path = args.get("file_path")
    found = on_host(path) if isinstance(path, str) else None
    return [ToolCallLocation(path=found)] if found else []


def proposed(
    name: str, args: Mapping[str, Any], on_host: HostPath, description: str | None = None
) -> list[ToolCallContentVariant]:
    """What a call would do: the difference it makes to a file, or the whole of it as text.

    Args:
        description: what the approval gate shows of it, every character to be seen; it goes in whole.
    """
    content: list[ToolCallContentVariant] = []
    if description is not None:
        content.append(tool_content(text_block(fenced(description))))
    elif name in ("execute", "execute_code"):
        code = str(args.get("command") or args.get("code") or "")
        content.append(tool_content(text_block(fenced(visible(code)))))
    path, new = args.get("file_path"), args.get("new_string" if name == "edit_file" else "content")
    if name in ("edit_file", "write_file") and isinstance(path, str) and isinstance(new, str):
        old = args.get("old_string")
        where = on_host(path) or path
        content.append(tool_diff_content(where, new, old if isinstance(old, str) else None))
    return content


def plan_of(args: Mapping[str, Any]) -> list[PlanEntry]:
    """The to-do list that a call of `write_todos` sets."""
    return list(_entries(args.get("todos")))


def fenced(text: str) -> str:
    """`text` as a code block of Markdown that nothing in it can close; control characters written out."""
    text = harmless(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"


def _entries(todos: object) -> Iterator[PlanEntry]:
    for todo in todos if isinstance(todos, list) else []:
        if isinstance(todo, dict) and isinstance(todo.get("content"), str):
            status = todo.get("status")
            yield PlanEntry(
                content=todo["content"],
                priority="medium",
                status=status if status in _STATUSES else "pending",
            )


def _one_line(text: str) -> str:
    first, *others = visible(text.strip()).split("\n")
    if len(first) > _MOST_IN_TITLE:
        first = f"{first[:_MOST_IN_TITLE]}…"
    return f"{first} … ({len(others) + 1} lines)" if others else first
