"""The file tools and `execute` of deepagents, for a sandbox in which every path is real."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deepagents.middleware.filesystem import FilesystemMiddleware as DeepagentsFilesystemMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from libs.backends.docker.backend import TOOL_CALL_ID

__all__ = ["FilesystemMiddleware"]


class FilesystemMiddleware(DeepagentsFilesystemMiddleware[Any, Any]):
    """Takes the place of deepagents' own by its name.

    It leaves out the prompt that calls routed folders unreachable from the shell (here the sandbox mounts
    them at the same path), and tells the backend which tool call a command belongs to.
    """

    def _filter_unsupported_tools_and_apply_prompt(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        filtered = super()._filter_unsupported_tools_and_apply_prompt(request)
        return filtered.override(system_message=request.system_message)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        with _tool_call(request):
            return super().wrap_tool_call(request, handler)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        with _tool_call(request):
            return await super().awrap_tool_call(request, handler)


@contextmanager
def _tool_call(request: ToolCallRequest) -> Iterator[None]:
    token = TOOL_CALL_ID.set(request.tool_call["id"])
    try:
        yield
    finally:
        TOOL_CALL_ID.reset(token)
