"""Tells the model which paths of the task do not exist, and saves them in the state, for the person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NotRequired

from langchain.agents.middleware.types import AgentState
from langgraph.runtime import Runtime

from agent.listing.task_paths import NamedPath, named_paths
from agent.prompts import absent_section
from libs.middleware.program_messages import by_person
from libs.middleware.prompt_section import AddsSection
from libs.sandbox.host import blocking

__all__ = ["SaysAbsentPaths", "absent_line"]


def absent_line(path: str) -> str:
    """Return the sentence that tells a person of an absent path."""
    return f"{path} is not there."


class AbsentPathsState(AgentState[Any]):
    absent_paths: NotRequired[list[str]]
    """Paths that the latest task names and that did not exist when the run began."""


class SaysAbsentPaths(AddsSection[AbsentPathsState]):
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

    def section(self, state: Any) -> str:
        return absent_section(state.get("absent_paths") or ())
