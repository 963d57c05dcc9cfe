"""Tells the model which paths of the task do not exist, and saves them in the state, for the person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NotRequired

from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage
from langgraph.runtime import Runtime

from agent.listing.task_paths import NamedPath, named_paths
from agent.prompts import absent_section
from libs.middleware.program_messages import by_person
from libs.sandbox.host import blocking

__all__ = ["SaysAbsentPaths", "absent_line"]


def absent_line(path: str) -> str:
    """Return the sentence that tells a person of an absent path."""
    return f"{path} is not there."


class AbsentPathsState(AgentState[Any]):
    absent_paths: NotRequired[list[str]]
    """Paths that the latest task names and that did not exist when the run began."""


class SaysAbsentPaths(AgentMiddleware[AbsentPathsState, Any, Any]):
    """Looks for the paths of the task when a run begins, and adds the absent ones to the system prompt.

    Args:
        absent: returns those of the named paths that do not exist.
    """

    state_schema = AbsentPathsState

    def __init__(self, absent: Callable[[Sequence[NamedPath]], Awaitable[list[str]]]) -> None:
        super().__init__()
        self._absent = absent

    async def abefore_agent(
        self,
        state: AbsentPathsState,
        runtime: Runtime[Any],  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Look for the paths that the person's latest message names."""
        task = next((message.text for message in reversed(state["messages"]) if by_person(message)), "")
        named = named_paths(task)
        paths = await self._absent(named) if named else []
        return {"absent_paths": paths} if paths or state.get("absent_paths") else None

    def before_agent(self, state: AbsentPathsState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `abefore_agent`."""
        return blocking(self.abefore_agent)(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add the absent paths to the system prompt."""
        return handler(_with_absent(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """As `wrap_model_call`."""
        return await handler(_with_absent(request))


def _with_absent(request: ModelRequest[Any]) -> ModelRequest[Any]:
    paths: Any = request.state.get("absent_paths")
    section = absent_section(paths or ())
    if not section:
        return request
    before = request.system_message or SystemMessage("")
    if isinstance(before.content, str):
        return request.override(system_message=SystemMessage(f"{before.content}\n\n{section}".strip()))
    return request.override(
        system_message=SystemMessage(
            content_blocks=[*before.content_blocks, {"type": "text", "text": f"\n\n{section}"}]
        )
    )
