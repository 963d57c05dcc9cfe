"""`GET /health`: whether the server is up. Needs no token, and says nothing else."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from agent.server.exchange import answer
from agent.server.methods import only
from agent.server.openapi import described, object_of

__all__ = ["ROUTES"]


@described("Whether the server is up", answers={200: ("It is.", object_of({"status": {"const": "ok"}}))})
async def _health(request: Request) -> Response:  # noqa: ARG001
    return answer({"status": "ok"})


ROUTES = only("GET", "/health", _health)
