"""One run of the deep agent in a thread: from a task, or from what is pending, to a result."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot, StreamMode

from agent.events import (
    Approval,
    CommandEnded,
    CommandStarted,
    Event,
    Execution,
    FileMade,
    Message,
    Output,
    Result,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from agent.produced import listing, made_since

__all__ = ["Run"]

_STREAMS: list[StreamMode] = ["messages", "updates", "custom", "tasks"]
_VERDICT = re.compile(
    r"\n\[Command (?:succeeded|failed) with exit code -?\d+\](?:\n\[Output was truncated.*\])?\Z"
)
"""What deepagents adds to a command's output for the model."""
_STOPPED = (
    "This {name} call was stopped while it ran: the program was ended. How far it came is unknown: look "
    "before you repeat anything."
)


class Run:
    """Carries out a run and tells what happens; keeps what the result needs.

    Args:
        graph: the deep agent, with a checkpointer.
        thread_id: the thread it goes on in; a new one begins where there is none.
        workspace: the folder on the host, to see which files come of it.
    """

    def __init__(
        self, graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str, workspace: Path
    ) -> None:
        self.thread_id = thread_id
        self._graph = graph
        self._config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        self._workspace = workspace
        self._before = listing(workspace)
        self._now = self._before
        self._said: set[str] = set()
        self._started: dict[str, tuple[float, Mapping[str, Any]]] = {}
        self._executions: list[Execution] = []

    async def state(self) -> StateSnapshot:
        """The thread as it stands. Its `values` are empty where the thread does not exist."""
        return await self._graph.aget_state(self._config)

    async def approvals(self) -> list[Approval]:
        """The questions that wait for a person."""
        return [Approval(each.id, each.value) for each in (await self.state()).interrupts]

    async def begin(self, task: str) -> AsyncIterator[Event]:
        """Carry out `task`. Calls of the thread that still wait for approval are dropped, not run."""
        async for event in self._stream({"messages": [HumanMessage(task)]}):
            yield event

    async def go_on(self) -> AsyncIterator[Event]:
        """Go on where the thread was broken off; not for one that waits for approval."""
        await self.settle()
        async for event in self._stream(None):
            yield event

    async def answer(self, decisions: Mapping[str, list[dict[str, Any]]]) -> AsyncIterator[Event]:
        """Go on with a person's decisions: interrupt id -> one decision for each request, in order."""
        answers = {interrupt_id: {"decisions": given} for interrupt_id, given in decisions.items()}
        async for event in self._stream(Command(resume=answers)):
            yield event

    async def settle(self) -> None:
        """Answer the calls that were cut off in the thread, so that none is run a second time unasked.

        The model reads that their effect is unknown. Does nothing where none was cut off, or where some
        wait for approval.
        """
        state = await self.state()
        if "tools" not in state.next or state.interrupts:
            return
        done = {
            message.tool_call_id
            for message in [
                *state.values.get("messages", []),
                *(message for task in state.tasks for message in _messages(task.result)),
            ]
            if isinstance(message, ToolMessage)
        }
        reply = next(m for m in reversed(state.values["messages"]) if isinstance(m, AIMessage))
        answers = [
            ToolMessage(
                _STOPPED.format(name=call["name"]), name=call["name"], tool_call_id=call["id"], status="error"
            )
            for call in reply.tool_calls
            if call["id"] not in done
        ]
        await self._graph.aupdate_state(self._config, {"messages": answers}, as_node="tools")

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
        return Result(self.thread_id, status, text, self._executions, made_since(self._before, self._now))

    async def _stream(self, given: Any) -> AsyncIterator[Event]:
        self._said |= {str(message.id) for message in (await self.state()).values.get("messages", [])}
        # Written before the next step begins: a command never runs ahead of the approval that allows it.
        stream = self._graph.astream(
            given, self._config, stream_mode=_STREAMS, subgraphs=True, durability="sync"
        )
        async for part in stream:
            namespace, mode, data = cast("tuple[tuple[str, ...], str, Any]", part)
            for event in self._read(mode, data, subagent=bool(namespace)):
                yield event
            if mode == "tasks" and data["name"] == "tools" and "result" in data:
                for path in await self._look():
                    yield FileMade(path)

    def _read(self, mode: str, data: Any, *, subagent: bool) -> Iterator[Event]:
        if mode == "messages":
            chunk, metadata = data
            # Other middleware (summaries) calls the model too; that is not said to anybody.
            if isinstance(chunk, AIMessageChunk) and chunk.text and metadata.get("langgraph_node") == "model":
                yield TextDelta(str(chunk.id), chunk.text, subagent)
        elif mode == "custom":
            if isinstance(data, dict) and data.get("type") == "output":
                yield Output(data["tool_call_id"], data["text"])
        elif mode == "updates":
            for update in data.values():
                yield from self._replies(_messages(update), subagent=subagent)
        elif data["name"] == "tools":
            yield from (
                self._ended(data) if "result" in data else self._begun(data["input"], subagent=subagent)
            )

    def _replies(self, messages: Iterable[AnyMessage], *, subagent: bool) -> Iterator[Event]:
        for message in messages:
            if isinstance(message, AIMessage) and str(message.id) not in self._said:
                self._said.add(str(message.id))
                calls = [
                    {"id": call["id"], "name": call["name"], "args": call["args"]}
                    for call in message.tool_calls
                ]
                yield Message(str(message.id), message.text, calls, subagent)

    def _begun(self, calls: Any, *, subagent: bool) -> Iterator[Event]:
        for call in calls:
            # A subagent's call begins again when the thread goes on after an approval.
            if call["id"] in self._started:
                continue
            self._started[call["id"]] = time.monotonic(), call
            if call["name"] == "execute":
                yield CommandStarted(call["id"], str(call["args"].get("command", "")), subagent)
            else:
                yield ToolStarted(call["id"], call["name"], call["args"], subagent)

    def _ended(self, data: Mapping[str, Any]) -> Iterator[Event]:
        for message in _messages(data["result"]):
            if not isinstance(message, ToolMessage) or message.tool_call_id not in self._started:
                continue
            since, call = self._started[message.tool_call_id]
            if call["name"] != "execute":
                error = message.text if message.status == "error" else None
                yield ToolEnded(message.tool_call_id, call["name"], error)
                continue
            execution = Execution(
                language="bash",
                code=str(call["args"].get("command", "")),
                output=_VERDICT.sub("", message.text),
                exit_code=(message.artifact or {}).get("exit_code"),
                seconds=round(time.monotonic() - since, 3),
            )
            self._executions.append(execution)
            yield CommandEnded(message.tool_call_id, execution)

    async def _look(self) -> list[str]:
        """The files that are new or changed since the last look."""
        before, self._now = self._now, await asyncio.to_thread(listing, self._workspace)
        return made_since(before, self._now)


def _messages(update: Any) -> list[AnyMessage]:
    """The messages that a step adds; none where it replaces the whole list."""
    messages = update.get("messages", []) if isinstance(update, dict) else []
    return messages if isinstance(messages, list) else []
