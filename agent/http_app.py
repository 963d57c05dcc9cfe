"""What is put around LangGraph's server; langgraph.json names it. The parts are in `agent/server/`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware

from agent.config import load_settings
from agent.known_secrets import secret_filter
from agent.server.redacted_requests import RedactedRequests

__all__ = ["app"]

_settings = load_settings()

app = Starlette(
    routes=[],
    middleware=[  # the outermost first; they are around LangGraph's own routes too
        Middleware(RedactedRequests, known=secret_filter(_settings)),
    ],
)
