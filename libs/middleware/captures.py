"""Capture the workspace around the steps of an agent, and keep the ticket of each capture in the state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Protocol

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command

from libs.middleware.program_messages import told
from libs.sandbox.host import core

if TYPE_CHECKING:
    from libs.workspace.ledger import News

__all__ = [
    "TOLD",
    "WORKSPACE",
    "CaptureMiddleware",
    "Captures",
    "captured_thread",
    "later",
    "note_for",
]

WORKSPACE = "workspace"
"""Key of the state: the ticket of the latest capture."""
TOLD = "workspace_told"
"""Key of the state: the latest note about files that were brought back, which the model has got."""


class Captures(Protocol):
    """Captures the workspace of a thread. See `libs.workspace.history.TurnCaptures`."""

    async def begin_turn(self, thread: str) -> str | None:
        """Capture the workspace before a person's turn. Return the ticket."""
        ...

    async def after_step(self, thread: str) -> str | None:
        """Capture the workspace after a step. Return the ticket."""
        ...

    async def unkept(self, thread: str) -> str:
        """Return what the model must know about files of its latest steps that were not kept.

        Empty: all are kept, or need not be, because the sandbox has its workspace on this machine.
        """
        ...

    async def news(self, thread: str) -> News | None:
        """Return a note for the model about the latest time that files were brought back outside its view."""
        ...


def later(before: str | None, after: str | None) -> str | None:
    """Return the later ticket. The calls of one step end in any order."""
    return max(before or "", after or "") or None


class _State(AgentState[Any]):
    workspace: NotRequired[Annotated[str | None, PrivateStateAttr, later]]
    workspace_told: NotRequired[Annotated[str, PrivateStateAttr]]


class CaptureMiddleware(AgentMiddleware[_State, Any, Any]):
    """Captures the workspace before a turn, and after each tool call that may have changed it.

    Tells the model in its next request that files were brought back.

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
        return None if thread is None else {WORKSPACE: await self._captures.begin_turn(thread)}

    def before_agent(self, state: _State, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """As `abefore_agent`."""
        return core().wait(self.abefore_agent(state, runtime))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Add a note to the request, and to the conversation before the reply."""
        note = await note_for(self._captures, request.state)
        if note is None:
            return await handler(request)
        return _with_note(await handler(_noted(request, note)), note)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """As `awrap_model_call`."""
        note = core().wait(note_for(self._captures, request.state))
        return handler(request) if note is None else _with_note(handler(_noted(request, note)), note)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Begin a capture after the call."""
        answer = await handler(request)
        thread = self._thread(request)
        return answer if thread is None else await self._captured(answer, thread)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """As `awrap_tool_call`."""
        answer = handler(request)
        thread = self._thread(request)
        return answer if thread is None else core().wait(self._captured(answer, thread))

    async def _captured(self, answer: ToolMessage | Command[Any], thread: str) -> ToolMessage | Command[Any]:
        ticket = await self._captures.after_step(thread)
        return _with_ticket(answer, ticket, await self._captures.unkept(thread))

    def _thread(self, request: ToolCallRequest) -> str | None:
        return None if request.tool_call["name"] in self._reads else captured_thread()


async def note_for(captures: Captures, state: Mapping[str, Any]) -> HumanMessage | None:
    """Return a note that the model has not got, about files that were brought back.

    The conversation holds the note from then on, and TOLD its id.
    """
    thread = captured_thread()
    news = None if thread is None else await captures.news(thread)
    if news is None or news.id == state.get(TOLD):
        return None
    note = told(news.text)
    note.id = news.id
    return note


def _noted(request: ModelRequest[Any], note: HumanMessage) -> ModelRequest[Any]:
    return request.override(messages=[*request.messages, note])


def _with_note(answer: ModelResponse[Any], note: HumanMessage) -> ExtendedModelResponse[Any]:
    # In one step with the reply: a request that fails is repeated with its note.
    noted = replace(answer, result=[note, *answer.result])
    return ExtendedModelResponse(noted, Command(update={TOLD: note.id}))


def captured_thread() -> str | None:
    """Return the thread of the current run; None if the run is not saved in a thread."""
    thread = get_config()["configurable"].get("thread_id")
    return None if thread is None else str(thread)


def _with_ticket(
    answer: ToolMessage | Command[Any], ticket: str | None, note: str
) -> ToolMessage | Command[Any]:
    """Add the ticket to the state, and the note to the output of the tool."""
    if isinstance(answer, ToolMessage):
        return Command(update={"messages": [_with_words(answer, note)], WORKSPACE: ticket})
    update = answer.update or {}
    given = list(update.items()) if isinstance(update, dict) else list(update)
    # The last message is the tool's answer.
    said = [
        (key, [*value[:-1], _with_words(value[-1], note)] if key == "messages" and value else value)
        for key, value in given
    ]
    if isinstance(update, dict):
        return replace(answer, update={**dict(said), WORKSPACE: ticket})
    return replace(answer, update=[*said, (WORKSPACE, ticket)])


def _with_words(message: Any, note: str) -> Any:
    if not note or not isinstance(message, ToolMessage):
        return message
    if isinstance(message.content, str):
        return message.model_copy(update={"content": f"{message.content}\n\n{note}".lstrip("\n")})
    return message.model_copy(update={"content": [*message.content, {"type": "text", "text": note}]})
