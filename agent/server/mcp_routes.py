"""`/mcp`: the agents as tools of the Model Context Protocol, over streamable HTTP.

In the place of LangGraph's own `/mcp` (langgraph.json: `disable_mcp`). That one runs each call in a thread
that is gone afterwards, so a call that must be approved could never go on (langgraph-api 0.16).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from agent.server.mcp_runs import NoSuchThread, ThreadBusy, how_it_stands, run_in
from agent.server.mcp_tools import TOOLS, Arguments, answered, refused
from agent.server.methods import only

__all__ = ["McpEndpoint"]

_INSTRUCTIONS = (
    "Each tool is an agent that works on its own computer. Give it a whole task in words, and what it needs "
    "to know. Where an answer has the status `interrupted`, a person must approve what it names."
)


class McpEndpoint:
    """An ASGI application that serves the protocol, in `lifespan`, which may be entered once.

    Every request stands alone: there are no sessions to be lost. Answers are streams, so that a client that
    leaves is noticed while a tool is at work; the run is then stopped.
    """

    def __init__(self) -> None:
        server: Server[Any] = Server(
            "code-execution-agent",
            version=version("code-execution-agent"),
            title="Code Execution Agent",
            instructions=_INSTRUCTIONS,
            on_list_tools=_list_tools,
            on_call_tool=_call_tool,
        )
        self._manager = StreamableHTTPSessionManager(server, stateless=True)

    @property
    def routes(self) -> list[BaseRoute]:
        """Where it is served. Nothing but POST: there is no stream to resume, no session to end."""
        return only("POST", "/mcp", self, described=False)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """While this lasts, requests are answered."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)


async def _list_tools(
    context: ServerRequestContext[Any],  # noqa: ARG001 - the same for all
    params: PaginatedRequestParams | None,  # noqa: ARG001 - they fit on one page
) -> ListToolsResult:
    return ListToolsResult(tools=TOOLS)


async def _call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
    if params.name not in {tool.name for tool in TOOLS}:
        known = ", ".join(tool.name for tool in TOOLS)
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:100]!r}. There are {known}.")
    try:
        arguments = Arguments.model_validate(params.arguments or {})
    except ValidationError as error:
        return refused(_problem(error.errors(include_url=False)[0]))
    # Put there by whoever checked the token of this request.
    owner: str | None = context.request.scope.get("owner") if context.request is not None else None
    thread_id = str(arguments.thread_id) if arguments.thread_id else None

    async def tick(seconds: float) -> None:
        await context.session.report_progress(seconds, message=f"At work for {seconds:.0f} s")

    try:
        if thread_id is not None:
            standing = await how_it_stands(params.name, thread_id, owner)
            if arguments.input is None:
                return answered(standing)
            if standing.interrupts:
                return answered(
                    standing, refused="The input was not taken: the thread waits for an approval."
                )
        if arguments.input is None:
            raise AssertionError("Arguments has let nothing through that asks for nothing")
        return answered(await run_in(params.name, thread_id, arguments.input, owner, tick))
    except NoSuchThread:
        return refused(f"There is no thread {thread_id} of {params.name}. Leave thread_id out to begin one.")
    except ThreadBusy:
        return refused(f"Thread {thread_id} is at work: call with its thread_id alone to see how it stands.")


def _problem(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    return f"{error['loc'][0]}: {message}" if error["loc"] else message
