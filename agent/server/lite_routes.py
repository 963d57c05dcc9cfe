"""`POST /run-lite`: the agent of `libs.lite`, in the folder `sandbox-lite/` or an owner's own one in it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx
from starlette.requests import Request
from starlette.responses import Response

from agent.config import LITE_ROOT, Settings
from agent.server.exchange import Refused, answer, endpoint, read_object, until_left
from agent.server.fields import include_steps, task_in
from agent.server.methods import nothing_below, only
from agent.server.openapi import INPUT, STEPS, described, object_of
from libs.lite import LiteError, LiteModel, Model, Step, run_lite
from libs.lite.model import OPENAI

__all__ = ["ROUTES", "RunLite", "open_lite"]


class RunLite(Protocol):
    """Carries out a task in a folder: see `libs.lite.run_lite`."""

    def __call__(self, task: str, *, root: Path) -> Coroutine[Any, Any, tuple[str, list[Step]]]: ...


_NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)


@asynccontextmanager
async def open_lite(settings: Settings, known: Callable[[str], str] | None) -> AsyncIterator[RunLite]:
    """What carries out the requests of this route, with the model that the settings name.

    Args:
        settings: name it.
        known: takes secrets out; None: nothing is known.
    """
    # In a thread: it reads the certificates of this machine.
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


@endpoint
@described(
    "Carry out a task with three file tools",
    body=object_of({"input": INPUT}, includeSteps={"type": "boolean", "default": False}),
    answers={200: ("The answer.", object_of({"output": {"type": "string"}}, steps=STEPS))},
    refusals=(400, 413, 415, 500),
)
async def _run_lite(request: Request) -> Response:
    body = await read_object(request)
    task, with_steps = task_in(body), include_steps(body)
    run: RunLite = request.app.state.run_lite
    root = _folder_of(request.scope.get("owner"))
    try:
        output, steps = await until_left(request, run(task, root=root))
    except LiteError as error:
        raise Refused(500, str(error)) from None
    return answer({"output": output, "steps": steps} if with_steps else {"output": output})


def _folder_of(owner: str | None) -> Path:
    """The files that this owner's agent reaches: nobody else's are below it, and it can go nowhere else.

    A hash: names may differ in ways that file systems do not keep apart.
    """
    if owner is None:
        return LITE_ROOT
    return LITE_ROOT / f"owner-{hashlib.sha256(owner.encode()).hexdigest()[:32]}"


ROUTES = [*only("POST", "/run-lite", _run_lite), *nothing_below("/run-lite", "POST /run-lite")]
