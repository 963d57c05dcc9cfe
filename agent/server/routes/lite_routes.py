"""Serves `POST /run-lite`: the agent of `libs.lite`, in `sandbox-lite/` or the owner's folder in it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from agent.server.json_exchange import Refused, answer, endpoint, read_body, until_left
from agent.server.method_routes import nothing_below, routes
from agent.server.openapi import ShownStep, Task, described
from agent.settings import LITE_ROOT, Settings
from agent.threads import DRAIN, CutOff
from libs.lite import OPENAI, LiteError, LiteModel, Model, Step, run_lite

__all__ = ["ROUTES", "RunLite", "open_lite"]


RunLite = Callable[..., Coroutine[Any, Any, tuple[str, list[Step]]]]
"""`libs.lite.run_lite` with its model and settings."""

_ENDING = (
    "The server is ending or restarting, and keeps no runs of /run-lite: send the task again in a few "
    "seconds. Files that the agent has written are kept."
)
_NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)


@asynccontextmanager
async def open_lite(settings: Settings, known: Callable[[str], str] | None) -> AsyncIterator[RunLite]:
    """Return `run_lite` with the model of the settings.

    Args:
        settings: name the model.
        known: redacts secrets; None if no secret is known.
    """
    # In a thread: the client reads the machine's certificates.
    async with await asyncio.to_thread(httpx.AsyncClient, limits=_NO_LIMITS, timeout=None) as client:
        yield partial(
            run_lite,
            model=_model(settings, client),
            lenient_fences=settings.lite_lenient_fences,
            redact=known or str,
        )


def _model(settings: Settings, client: httpx.AsyncClient) -> Model:
    base_url = settings.openai_lite_base_url or settings.openai_base_url
    key = settings.openai_api_key
    if key is None and base_url is None:
        return _no_model
    return LiteModel(
        client,
        name=settings.openai_lite_model or settings.openai_model,
        base_url=base_url or OPENAI,
        api_key=key.get_secret_value() if key else None,
    )


async def _no_model(messages: object) -> str:  # noqa: ARG001
    raise LiteError(
        "OPENAI_API_KEY is not set, and run-lite needs it. Set it, or OPENAI_LITE_BASE_URL for a server of "
        "your own, in the environment or in .env."
    )


class _Task(BaseModel, strict=True):
    input: Task
    includeSteps: bool = False


class _Answered(BaseModel):
    output: str
    steps: list[ShownStep] = []


@endpoint
@described(
    "Carry out a task with three file tools",
    body=_Task,
    answers={200: ("The answer.", _Answered)},
    refusals=(400, 413, 415, 500, 503),
)
async def _run_lite(request: Request) -> Response:
    asked = await read_body(request, _Task)
    run: RunLite = request.app.state.run_lite
    root = _folder_of(request.scope.get("owner"))
    try:
        output, steps = await until_left(request, _before_the_end(partial(run, asked.input, root=root)))
    except LiteError as error:
        raise Refused(500, str(error)) from None
    return answer({"output": output, "steps": steps} if asked.includeSteps else {"output": output})


async def _before_the_end(
    run: Callable[[], Coroutine[Any, Any, tuple[str, list[Step]]]],
) -> tuple[str, list[Step]]:
    """Carry out a run; a server that ends waits for it."""
    if DRAIN.requested:
        raise Refused(503, _ENDING)
    try:
        with DRAIN.answer(), DRAIN.run():
            return await run()
    except CutOff:
        raise Refused(503, _ENDING) from None


def _folder_of(owner: str | None) -> Path:
    """Return the only folder that this owner's agent reaches.

    Its name is a hash, because file systems may not distinguish names that differ in case.
    """
    if owner is None:
        return LITE_ROOT
    return LITE_ROOT / f"owner-{hashlib.sha256(owner.encode()).hexdigest()[:32]}"


ROUTES = [*routes("/run-lite", POST=_run_lite), *nothing_below("/run-lite", "POST /run-lite")]
