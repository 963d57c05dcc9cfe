"""What is put around LangGraph's server; langgraph.json names it. The parts are in `agent/server/`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware

from agent.config import load_settings
from agent.known_secrets import secret_filter
from agent.server import file_routes, grant_routes, health, lite_routes, page, page_config, run_routes
from agent.server.acknowledged import WrittenFirst, keep_writing
from agent.server.auth import TokensNeeded
from agent.server.closed import Closed
from agent.server.described import Described
from agent.server.limits import Bounds, Limits
from agent.server.lite_routes import open_lite
from agent.server.mcp_routes import McpEndpoint
from agent.server.origins import Origins, cross_origin
from agent.server.own_threads import OwnThreads
from agent.server.redacted_requests import RedactedRequests
from agent.server.restore import restore_threads
from agent.server.runs import open_runs
from agent.server.unchecked import Unchecked
from agent.sinks import KNOWN

__all__ = ["app"]

logger = logging.getLogger(__name__)

_settings = load_settings()
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
    """What routes and threads need, as long as requests are answered; inside what LangGraph does so."""
    await asyncio.to_thread(KNOWN, "")  # reads `.env` when it is first asked: not on the event loop
    app.state.page = await asyncio.to_thread(page.read_bundle, page.BUNDLE)
    await restore_threads()
    async with (
        keep_writing(),
        open_lite(_settings, _known) as app.state.run_lite,
        open_runs() as app.state.runs,
        _mcp.lifespan(),
    ):
        if app.state.page and (server := os.environ.get("LANGGRAPH_API_URL")):  # set by `langgraph dev`
            logger.info("The page: %s/app", server)
        yield


app = Starlette(
    routes=[
        *health.ROUTES,
        *lite_routes.ROUTES,
        *run_routes.ROUTES,
        *page.ROUTES,
        *page_config.ROUTES,
        *file_routes.ROUTES,
        *grant_routes.ROUTES,
        *_mcp.routes,
    ],
    middleware=[  # the outermost first; they are around LangGraph's own routes too
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
