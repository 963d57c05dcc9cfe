"""`GET /page/config`: what the page shows of this installation, and what it may send."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agent.agents import GRAPH_IDS
from agent.models import calls_tools
from agent.served import Served, served
from agent.server.exchange import answer, endpoint
from agent.server.methods import only
from agent.server.openapi import Schema, described, object_of
from libs.models.deferred import ModelUnavailable

__all__ = ["ROUTES"]

_ABOUT: Mapping[str, str] = {
    "deep": "Files, a shell, a plan and subagents. Needs a model that calls tools.",
    "code": "Writes blocks of Python and bash, which run in order. Works with any model.",
    "exec": "One complete program for each step, in a fresh sandbox.",
}

_STRING: Schema = {"type": "string"}
_CONFIG = object_of(
    {
        "agents": {"type": "array", "items": object_of({"id": _STRING, "name": _STRING, "about": _STRING})},
        "default_agent": {"type": "string", "description": "The id of the one that suits the model."},
        "model": {"type": "string", "description": "As MODEL names it."},
        "calls_tools": {"type": "boolean", "description": "Whether that model can be given tools."},
        "approvals": {"enum": ["ask", "auto"]},
        "sandbox_scope": {"enum": ["shared", "thread"]},
        "owner": {"type": ["string", "null"], "description": "Whose token this is; null: nobody has one."},
        "upload_bytes": {"type": "integer", "description": "Bytes that a file sent here may have."},
        "version": _STRING,
    }
)


@endpoint
@described("What the page needs to know", answers={200: ("This installation.", _CONFIG)})
async def _config(request: Request) -> Response:
    made, release, able = await asyncio.to_thread(_looked_up)
    settings = made.settings
    told: dict[str, Any] = {
        "agents": [
            {"id": graph, "name": name, "about": _ABOUT.get(name, "")} for name, graph in GRAPH_IDS.items()
        ],
        "default_agent": GRAPH_IDS["deep" if able else "code"],
        "model": settings.chosen_model,
        "calls_tools": able,
        "approvals": settings.approvals,
        "sandbox_scope": settings.scope,
        "owner": request.scope.get("owner"),
        "upload_bytes": settings.http_max_body,
        "version": release,
    }
    return answer(told)


def _looked_up() -> tuple[Served, str, bool]:
    made = served()
    try:
        able = calls_tools(made.model)
    except ModelUnavailable:  # the first message says what is missing
        able = True
    return made, _release(), able


@functools.cache
def _release() -> str:
    return version("code-execution-agent")


ROUTES = only("GET", "/page/config", _config)
