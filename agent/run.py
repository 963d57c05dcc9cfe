"""One run of an agent in a thread: from a task, or from what is pending, to a result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot, StreamMode

from agent.events import (
    Approval,
    CommandEnded,
    Event,
    Execution,
    FileMade,
    Message,
    Output,
    Result,
    SecretSuspected,
    TextDelta,
    ToolEnded,
)
from agent.produced import listing, made_since
from agent.steps import Steps, messages_of, settle
from libs.middleware.grants import GRANTS, shown

__all__ = ["Run"]

_STREAMS: list[StreamMode] = ["messages", "updates", "custom", "tasks"]


class Run:
    """Carries out a run and tells what happens; keeps what the result needs.

    Args:
        graph: the agent, with a checkpointer.
        steps: reads what that agent does.
        thread_id: the thread it goes on in; a new one begins where there is none.
        workspace: the folder on the host, to see which files come of it.
        redact: takes secrets out of what does not come out of the sandbox: names of files seen from here,
            errors of a model's provider.
    """

    def __init__(
        self,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        steps: Steps,
        thread_id: str,
        workspace: Path,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.thread_id = thread_id
        self._graph = graph
        self._steps = steps
        self._config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        self._workspace = workspace
        self._redact = redact
        self._before = listing(workspace)
        self._now = self._before
        self._said: dict[str, str] = {}
        """Message id -> text."""
        self._executions: list[Execution] = []

    async def state(self) -> StateSnapshot:
        """The thread as it stands. Its `values` are empty where the thread does not exist."""
        return await self._graph.aget_state(self._config)

    async def approvals(self) -> list[Approval]:
        """The questions that wait for a person."""
        state = await self.state()
        grants = shown(state.values.get(GRANTS))
        return [Approval(each.id, each.value, grants) for each in state.interrupts]

    async def begin(self, task: str) -> AsyncIterator[Event]:
        """Carry out `task`. Calls of the thread that still wait for approval are dropped, not run.

        Of a step that was cut off the model reads first that its effect is unknown.
        """
        await self.settle()
        async for event in self._stream({"messages": [HumanMessage(task)]}):
            yield event

    async def go_on(self) -> AsyncIterator[Event]:
        """Go on where the thread was broken off; not for one that waits for approval.

        The step that was cut off is executed again, in which nothing runs twice: what had ended gives its
        recorded result, and what had not is reported (see `libs.sandbox.once`).
        """
        async for event in self._stream(None):
            yield event

    async def answer(self, decisions: Mapping[str, list[dict[str, Any]]]) -> AsyncIterator[Event]:
        """Go on with a person's decisions: interrupt id -> one decision for each request, in order."""
        answers = {interrupt_id: {"decisions": given} for interrupt_id, given in decisions.items()}
        async for event in self._stream(Command(resume=answers)):
            yield event

    async def settle(self) -> None:
        """See `agent.steps.settle`."""
        await settle(self._graph, self._config, self._steps)

    async def result(self) -> Result:
        """How the run ended, with the model's last words."""
        state = await self.state()
        messages = state.values.get("messages", [])
        last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
        text = last.text if last else ""
        if state.interrupts:
            return self.ended("interrupted", text)
        return self.ended(state.values.get("status") or "completed", text)

    def ended(self, status: str, text: str) -> Result:
        """A result with everything that was run and made so far."""
        files = [self._redact(path) for path in made_since(self._before, self._now)]
        return Result(self.thread_id, status, self._redact(text), self._executions, files)

    async def _stream(self, given: Any) -> AsyncIterator[Event]:
        before = (await self.state()).values.get("messages", [])
        self._said |= {str(message.id): message.text for message in before}
        # Written before the next step begins: a command never runs ahead of the approval that allows it.
        stream = self._graph.astream(
            given, self._config, stream_mode=_STREAMS, subgraphs=True, durability="sync"
        )
        async for part in stream:
            namespace, mode, data = cast("tuple[tuple[str, ...], str, Any]", part)
            for event in self._read(mode, data, subagent=bool(namespace)):
                yield event
                if isinstance(event, CommandEnded):
                    self._executions.append(event.execution)
                if isinstance(event, CommandEnded | ToolEnded):
                    for path in await self._look():
                        yield FileMade(self._redact(path))

    def _read(self, mode: str, data: Any, *, subagent: bool) -> Iterator[Event]:
        if mode == "messages":
            chunk, metadata = data
            # Other middleware (summaries) calls the model too; that is not said to anybody.
            if isinstance(chunk, AIMessageChunk) and chunk.text and metadata.get("langgraph_node") == "model":
                yield TextDelta(str(chunk.id), chunk.text, subagent)
        elif mode == "updates":
            for update in data.values():
                yield from self._replies(messages_of(update), subagent=subagent)
            yield from self._steps.read(mode, data, subagent=subagent)
        elif mode == "custom" and isinstance(data, dict) and data.get("type") == "output":
            yield Output(data["tool_call_id"], data["text"])
        elif mode == "custom" and isinstance(data, dict) and data.get("type") == "secret_suspected":
            yield SecretSuspected(data["tool_call_id"], data["found"])
        else:
            yield from self._steps.read(mode, data, subagent=subagent)

    def _replies(self, messages: Iterable[AnyMessage], *, subagent: bool) -> Iterator[Event]:
        for message in messages:
            if not isinstance(message, AIMessage):
                continue
            before, self._said[str(message.id)] = self._said.get(str(message.id)), message.text
            if before is None:
                calls = [
                    {"id": call["id"], "name": call["name"], "args": call["args"]}
                    for call in message.tool_calls
                ]
                yield Message(str(message.id), message.text, calls, subagent)
            elif added := message.text.removeprefix(before).strip():  # what was said below it since
                yield Message(str(message.id), added, [], subagent)

    async def _look(self) -> list[str]:
        """The files that are new or changed since the last look."""
        before, self._now = self._now, await asyncio.to_thread(listing, self._workspace)
        return made_since(before, self._now)
