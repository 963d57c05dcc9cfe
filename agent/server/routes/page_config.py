"""Serves `GET /page/config`: the agents, model, settings and limits that the page needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from agent.models import calls_tools
from agent.parts import Parts, served
from agent.run import GRAPH_IDS
from agent.server.json_exchange import answer, endpoint
from agent.server.method_routes import routes
from agent.server.openapi import described
from libs.models import ModelUnavailable

__all__ = ["ROUTES"]

_ABOUT: Mapping[str, str] = {
    "deep": "Files, a shell, a plan and subagents. Needs a model that calls tools.",
    "code": "Writes blocks of Python and bash, which run in order. Works with any model.",
    "exec": "One complete program for each step, in a fresh sandbox.",
}


class _Agent(BaseModel):
    id: str
    name: str
    about: str


class _Config(BaseModel):
    agents: list[_Agent]
    default_agent: str = Field(description="The id of the agent that suits the model.")
    model: str = Field(description="The model, as MODEL names it.")
    calls_tools: bool = Field(description="Whether the model can call tools.")
    approvals: Literal["ask", "effects", "auto"]
    writes_rules: bool = Field(description="Whether the page may write rules: not for several owners.")
    sandbox_scope: Literal["shared", "thread"]
    owner: str | None = Field(description="Owner of the token; null without AUTH_TOKENS.")
    upload_bytes: int = Field(description="Largest upload in bytes.")
    version: str


@endpoint
@described("Configuration of the page", answers={200: ("This installation.", _Config)})
async def _config(request: Request) -> Response:
    made, release, able = await asyncio.to_thread(_looked_up)
    settings = made.settings
    config = _Config(
        agents=[_Agent(id=graph, name=name, about=_ABOUT[name]) for name, graph in GRAPH_IDS.items()],
        default_agent=GRAPH_IDS["deep" if able else "code"],
        model=settings.chosen_model,
        calls_tools=able,
        approvals=settings.approvals,
        writes_rules=not settings.several_owners,
        sandbox_scope=settings.scope,
        owner=request.scope.get("owner"),
        upload_bytes=settings.http_max_body,
        version=release,
    )
    return answer(config.model_dump())


def _looked_up() -> tuple[Parts, str, bool]:
    made = served()
    try:
        able = calls_tools(made.model)
    except ModelUnavailable:  # the first run reports what is missing
        able = True
    return made, version("code-execution-agent"), able


ROUTES = routes("/page/config", GET=_config)
