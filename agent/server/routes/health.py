"""Serves `GET /health`, which says that the server is up. Needs no token."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from agent.server.json_exchange import answer
from agent.server.method_routes import routes
from agent.server.openapi import described

__all__ = ["ROUTES"]


class _Health(BaseModel):
    status: Literal["ok"] = "ok"


@described("Whether the server is up", answers={200: ("It is.", _Health)})
async def _health(request: Request) -> Response:  # noqa: ARG001
    return answer(_Health().model_dump())


ROUTES = routes("/health", GET=_health)
