"""Adds a section to the system prompt of a request."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage

__all__ = ["AddsSection", "with_section"]

State = TypeVar("State", bound=AgentState[Any])


def with_section(request: ModelRequest[Any], section: str) -> ModelRequest[Any]:
    """Return the request with `section` at the end of its system prompt; "" changes nothing."""
    if not section:
        return request
    before = request.system_message or SystemMessage("")
    if isinstance(before.content, str):
        text = f"{before.content}\n\n{section}" if before.content else section
        return request.override(system_message=SystemMessage(text))
    blocks: list[Any] = [*before.content_blocks, {"type": "text", "text": f"\n\n{section}"}]
    return request.override(system_message=SystemMessage(content_blocks=blocks))


class AddsSection(AgentMiddleware[State, Any, Any]):
    """Middleware that adds a section about the state to the system prompt of every model call."""

    @abstractmethod
    def section(self, state: Any) -> str:
        """Return the section, or "" for none."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(with_section(request, self.section(request.state)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return await handler(with_section(request, self.section(request.state)))
