"""Capture the workspace around the steps of an agent, and keep the ticket of each capture in the state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Annotated, Any, NotRequired, Protocol

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.messages import ToolMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from libs.middleware.program_messages import told
from libs.sandbox.host import core

__all__ = ["WORKSPACE", "CaptureMiddleware", "Captures", "captured_thread", "later", "turn_begins"]

WORKSPACE = "workspace"
"""Key of the state: the ticket of the latest capture."""


class Captures(Protocol):
    """Captures the workspace of a thread. See `libs.workspace.history.TurnCaptures`."""

    async def begin_turn(self, thread: str) -> str | None:
        """Capture the workspace before a person's turn. Return the ticket."""
        ...

    async def after_step(self, thread: str) -> str | None:
        """Capture the workspace after a step. Return the ticket."""
        ...

    def news(self, thread: str) -> str | None:
        """Return a note for the model if files were brought back at the begin of the run. Each note once."""
        ...


def later(before: str | None, after: str | None) -> str | None:
    """Return the later ticket. The calls of one step end in any order."""
    return max(before or "", after or "") or None


class _State(AgentState[Any]):
    workspace: NotRequired[Annotated[str | None, PrivateStateAttr, later]]


class CaptureMiddleware(AgentMiddleware[_State, Any, Any]):
    """Captures the workspace before a turn, and after each tool call that may have changed it.

    Belongs to the outermost agent: the captures of a subagent's calls would name moments to which nobody can
    go back.

    Args:
        reads: names of the tools that change nothing.
    """

    state_schema = _State

    def __init__(self, captures: Captures, *, reads: Collection[str]) -> None:
        super().__init__()
        self._captures = captures
        self._reads = frozenset(reads)

    async def abefore_agent(self, state: _State, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """Begin the capture before the turn."""
        thread = captured_thread()
        return None if thread is None else await turn_begins(self._captures, thread)

    def before_agent(self, state: _State, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `abefore_agent`."""
        return core().wait(self.abefore_agent(state, runtime))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Begin a capture after the call."""
        answer = await handler(request)
        thread = self._thread(request)
        return answer if thread is None else _with_ticket(answer, await self._captures.after_step(thread))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """As `awrap_tool_call`."""
        answer = handler(request)
        thread = self._thread(request)
        if thread is None:
            return answer
        return _with_ticket(answer, core().wait(self._captures.after_step(thread)))

    def _thread(self, request: ToolCallRequest) -> str | None:
        return None if request.tool_call["name"] in self._reads else captured_thread()


async def turn_begins(captures: Captures, thread: str) -> dict[str, Any]:
    """Begin the capture before a turn. Return the update of the state."""
    news = captures.news(thread)
    messages = {"messages": [told(news)]} if news else {}
    return {WORKSPACE: await captures.begin_turn(thread), **messages}


def captured_thread() -> str | None:
    """Return the thread of the current run; None if the run is not saved in a thread."""
    thread = get_config()["configurable"].get("thread_id")
    return None if thread is None else str(thread)


def _with_ticket(answer: ToolMessage | Command[Any], ticket: str | None) -> ToolMessage | Command[Any]:
    if isinstance(answer, ToolMessage):
        return Command(update={"messages": [answer], WORKSPACE: ticket})
    update = answer.update or {}
    if isinstance(update, dict):
        return replace(answer, update={**update, WORKSPACE: ticket})
    return replace(answer, update=[*update, (WORKSPACE, ticket)])
