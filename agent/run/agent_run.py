"""One run of an agent in a thread: from a task or a pending step to the result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.types import Command, StateSnapshot, StreamMode

from agent.listing import Listing, made_since
from agent.run.agents import AgentName, steps_of
from agent.run.run_events import (
    Approval,
    CommandEnded,
    Event,
    FileMade,
    Message,
    Output,
    Result,
    SecretSuspected,
    TextDelta,
    ToolEnded,
)
from agent.run.run_steps import messages_of
from agent.threads import DRAIN
from libs.middleware.approvals import GRANTS, AddressedGraph, shown
from libs.middleware.budget import Budget
from libs.middleware.captures import WORKSPACE
from libs.middleware.unfinished import is_unfinished
from libs.sandbox import Execution

__all__ = ["Run"]

_DEFAULT = Budget()
_CUT_OFF = "It was stopped before its end. Send another message to go on."
_STREAMS: list[StreamMode] = ["messages", "updates", "custom", "tasks"]


async def _unchecked(paths: list[str]) -> list[str]:
    return paths


class Run:
    """Carries out a run, yields its events, and collects its executions and files for the result.

    Args:
        graph: the agent's graph, with a checkpointer.
        agent: name of the agent.
        thread_id: thread of the run; a new thread is begun at the first step.
        look: lists the files of the thread, among which the run looks for new ones. None: the run yields no
            events.
        redact: redacts names of files and errors of providers, which the sandbox's channel does not see.
        budget: limits of the run.
        metadata: metadata for the thread's checkpoints.
        absent: returns those of the given paths that do not exist. Default: all given paths.
    """

    def __init__(
        self,
        graph: AddressedGraph,
        agent: AgentName,
        thread_id: str,
        look: Callable[[], Awaitable[Listing]] | None,
        *,
        redact: Callable[[str], str] = str,
        budget: Budget = _DEFAULT,
        metadata: Mapping[str, Any] = {},
        absent: Callable[[list[str]], Awaitable[list[str]]] = _unchecked,
    ) -> None:
        self.graph = graph
        self.thread_id = thread_id
        self.budget = budget
        self.agent = agent
        self._steps = steps_of(agent)
        self._config: RunnableConfig = {
            "configurable": {"thread_id": thread_id},
            "metadata": dict(metadata),
        }
        self._look = look
        self._redact = redact
        self._absent = absent
        self._before: Listing | None = None
        """The files at the begin. None: the run has not begun."""
        self._now = Listing()
        self._said: dict[str, str] = {}
        """Message id -> text."""
        self._executions: list[Execution] = []

    async def state(self) -> StateSnapshot:
        """Return the state of the thread. The `values` of a thread that does not exist are empty."""
        return await self.graph.aget_state(self._config)

    async def approvals(self) -> list[Approval]:
        """Return the pending approval requests."""
        state = await self.state()
        grants = shown(state.values.get(GRANTS))
        return [Approval(each.id, each.value, grants) for each in state.interrupts]

    def begin(self, task: str) -> AsyncGenerator[Event, None]:
        """Carry out `task`. Calls of the thread that still wait for approval are dropped, not run.

        If the last step was cut off, the model first reads that the effect of the step is unknown.
        """
        return self._stream({"messages": [HumanMessage(task)]}, settled=True)

    def go_on(self) -> AsyncGenerator[Event, None]:
        """Resume a thread whose last step was cut off; not for a thread that waits for approval.

        LangGraph executes the step again, but no command runs twice: an ended command returns its recorded
        result, and an interrupted command is reported (see `libs.sandbox.host.records.run_once`).
        """
        return self._stream(None)

    def answer(self, answers: Mapping[str, Any]) -> AsyncGenerator[Event, None]:
        """Resume with a person's answers: interrupt id -> `{"decisions": [...]}`, or one decision."""
        return self._stream(Command(resume=answers))

    async def settle(self) -> None:
        """Answer a step of the thread that was cut off, so that another task can follow.

        The model reads that the effect of the step is unknown. Does nothing where no step was cut off, or
        where calls wait for approval.
        """
        state = await self.state()
        if not state.interrupts and (found := self._steps.cut_off(state)):
            node, answer = found
            # First the results of the step's calls that had ended: an update of a node alone drops them.
            await self.graph.aupdate_state(self._config, None, as_node=END)
            await self.graph.aupdate_state(self._config, answer, as_node=node)

    async def result(self) -> Result:
        """Return how the run ended, with the last message of the model."""
        state = await self.state()
        messages = state.values.get("messages", [])
        last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
        text = last.text if last else ""
        if is_unfinished(state) and not state.interrupts:
            errors = [str(task.error) for task in state.tasks if task.error]
            return self.ended("error", "; ".join(errors) or _CUT_OFF)
        status = "interrupted" if state.interrupts else state.values.get("status") or "completed"
        ended = self.ended(status, text)
        # The run may have created some of these paths.
        named = state.values.get("absent_paths")
        return replace(ended, absent_paths=await self._absent(named)) if named else ended

    def ended(self, status: str, text: str) -> Result:
        """Return a result with the executions and files so far."""
        before = Listing() if self._before is None else self._before
        files = [self._redact(path) for path in made_since(before, self._now)]
        return Result(self.thread_id, status, self._redact(text), self._executions, files)

    async def _stream(self, given: Any, *, settled: bool = False) -> AsyncGenerator[Event, None]:
        """Yield the events of a run. Closing the generator early stops the run and its command.

        Raises:
            GraphDrained: the server is ending; the run has stopped after a step.
            CutOff: the server is ending; the run has been stopped in a step.
        """
        if settled:
            await self.settle()
        with DRAIN.run() as control:
            if (look := self._look) is None:
                await self.graph.ainvoke(given, self._config, durability="sync", control=control)
                return
            if self._before is None:
                self._before = self._now = await look()
            before = (await self.state()).values.get("messages", [])
            self._said |= {str(message.id): message.text for message in before}
            # "sync": an approval is saved before the command that it allows begins.
            options: dict[str, Any] = {"subgraphs": True, "durability": "sync", "control": control}
            stream = self.graph.astream(given, self._config, stream_mode=_STREAMS, **options)
            async with aclosing(cast("AsyncGenerator[Any, None]", stream)):
                async for namespace, mode, data in stream:
                    for event in self._read(mode, data, subagent=bool(namespace)):
                        yield event
                        if isinstance(event, CommandEnded):
                            self._executions.append(event.execution)
                        if isinstance(event, CommandEnded | ToolEnded):
                            for made in await self._new_files(look):
                                yield made
                    # A block has ended before its capture, which may be the only place of its files.
                    if mode == "updates" and any(_captured(update) for update in data.values()):
                        for made in await self._new_files(look):
                            yield made

    def _read(self, mode: str, data: Any, *, subagent: bool) -> Iterator[Event]:
        if mode == "messages":
            chunk, metadata = data
            # Other nodes, such as summaries, call the model too: their text is not shown.
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
            elif added := message.text.removeprefix(before).strip():  # text that was appended to a message
                yield Message(str(message.id), added, [], subagent)

    async def _new_files(self, look: Callable[[], Awaitable[Listing]]) -> list[FileMade]:
        """Return the files that are new or changed since the last look."""
        before, self._now = self._now, await look()
        return [FileMade(self._redact(path)) for path in made_since(before, self._now)]


def _captured(update: Any) -> bool:
    """Return whether an update names a capture."""
    return isinstance(update, dict) and WORKSPACE in update
