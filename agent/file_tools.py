"""The file tools and `execute` of deepagents, for a sandbox in which every path is real."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deepagents.middleware.filesystem import FilesystemMiddleware as DeepagentsFilesystemMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

from libs.backends.docker.backend import CALL_KEY, TOOL_CALL_ID

__all__ = ["FilesystemMiddleware", "call_key"]

_CHANGING = {"execute", "write_file", "edit_file", "delete"}
"""Tools that do what is not to be done twice."""


class FilesystemMiddleware(DeepagentsFilesystemMiddleware[Any, Any]):
    """Takes the place of deepagents' own by its name.

    It leaves out the prompt that calls routed folders unreachable from the shell (here the sandbox mounts
    them at the same path), and tells the backend which tool call a command belongs to, so that a call of a
    run that is executed again after a kill is not carried out twice.
    """

    def _filter_unsupported_tools_and_apply_prompt(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        filtered = super()._filter_unsupported_tools_and_apply_prompt(request)
        return filtered.override(system_message=request.system_message)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:

        # Not around what the middleware does itself, such as putting a long result into a file.
        def once(request: ToolCallRequest) -> ToolMessage | Command[Any]:
            began = time.monotonic()
            with _keyed(request):
                return _timed(handler(request), began)

        with _tool_call(request):
            return super().wrap_tool_call(request, once)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:

        async def once(request: ToolCallRequest) -> ToolMessage | Command[Any]:
            began = time.monotonic()
            with _keyed(request):
                return _timed(await handler(request), began)

        with _tool_call(request):
            return await super().awrap_tool_call(request, once)


def _timed(answer: ToolMessage | Command[Any], began: float) -> ToolMessage | Command[Any]:
    """The answer; that of a command says how many seconds it took, beside its exit code."""
    if (
        isinstance(answer, ToolMessage)
        and isinstance(answer.artifact, dict)
        and "exit_code" in answer.artifact
    ):
        answer.artifact["seconds"] = round(time.monotonic() - began, 3)
    return answer


@contextmanager
def _tool_call(request: ToolCallRequest) -> Iterator[None]:
    token = TOOL_CALL_ID.set(request.tool_call["id"])
    try:
        yield
    finally:
        TOOL_CALL_ID.reset(token)


@contextmanager
def _keyed(request: ToolCallRequest) -> Iterator[None]:
    changing = request.tool_call["name"] in _CHANGING
    token = CALL_KEY.set(call_key(request) if changing else None)
    try:
        yield
    finally:
        CALL_KEY.reset(token)


def call_key(request: ToolCallRequest) -> str | None:
    """What tells a call from every other one of its thread: its id, behind that of its reply, as some models
    count their calls anew in each."""
    call_id = request.tool_call["id"]
    if not call_id:
        return None
    for message in reversed(request.state.get("messages") or []):
        if isinstance(message, AIMessage) and any(call["id"] == call_id for call in message.tool_calls):
            return f"{message.id}/{call_id}" if message.id else call_id
    return call_id
