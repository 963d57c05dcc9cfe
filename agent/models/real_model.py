"""Puts the real model into each call of a deferred model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse

from libs.middleware.kept_calls import kept_reply
from libs.models import DeferredChatModel

__all__ = ["RealModel"]


class RealModel(AgentMiddleware[Any, Any, Any]):
    """Replaces a deferred model by the real model, so that prompt caching recognizes Anthropic's models.

    Answers calls that cannot be kept: see `kept_reply`. List this middleware before the gates, which give the
    calls their ids.

    Args:
        errors: makes a context that explains and redacts errors while the model is built and called.
    """

    def __init__(self, errors: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        super().__init__()
        self._errors = errors

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        with self._errors():
            return _kept(handler(_with_real_model(request)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        with self._errors():
            # In a thread, because building imports packages and reads certificates.
            return _kept(await handler(await asyncio.to_thread(_with_real_model, request)))


def _with_real_model(request: ModelRequest[Any]) -> ModelRequest[Any]:
    if isinstance(request.model, DeferredChatModel):
        return request.override(model=request.model.build())
    return request


def _kept(response: ModelResponse[Any]) -> ModelResponse[Any]:
    return replace(response, result=kept_reply(response.result))
