"""Serves the agents as tools of the Model Context Protocol at `/mcp`, over streamable HTTP.

Replaces LangGraph's own `/mcp` (langgraph.json: `disable_mcp`), which runs each call in a thread that it
deletes afterwards: a call that needs an approval could never go on (langgraph-api 0.16).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import anyio
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
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from agent.run import GRAPH_IDS
from agent.secrets import KNOWN
from agent.server.json_exchange import INTERNAL, Refused, problem
from agent.server.mcp.mcp_tools import TOOLS, Arguments, answered, refused
from agent.server.method_routes import routes
from agent.server.routes.run_service import Ended, Runs
from libs.models import ModelUnavailable

__all__ = ["McpEndpoint"]

logger = logging.getLogger(__name__)

_AGENTS = {graph: agent for agent, graph in GRAPH_IDS.items()}
"""Name of a tool -> its agent."""
_TICK_SECONDS = 5.0

Tick = Callable[[float], Awaitable[None]]
"""Called at intervals with the seconds since the run began."""

_INSTRUCTIONS = (
    "Each tool is an agent that works on its own computer. Give it a whole task in words, and what it needs "
    "to know. Where an answer has the status `interrupted`, a person must approve what it names."
)


class McpEndpoint:
    """An ASGI application that serves the protocol inside `lifespan`, which may be entered once.

    There are no sessions: each request is complete. Answers are streams, so the server notices a client that
    leaves while a tool is at work, and stops the run.
    """

    def __init__(self) -> None:
        server: Server[Any] = Server(
            "code-execution-agent",
            version=version("code-execution-agent"),
            title="Code Execution Agent",
            instructions=_INSTRUCTIONS,
            on_list_tools=_list_tools,
            on_call_tool=self._call_tool,
        )
        self._manager = StreamableHTTPSessionManager(server, stateless=True)
        self._runs: Runs

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes: only POST, because there is no stream to resume and no session to end."""
        return routes("/mcp", POST=self, described=False)

    @asynccontextmanager
    async def lifespan(self, runs: Runs) -> AsyncIterator[None]:
        """Answer requests inside the block, with `runs`."""
        self._runs = runs
        async with self._manager.run():
            yield

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        tool = params.name
        if tool not in _AGENTS:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {tool[:100]!r}. There are {', '.join(_AGENTS)}.")
        try:
            given = Arguments.model_validate(params.arguments or {})
        except ValidationError as error:
            return refused(problem(error))

        async def tick(seconds: float) -> None:
            await context.session.report_progress(seconds, message=f"At work for {seconds:.0f} s")

        agent, thread_id = _AGENTS[tool], str(given.thread_id) if given.thread_id else None
        # `TokensNeeded` has set the owner.
        owner: str | None = context.request.scope.get("owner") if context.request is not None else None
        try:
            if thread_id is not None:
                standing = await self._runs.stands(thread_id, agent=agent, owner=owner)
                if given.input is None:
                    return answered(tool, standing)
                if standing.questions:
                    return answered(
                        tool, standing, refused="The input was not taken: the thread waits for an approval."
                    )
            run = self._runs.begin(str(given.input), agent=agent, thread_id=thread_id, owner=owner)
            return answered(tool, await _finished(run, tick))
        except Refused as error:
            reason = str(error)
            if "run_id" in error.more:  # the next server continues the run
                reason += f" Call this tool with the thread_id {error.more['thread_id']} alone."
            return refused(KNOWN(reason))
        except ModelUnavailable as error:
            return refused(KNOWN(str(error)))
        except Exception:
            logger.exception("a call of %s failed", tool)
            return refused(INTERNAL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)


async def _list_tools(
    context: ServerRequestContext[Any],  # noqa: ARG001 - the same for all
    params: PaginatedRequestParams | None,  # noqa: ARG001 - they fit on one page
) -> ListToolsResult:
    return ListToolsResult(tools=TOOLS)


async def _finished(runs: Coroutine[Any, Any, Ended], tick: Tick) -> Ended:
    """Carry out a run and report the elapsed seconds at intervals.

    If the client leaves, cancel the run and wait for its end.
    """
    # In a task of its own: the request's cancelled scope would interrupt the run's clean-up.
    running = asyncio.ensure_future(runs)
    seconds = 0.0
    try:
        while not (await asyncio.wait({running}, timeout=_TICK_SECONDS))[0]:
            seconds += _TICK_SECONDS
            await tick(seconds)
        return running.result()
    finally:
        running.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({running})
