"""Describes tool calls for an editor: title, kind, files, content."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acp.helpers import (
    ToolCallContentVariant,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
)
from acp.schema import PlanEntry, ToolCallLocation, ToolCallStart, ToolCallStatus, ToolKind

from agent.terminal import harmless
from libs.middleware.approvals import visible

__all__ = [
    "PLAN",
    "HostPath",
    "block",
    "fenced",
    "host_path",
    "kind_of",
    "locations",
    "plan_of",
    "proposed",
    "started",
    "title_of",
]

HostPath = Callable[[str], str | None]
"""Maps a path of the sandbox to a path of the host; None for paths outside of the workspace."""
PLAN = "write_todos"
"""Name of the tool whose calls are the plan."""

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


def host_path(workspace: str | None) -> HostPath:
    """Return the mapping for a workspace folder on the host; None: the host has no such folder."""

    def find(path: str) -> str | None:
        found = _LINKED.fullmatch(path)
        if workspace is None or found is None or ".." in path.split("/"):
            return None
        return f"{workspace}/{found[1] or found[2] or ''}".rstrip("/")

    return find


def kind_of(name: str) -> ToolKind:
    """Return the kind of a tool, which sets its icon."""
    return _KINDS.get(name, "other")


def title_of(name: str, args: Mapping[str, Any]) -> str:
    """Return a title of one line. The content shows the whole call."""
    if name in ("execute", "execute_code"):
        return _one_line(str(args.get("command") or args.get("code") or name))
    keys = ("file_path", "path", "pattern", "description", "skill")
    about = next((args[key] for key in keys if args.get(key)), "")
    return _one_line(f"{name} {about}".rstrip())


def locations(args: Mapping[str, Any], on_host: HostPath) -> list[ToolCallLocation]:
    """Return the file of a call, which an editor can open."""
    path = args.get("file_path")
    found = on_host(path) if isinstance(path, str) else None
    return [ToolCallLocation(path=found)] if found else []


def proposed(
    name: str, args: Mapping[str, Any], on_host: HostPath, description: str | None = None
) -> list[ToolCallContentVariant]:
    """Return the content of a call: its description or code, and the change of a file as a diff.

    Args:
        description: the approval gate's text of the call, which is included whole.
    """
    content: list[ToolCallContentVariant] = []
    if description is not None:
        content.append(block(description))
    elif name in ("execute", "execute_code"):
        content.append(block(visible(str(args.get("command") or args.get("code") or ""))))
    path, new = args.get("file_path"), args.get("new_string" if name == "edit_file" else "content")
    if name in ("edit_file", "write_file") and isinstance(path, str) and isinstance(new, str):
        old = args.get("old_string")
        where = on_host(path) or path
        content.append(tool_diff_content(where, new, old if isinstance(old, str) else None))
    return content


def started(
    call_id: str,
    name: str,
    args: Mapping[str, Any],
    on_host: HostPath,
    *,
    status: ToolCallStatus,
    output: Sequence[ToolCallContentVariant] = (),
) -> ToolCallStart:
    """Return the first update of a call, with its output if it has ended."""
    return start_tool_call(
        call_id,
        title_of(name, args),
        kind=kind_of(name),
        status=status,
        content=[*proposed(name, args, on_host), *output],
        locations=locations(args, on_host),
        raw_input=dict(args),
    )


def plan_of(args: Mapping[str, Any]) -> list[PlanEntry]:
    """Return the to-do list in a call of `write_todos`, without malformed entries."""
    entries = []
    for todo in todos if isinstance(todos := args.get("todos"), list) else []:
        if isinstance(todo, dict) and isinstance(todo.get("content"), str):
            status: Any = todo.get("status") if todo.get("status") in _STATUSES else "pending"
            entries.append(PlanEntry(content=todo["content"], priority="medium", status=status))
    return entries


def block(text: str) -> ToolCallContentVariant:
    """Return a text as a code block in the content of a call."""
    return tool_content(text_block(fenced(text)))


def fenced(text: str) -> str:
    """Return `text` as a Markdown code block that the text cannot close, with control characters escaped."""
    text = harmless(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"


def _one_line(text: str) -> str:
    first, *others = visible(text.strip()).split("\n")
    if len(first) > _MOST_IN_TITLE:
        first = f"{first[:_MOST_IN_TITLE]}…"
    return f"{first} … ({len(others) + 1} lines)" if others else first
