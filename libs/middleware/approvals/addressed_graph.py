"""Check answers and inputs where they enter the graph, and save the grants of an answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, StateSnapshot, StateUpdate
from pydantic import BaseModel

from libs.middleware.approvals.addressed_answers import NothingWaits, answers_by_id
from libs.middleware.approvals.decisions import Decision, WrongAnswer, checked, read_answer
from libs.middleware.approvals.grants import GRANTS, Grant, granted_by
from libs.middleware.approvals.nested_answers import areader, is_nested, patched, reader
from libs.middleware.approvals.question import question_key
from libs.middleware.arrival import RunFiles, arrive_at_start, arrive_at_start_now
from libs.middleware.input_messages import check_messages
from libs.middleware.required_task import has_messages, require_task
from libs.middleware.unfinished import is_unfinished
from libs.private_names import CONFIG_KEY_CHECKPOINTER
from libs.sandbox.host import blocking

__all__ = ["AddressedGraph", "Turns", "answer_by_id"]

logger = logging.getLogger(__name__)

Turn = Callable[[str | None], AbstractAsyncContextManager[RunControl | None]]
"""Takes a thread id, and returns a context manager that holds the thread's lock. None: the run is not saved,
so nothing is locked.

The context manager yields the run's control, with which a server ends the run early.
"""


@dataclass(frozen=True, slots=True)
class Turns:
    """Locks that let one run or change at a time into a thread."""

    run: Turn
    """For runs."""
    change: Turn
    """For updates of the state from outside a run."""


class AddressedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A graph that adds the id of the pending interrupt to every answer, and checks the answer.

    Studio and chat pages send `Command(resume=answer)` without an id. LangGraph keeps such an answer until
    the outermost graph's next checkpoint, where a later question of a subagent could take it: approving one
    command would approve the next. An answer to no pending question is dropped. So is an answer that a
    server repeats with a killed run after that run has asked another question. If other questions wait, a
    warning in the log gives their ids. An answer in a thread where nothing is pending is refused.

    Each answer is checked against its question here. The gate gets the decisions, or the reason why they are
    refused. Grants are written to the thread's state together with the answer. `/run` also checks decisions
    before it starts a run, with the same function, so that wrong decisions change nothing.

    With a checkpointer, a step begins only after the previous step is saved. A command therefore never runs
    before the message that calls it and its approval are on disk.

    An input without a task is refused (see `require_task`), and so is an input with a message that cannot be
    read (see `check_messages`).

    Inputs, answers and state updates go through `clean` first, so before any checkpoint, trace or model call.

    As a node of another graph it gives the gate a reader of answers (see `nested_answers`). Grants would be
    lost with the node, so none are offered there.

    `files`, if set, brings the files of the thread to the checkpoint from which a saved run starts. A run
    that ends or fails waits for its captures, because a program may end right after it, and Python has no
    public hook before it shuts the thread pools that the captures need.

    `turns`, if set, locks the thread during asynchronous runs and updates.
    """

    def __init__(
        self,
        *,
        edits: Mapping[str, type[BaseModel]] | None = None,
        clean: Callable[[Any], Any] | None = None,
        turns: Turns | None = None,
        files: RunFiles | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self.turns = turns
        self.files = files
        self.edits = edits or {}
        self.clean = clean or (lambda given: given)

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """As `CompiledStateGraph.stream`."""
        asked, input = config, self.clean(input)
        check_messages(input)
        if isinstance(input, Command):
            is_read = input.resume is not None and self._thread_id(config)
            input = self._checked(input, self.get_state(config or {}) if is_read else None, config)
        elif is_nested(config):
            config = patched(config, reader(config, self._read_one))
        elif not has_messages(input):
            require_task(self.get_state(config or {}) if self._thread_id(config) else None)
        with self._files_of_run_now(asked):
            yield from super().stream(input, config, **self._saved_first(config, options))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """As `CompiledStateGraph.astream`."""
        asked, input = config, self.clean(input)
        check_messages(input)
        async with self._locked(config, self.turns.run if self.turns else None) as control:
            if control is not None:
                options = {**options, "control": control}
            if isinstance(input, Command):
                is_read = input.resume is not None and self._thread_id(config)
                input = self._checked(input, await self.aget_state(config or {}) if is_read else None, config)
            elif is_nested(config):
                config = patched(config, await areader(config, self._read_one))
            elif not has_messages(input):
                require_task(await self.aget_state(config or {}) if self._thread_id(config) else None)
            parts = super().astream(input, config, **self._saved_first(config, options))
            # Close the stream when the caller stops reading, so that the lock covers the whole run.
            async with self._files_of_run(asked), aclosing(cast("AsyncGenerator[Any, None]", parts)):
                async for part in parts:
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
        async with self._locked(config, self.turns.change if self.turns else None):
            return await super().abulk_update_state(config, self.clean(supersteps))

    @asynccontextmanager
    async def _files_of_run(self, config: RunnableConfig | None) -> AsyncGenerator[None, None]:
        """Bring the files to the start of the run, and wait for its captures when it ends or fails."""
        saver, thread = self._saver(config), self._thread_id(config)
        if not self.files or not saver or thread is None or is_nested(config):
            yield
            return
        await arrive_at_start(self.files.arrive, saver, thread, config)
        try:
            yield
        except Exception:
            await self.files.settled(thread)
            raise
        await self.files.settled(thread)

    @contextmanager
    def _files_of_run_now(self, config: RunnableConfig | None) -> Generator[None, None, None]:
        """As `_files_of_run`, with the saver's synchronous methods: some savers have no others."""
        saver, thread = self._saver(config), self._thread_id(config)
        if not self.files or not saver or thread is None or is_nested(config):
            yield
            return
        arrive_at_start_now(self.files.arrive, saver, thread, config)
        settled = blocking(self.files.settled)
        try:
            yield
        except Exception:
            settled(thread)
            raise
        settled(thread)

    def _locked(
        self, config: RunnableConfig | None, turn: Turn | None
    ) -> AbstractAsyncContextManager[RunControl | None]:
        return nullcontext() if turn is None else turn(self._thread_id(config))

    def _thread_id(self, config: RunnableConfig | None) -> str | None:
        """Return the thread in which a run is saved. None: the run is not saved."""
        thread_id = ensure_config(config)["configurable"].get("thread_id")
        return None if thread_id is None or self._saver(config) is None else str(thread_id)

    def _saver(self, config: RunnableConfig | None) -> BaseCheckpointSaver[Any] | None:
        # LangGraph's server passes its saver in the config, and no saver for a run without a thread.
        saver = ensure_config(config)["configurable"].get(CONFIG_KEY_CHECKPOINTER, self.checkpointer)
        return saver if isinstance(saver, BaseCheckpointSaver) else None

    def _saved_first(self, config: RunnableConfig | None, options: dict[str, Any]) -> dict[str, Any]:
        # The server always sets a durability, and LangGraph fails on "sync" without a checkpointer.
        if self._saver(config) is not None:
            return {**options, "durability": "sync"}
        return {name: value for name, value in options.items() if name != "durability"}

    def _checked(
        self, command: Command[Any], state: StateSnapshot | None, config: RunnableConfig | None
    ) -> Command[Any] | None:
        has_more = command.goto or command.update or command.graph
        if command.resume is None:
            # LangGraph fails on an empty command. None as input asks again.
            return command if has_more else None
        if not (state and is_unfinished(state)) and not has_more:
            if state and _is_of_this_run(state, config):
                return None  # a server repeats a killed run that had ended its work
            raise NothingWaits
        pending = state.interrupts if state else ()
        answers: dict[str, dict[str, Any]] = {}
        grants: dict[str, Grant] = {}
        for asked, decisions in self._read(command.resume, pending, config):
            if isinstance(decisions, WrongAnswer):
                answer = {"error": str(decisions)}
            else:
                answer = checked(decisions)
                grants |= granted_by(decisions, asked.value, asked.id)
            # If a node asked several questions, LangGraph resumes the node by the id of the group.
            group = answers.setdefault(asked.value.get("group", asked.id), {})
            group[question_key(asked.value)] = answer
        command = replace(command, resume=answers)
        if not grants:
            return command
        # An update that a client sends beside an answer is a JSON object or a list of pairs.
        update: Any = command.update or ()
        sent = update.items() if isinstance(update, dict) else update
        return replace(command, update=[*sent, (GRANTS, grants)])

    def _read_one(self, answer: Any, question: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return checked(read_answer(self.clean(answer), question, self.edits))
        except WrongAnswer as wrong:
            return {"error": str(wrong)}

    def _read(
        self, answer: Any, pending: tuple[Interrupt, ...], config: RunnableConfig | None
    ) -> Iterator[tuple[Interrupt, list[Decision] | WrongAnswer]]:
        """Yield each answered question with its decisions, or with the reason why the answer is refused."""
        run_id = ensure_config(config)["configurable"].get("run_id")
        # What this run has asked came after the answer that started the run.
        waiting = {
            asked.id: asked.value
            for asked in pending
            if not run_id or asked.value.get("asked_in") != str(run_id)
        }
        try:
            sent = answers_by_id(answer, waiting)
        except WrongAnswer as wrong:
            yield from ((asked, wrong) for asked in pending if asked.id in waiting)
            return
        if waiting and (unknown := sorted(sent.keys() - {asked.id for asked in pending})):
            # To ask a question again with the reason would give the question another id.
            logger.warning(
                "No question has the id %s, so that answer was dropped. These questions wait: %s.",
                ", ".join(unknown),
                ", ".join(waiting),
            )
        for asked in pending:
            if asked.id in sent:
                try:
                    yield asked, read_answer(sent[asked.id], asked.value, self.edits)
                except WrongAnswer as wrong:
                    yield asked, wrong


def _is_of_this_run(state: StateSnapshot, config: RunnableConfig | None) -> bool:
    run_id = ensure_config(config)["configurable"].get("run_id")
    return run_id is not None and str((state.metadata or {}).get("run_id")) == str(run_id)


def answer_by_id(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    *,
    edits: Mapping[str, type[BaseModel]] | None = None,
    clean: Callable[[Any], Any] | None = None,
    files: RunFiles | None = None,
) -> AddressedGraph:
    """Return `graph` as an `AddressedGraph`. Needed where subagents can ask, or grants are given.

    Args:
        graph: the outermost graph, with a channel for grants.
        edits: tool name -> schema of edited arguments (see `read_answer`).
        clean: removes secrets from inputs; returns the same object if there are none.
        files: see `AddressedGraph`.
    """
    attributes = {name: value for name, value in vars(graph).items() if name != "__orig_class__"}
    return AddressedGraph(**attributes, edits=edits, clean=clean, files=files)
