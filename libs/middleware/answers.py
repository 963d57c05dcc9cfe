"""Where what people send enters the graph: answers are addressed, and what they grant is kept."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt, StateUpdate
from pydantic import BaseModel

from libs.middleware.grants import GRANTS, Grant, granted_by

__all__ = ["AddressedGraph", "Turns", "answer_by_id"]

_INTERRUPT_ID = re.compile(r"[0-9a-f]{32}")

Turn = Callable[[str], AbstractAsyncContextManager[None]]
"""Thread id -> what keeps others out of the thread while it lasts."""


@dataclass(frozen=True, slots=True)
class Turns:
    """What lets one at a time into a thread."""

    run: Turn
    """For runs."""
    change: Turn
    """For changes of the state from outside."""


class AddressedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A graph whose resumes always name the interrupt they answer.

    Studio and chat pages send a bare `Command(resume=answer)`. LangGraph keeps such an answer until the
    outermost graph's next checkpoint, where a later question of a subagent can find it: approving one
    command would approve the next. Naming the interrupt that is pending when the answer arrives ties the
    two together. An answer that comes when nothing is pending is let go, and so is one that a server
    repeats with a killed run when that run has meanwhile asked something else.

    What an answer approves for the rest of the thread is written to the thread's state with it.

    Where threads are kept, a step begins when the one before it has been saved: a command never runs ahead
    of the message that calls it and the approval that allows it, whatever kills the process.

    Input, answers and updates of the state go through `clean` first: so it comes before the first checkpoint,
    the first trace and the first model call, and no one of them has other words than the others.

    Where it has `turns`, they let its asynchronous runs and updates into threads that are kept.
    """

    def __init__(
        self,
        *,
        edits: Mapping[str, type[BaseModel]] | None = None,
        clean: Callable[[Any], Any] | None = None,
        turns: Turns | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self.turns = turns
        self.edits = edits or {}
        self.clean = clean or _as_it_is

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """As `CompiledStateGraph.stream`."""
        input = self.clean(input)
        if _is_empty(input):
            input = None
        elif _is_answer(input):
            input = self._taken(input, self.get_state(config or {}).interrupts, config)
        return super().stream(input, config, **self._saved_first(config, options))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """As `CompiledStateGraph.astream`."""
        input = self.clean(input)
        async with self._kept_alone(config, self.turns.run if self.turns else None):
            if _is_empty(input):
                input = None
            elif _is_answer(input):
                input = self._taken(input, (await self.aget_state(config or {})).interrupts, config)
            async for part in super().astream(input, config, **self._saved_first(config, options)):
                yield part

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """As `CompiledStateGraph.bulk_update_state`, which `update_state` calls."""
        return super().bulk_update_state(config, self.clean(supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """As `bulk_update_state`."""
        async with self._kept_alone(config, self.turns.change if self.turns else None):
            return await super().abulk_update_state(config, self.clean(supersteps))

    def _kept_alone(
        self, config: RunnableConfig | None, turn: Turn | None
    ) -> AbstractAsyncContextManager[None]:
        thread_id = ensure_config(config)["configurable"].get("thread_id")
        # What is not kept, no other run has.
        if turn is None or thread_id is None or self._saver(config) is None:
            return nullcontext()
        return turn(str(thread_id))

    def _saver(self, config: RunnableConfig | None) -> BaseCheckpointSaver[Any] | None:
        # LangGraph's server hands its saver over in the config, and none for a run without a thread.
        saver = ensure_config(config)["configurable"].get(CONFIG_KEY_CHECKPOINTER, self.checkpointer)
        return saver if isinstance(saver, BaseCheckpointSaver) else None

    def _saved_first(self, config: RunnableConfig | None, options: dict[str, Any]) -> dict[str, Any]:
        # The server asks for a durability in any case, and LangGraph stumbles over "sync" where nothing is
        # saved.
        if self._saver(config) is not None:
            return {**options, "durability": "sync"}
        return {name: value for name, value in options.items() if name != "durability"}

    def _taken(
        self, command: Command[Any], pending: tuple[Interrupt, ...], config: RunnableConfig | None
    ) -> Command[Any]:
        if _is_bare(command.resume):
            command = _addressed(command, pending, config)
        if _is_bare(command.resume):
            return command
        answers = cast("dict[str, Any]", command.resume)
        grants: dict[str, Grant] = {}
        for asked in pending:
            if asked.id in answers:
                grants |= granted_by(answers[asked.id], asked.value, asked.id, self.edits)
        if not grants:
            return command
        return replace(command, update=[*command._update_as_tuples(), (GRANTS, grants)])


def answer_by_id(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    *,
    edits: Mapping[str, type[BaseModel]] | None = None,
    clean: Callable[[Any], Any] | None = None,
) -> AddressedGraph:
    """Return `graph` with its resumes addressed. Needed wherever subagents can ask, or grants are given.

    Args:
        graph: the outermost graph, with a channel for grants.
        edits: for a gate that checks edited arguments: tool name -> what they must satisfy.
        clean: takes secrets out of what is sent to it; returns the same object where there are none.
    """
    attributes = {name: value for name, value in vars(graph).items() if name != "__orig_class__"}
    return AddressedGraph(**attributes, edits=edits, clean=clean)


def _as_it_is(given: Any) -> Any:
    return given


def _is_empty(given: object) -> bool:
    """Whether this is `Command(resume=None)`, which LangGraph stumbles over; None asks again.

    LangGraph's server fills in what was not sent, each in its own way.
    """
    if not isinstance(given, Command) or given.resume is not None:
        return False
    return not (given.goto or given.update or given.graph)


def _is_answer(given: object) -> bool:
    return isinstance(given, Command) and given.resume is not None


def _is_bare(answer: object) -> bool:
    # The rule by which LangGraph itself tells a map from interrupt ids to answers.
    return not (isinstance(answer, dict) and all(_INTERRUPT_ID.fullmatch(str(key)) for key in answer))


def _addressed(
    command: Command[Any], pending: tuple[Interrupt, ...], config: RunnableConfig | None
) -> Command[Any]:
    # Several pending: LangGraph refuses the answer, saves nothing and says that an id is needed.
    if len(pending) > 1:
        return command
    run_id = (config or {}).get("configurable", {}).get("run_id")
    return replace(
        command,
        resume={
            interrupt.id: command.resume for interrupt in pending if not _asked_in(interrupt.value, run_id)
        },
    )


def _asked_in(question: object, run_id: object) -> bool:
    """Whether the question was asked by this run, so after the answer that the run was started with."""
    return run_id is not None and isinstance(question, dict) and question.get("asked_in") == str(run_id)
