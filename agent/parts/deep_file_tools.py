"""The file tools and `execute` of deepagents, adapted to the sandbox."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

from deepagents.middleware.filesystem import FilesystemMiddleware as DeepagentsFilesystemMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from libs.middleware.open_calls import call_key, open_calls
from libs.sandbox import FOLDERS
from libs.sandbox.host import CurrentCall, carrying

__all__ = ["FilesystemMiddleware", "call_of", "with_artifact"]

_CHANGING = {"execute", "write_file", "edit_file", "delete"}
"""Tools with effects, which must not run twice."""
_DRIVE = re.compile("[A-Za-z]:")


class FilesystemMiddleware(DeepagentsFilesystemMiddleware[Any, Any]):
    """Replaces deepagents' middleware of the same name.

    This class omits deepagents' prompt, which says that the shell cannot reach routed folders: here the
    sandbox mounts them at the same path. It passes the id of each tool call to the backend, so that a
    resumed run carries out no call twice. It refuses a path with a backslash: deepagents would put a slash in
    its place, and reach another file than the call names. It refuses to write to a path that names a folder,
    such as `src/`: deepagents would leave the slash out, and make a file `src`. It refuses a relative path
    that a command would take for another file, such as `tmp/x`: deepagents would take `/tmp/x`, and a command
    `/workspace/tmp/x`. And it refuses a parameter that a tool does not have, such as `cwd`: deepagents would
    leave it out, and do something else than the call says. Of several changes of one file in a reply,
    deepagents runs the first only; here a change that a person has rejected is not the first.
    """

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        prompt = request.system_message
        return super().wrap_model_call(request, lambda asked: handler(asked.override(system_message=prompt)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        prompt = request.system_message
        return await super().awrap_model_call(
            request, lambda asked: handler(asked.override(system_message=prompt))
        )

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        if refused := self._refused(request):
            return refused

        # Not around the middleware's own work, such as writing a long result to a file.
        def once(_: ToolCallRequest) -> ToolMessage | Command[Any]:
            with call_of(request, keyed=_CHANGING) as call:
                return with_artifact(handler(request), call)

        return super().wrap_tool_call(_among_open_calls(request), once)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        if refused := self._refused(request):
            return refused

        async def once(_: ToolCallRequest) -> ToolMessage | Command[Any]:
            with call_of(request, keyed=_CHANGING) as call:
                return with_artifact(await handler(request), call)

        return await super().awrap_tool_call(_among_open_calls(request), once)

    def _refused(self, request: ToolCallRequest) -> ToolMessage | None:
        """Return the answer to a call that would not be carried out as it is written."""
        call = request.tool_call
        tool = next((tool for tool in self.tools if tool.name == call["name"]), None)
        told = _not_as_written(tool, call["args"]) if tool else ""
        return ToolMessage(told, name=call["name"], tool_call_id=call["id"], status="error") if told else None


def _among_open_calls(request: ToolCallRequest) -> ToolCallRequest:
    """Return the request with a reply of which only the calls without an answer are left."""
    messages = request.state.get("messages") or []
    reply = next((each for each in reversed(messages) if isinstance(each, AIMessage)), None)
    if reply is None:
        return request
    left = reply.model_copy(update={"tool_calls": open_calls(messages)})
    return request.override(state={**request.state, "messages": [left]})


def _not_as_written(tool: BaseTool, args: Mapping[str, Any]) -> str:
    """Return why a call cannot be carried out as it is written, or nothing."""
    for key in ("file_path", "path"):
        if "\\" in (path := str(args.get(key, ""))):
            return (
                f"Error: the path '{path}' has a backslash. Write / between folders. Only a command "
                "reaches a name that has a backslash."
            )
    given = args.get("file_path") or args.get("path")
    if isinstance(given, str) and _names_another(given):
        return (
            f"Error: the path '{given[:200]}' is relative. This tool would take it from /, and a command "
            "from /workspace. Write the whole path, which begins with /."
        )
    if tool.name == "write_file" and str(given).endswith(("/", "/.")):
        return f"Error: the path '{given}' names a folder: give the path of a file."
    if others := [key for key in args if key not in tool.args]:
        return (
            f"Error: {tool.name} has no parameter {others[0][:80]!r}, so it did nothing. Its parameters are "
            f"{', '.join(tool.args)}."
        )
    return ""


def _names_another(path: str) -> bool:
    """Return whether a path is relative, and a command would take another file for it."""
    if path.startswith(("/", "~")) or _DRIVE.match(path):  # deepagents itself refuses the latter two
        return False
    first = posixpath.normpath(path).partition("/")[0]
    # `.` can only be listed or searched, and results have whole paths. `/data` is the workspace's `data`.
    return first not in {".", "..", *FOLDERS}


def call_of(request: ToolCallRequest, *, keyed: Collection[str]) -> AbstractContextManager[CurrentCall]:
    """Return a context with the call of a request as the current call, with a key for tools in `keyed`."""
    name, call_id = request.tool_call["name"], request.tool_call["id"]
    key = call_key(request.state.get("messages") or [], call_id) if name in keyed else None
    return carrying(call_id, key)


def with_artifact(answer: ToolMessage | Command[Any], call: CurrentCall) -> ToolMessage | Command[Any]:
    """Return the answer of a tool with the result of its call as the artifact of its message."""
    update = {"messages": [answer]} if isinstance(answer, ToolMessage) else answer.update
    for message in update.get("messages", []) if isinstance(update, dict) else []:
        if isinstance(message, ToolMessage) and call.artifact is not None:
            message.artifact = call.artifact
    return answer
