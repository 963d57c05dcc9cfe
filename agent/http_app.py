"""Assembles the routes and guards around LangGraph's server; langgraph.json names `app`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware

from agent.secrets import KNOWN, secret_filter
from agent.server.announced import announced
from agent.server.durable.acknowledged import WrittenFirst, keep_writing
from agent.server.durable.graceful_end import OpenRequests, steps_end_first
from agent.server.durable.restore import restore_threads
from agent.server.guards.auth import TokensNeeded
from agent.server.guards.closed_routes import Closed
from agent.server.guards.openapi_document import Described
from agent.server.guards.origins import Origins, cross_origin
from agent.server.guards.own_threads import OwnThreads
from agent.server.guards.redacted_requests import RedactedRequests
from agent.server.guards.rejected_bodies import Unchecked
from agent.server.guards.request_limits import Bounds, Limits
from agent.server.mcp.mcp_routes import McpEndpoint
from agent.server.occupied import hold_folder, refuse_another_port, refuse_unusable_database, watches
from agent.server.routes import (
    grant_routes,
    health,
    lite_routes,
    page,
    page_config,
    rewind_routes,
    rule_routes,
    run_routes,
)
from agent.server.routes.files import file_routes
from agent.server.routes.lite_routes import open_lite
from agent.server.routes.run_service import open_runs
from agent.settings import load_settings

__all__ = ["app"]

logger = logging.getLogger(__name__)

_settings = load_settings()
_server = os.environ.get("LANGGRAPH_API_URL")  # set by `langgraph dev`
if _server:
    hold_folder()  # first: a server of this folder may be the program at the port
    refuse_another_port(_server)
    refuse_unusable_database(_settings)
    if watches(_settings.workspace_dir):
        logger.warning(
            "This server restarts when a .py file below %s changes, also in the workspace. To avoid "
            "restarts, start the server with `make dev` or with `langgraph dev --no-reload`.",
            Path.cwd(),
        )
    if os.environ.get("N_JOBS_PER_WORKER") == "1":  # the default of `langgraph dev`, which sets the variable
        logger.warning(
            "This server carries out one run of LangGraph's routes at a time, and the others wait. For ten "
            "at a time, start it with `make dev`, or with `langgraph dev --n-jobs-per-worker 10`."
        )
_known = secret_filter(_settings)
_bounds = Bounds(
    max_body=_settings.http_max_body,
    body_seconds=_settings.http_body_seconds,
    rate=_settings.http_rate,
    concurrency=_settings.http_concurrency,
    max_body_of={"/run-lite": 1 << 20},
)
_mcp = McpEndpoint()


@asynccontextmanager
async def _open(app: Starlette) -> AsyncIterator[None]:
    """Open what routes and threads need, inside the lifespan of LangGraph's server."""
    await asyncio.to_thread(KNOWN, "")  # the first call reads `.env`: not on the event loop
    await restore_threads()
    async with (
        keep_writing(),
        open_lite(_settings, _known) as app.state.run_lite,
        open_runs() as app.state.runs,
        _mcp.lifespan(app.state.runs),
        steps_end_first(_settings.shutdown_seconds),  # before the routes end
        announced(_server) if _server else nullcontext(),
    ):
        yield


app = Starlette(
    routes=[
        *health.ROUTES,
        *lite_routes.ROUTES,
        *run_routes.ROUTES,
        *page.ROUTES,
        *page_config.ROUTES,
        *file_routes.ROUTES,
        *rewind_routes.ROUTES,
        *rule_routes.ROUTES,
        *grant_routes.ROUTES,
        *_mcp.routes,
    ],
    middleware=[  # outermost first; LangGraph's own routes pass them too
        Middleware(OpenRequests),
        Middleware(Origins, allowed=_settings.allowed_origins),
        Middleware(cross_origin, allowed=_settings.allowed_origins),
        Middleware(TokensNeeded, tokens=_settings.auth_tokens),
        Middleware(Limits, bounds=_bounds),
        Middleware(Closed),
        Middleware(Described),
        Middleware(OwnThreads),
        Middleware(RedactedRequests, known=_known),
        Middleware(WrittenFirst),
        Middleware(Unchecked),
    ],
    lifespan=_open,
)
