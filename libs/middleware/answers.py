"""Address every answer to the interrupt it is meant for."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt

__all__ = ["AddressedGraph", "answer_by_id"]

_INTERRUPT_ID = re.compile(r"[0-9a-f]{32}")


class AddressedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A graph whose resumes always name the interrupt they answer.

    Studio and chat pages send a bare `Command(resume=answer)`. LangGraph keeps such an answer until the
    outermost graph's next checkpoint, where a later question of a subagent can find it: approving one
    command would approve the next. Naming the interrupt that is pending when the answer arrives ties the
    two together. An answer that comes when nothing is pending is let go, and so is one that a server
    repeats with a killed run when that run has meanwhile asked something else.
    """

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """As `CompiledStateGraph.stream`."""
        if _is_empty(input):
            input = None
        elif _is_bare_answer(input):
            input = _addressed(input, self.get_state(config or {}).interrupts, config)
        return super().stream(input, config, **options)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """As `CompiledStateGraph.astream`."""
        if _is_empty(input):
            input = None
        elif _is_bare_answer(input):
            input = _addressed(input, (await self.aget_state(config or {})).interrupts, config)
        async for part in super().astream(input, config, **options):
            yield part


def answer_by_id(graph: CompiledStateGraph[Any, Any, Any, Any]) -> AddressedGraph:
    """Return `graph` with its resumes addressed. Needed wherever subagents can ask."""
    attributes = {name: value for name, value in vars(graph).items() if name != "__orig_class__"}
    return AddressedGraph(**attributes)


def _is_empty(given: object) -> bool:
    """Whether this is `Command(resume=None)`, which LangGraph stumbles over; None asks again."""
    return isinstance(given, Command) and given == Command()


def _is_bare_answer(given: object) -> bool:
    if not isinstance(given, Command) or given.resume is None:
        return False
    # The rule by which LangGraph itself tells a map from interrupt ids to answers.
    answer = given.resume
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
