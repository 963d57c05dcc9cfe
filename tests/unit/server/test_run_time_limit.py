"""A run of /run ends at RUN_MAX_SECONDS, whatever its model does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from starlette.applications import Starlette

from agent.config import build_backend, load_settings
from agent.parts.process import Parts
from agent.run.runtime import Runtime
from agent.server.routes import run_routes
from agent.server.routes.run_service import Runs
from libs.models.scripted_model import Conversation, Reply, ScriptedChatModel

HELLO = Conversation(when="say hello", replies=(Reply(text="Hello."),))


class Sleepy(ScriptedChatModel):
    """A model that never answers in time."""

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(60)
        return AIMessage("never")


@pytest.mark.parametrize("grace", [30.0, -0.5])
async def test_run_ends_at_its_time_limit(tmp_path: Path, grace: float) -> None:
    settings = load_settings(None, workspace_dir=tmp_path / "workspace", run_max_seconds=1)
    made = Parts(settings, Sleepy(conversations=(HELLO,)), build_backend(settings))
    app = Starlette(routes=run_routes.ROUTES)
    app.state.runs = Runs(Runtime(made, InMemorySaver()), grace=grace)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        answer = await client.post("/run", json={"input": "say hello"})
    assert answer.status_code == 200
    told = answer.json()
    assert told["status"] == "budget_seconds"
    assert "RUN_MAX_SECONDS" in told["output"]
