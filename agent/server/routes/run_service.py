"""Carries out runs for `/run` and `/mcp`: from a task or decisions to an answer or open questions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast
from uuid import uuid4

from langgraph.errors import GraphDrained

from agent.parts import served
from agent.run import (
    GRACE,
    GRAPH_IDS,
    AgentName,
    AgentRefused,
    Event,
    Result,
    Run,
    Runtime,
    carry_out,
    explained,
    steps_taken,
)
from agent.server.durable.continued_runs import continued_later
from agent.server.durable.listed_threads import is_busy, listed
from agent.server.durable.saver import open_saver
from agent.server.json_exchange import INTERNAL, Refused
from agent.threads import AT_WORK, DRAIN, CutOff, held
from libs.middleware.approvals import NothingWaits, WrongAnswer, answers_by_id, read_answer
from libs.persistence import ThreadInUse, database_errors

__all__ = ["OWNER", "Ended", "Runs", "held_or_refused", "open_runs"]

logger = logging.getLogger(__name__)

OWNER = "owner"
"""Key of the owner in the metadata of a thread's checkpoints."""

_DRAINED = (
    "The server is ending or restarting. The run has stopped after a step, and its thread keeps all results. "
    "In a few seconds, send the next task with the thread_id {thread_id}, such as 'go on'."
)
_CONTINUED = (
    "The server is ending or restarting, and continues the run after its next start: GET "
    "/threads/{thread_id}/runs/{run_id}/join waits for the end of the run."
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, or which questions it waits for."""

    thread_id: str
    status: str
    output: str
    """The model's last words."""
    steps: list[dict[str, Any]]
    """Steps since the person's message; the last is the answer."""
    questions: list[dict[str, Any]]
    """`{id, value}` of each open interrupt; empty if the run has ended."""
    absent_paths: Sequence[str] = ()
    """See `Result`."""
    failed: bool = False
    """Whether an error ended the run; `output` names the error."""


@asynccontextmanager
async def open_runs() -> AsyncIterator[Runs]:
    """Build the graphs, open the threads, and yield the runs of this process.

    Raises:
        CheckpointerUnavailable: the database of threads cannot be used.
    """
    async with open_saver() as saver:
        runtime = Runtime(await asyncio.to_thread(served), saver)
        await runtime.build_all()
        yield Runs(runtime)


class Runs:
    """Carries out runs. Parallel runs share only the agents' compiled graphs.

    Args:
        runtime: creates the runs.
        grace: see `agent.run.driver.GRACE`.
    """

    def __init__(self, runtime: Runtime, *, grace: float = GRACE) -> None:
        self.runtime = runtime
        self._grace = grace

    async def begin(
        self, task: str, *, agent: AgentName | None, thread_id: str | None, owner: str | None
    ) -> Ended:
        """Carry out a task in an existing or new thread. Calls that wait for approval there are dropped.

        Args:
            task: what the person wants.
            agent: the agent of a new thread; None chooses by the model's abilities.
            thread_id: the thread to go on in; None begins one.
            owner: the caller; None if AUTH_TOKENS is unset.

        Raises:
            Refused: this owner has no such thread, the thread is at work or belongs to another agent, or the
                model cannot run this agent.
        """
        if thread_id is None:
            thread_id = str(uuid4())
        else:
            try:
                owner = await self._owner(thread_id, owner)
            except Refused as refused:
                raise Refused(refused.status, f"{refused} To begin a thread, leave thread_id out.") from None
        run = await self._run(thread_id, agent or "auto", owner)
        # A new thread is listed as soon as it begins, so another run may try to enter.
        async with held_or_refused(thread_id):
            return await self._carry_out(run, run.begin(task), owner)

    async def answer(self, thread_id: str, decisions: Any, *, owner: str | None) -> Ended:
        """Go on with a person's decisions. Decisions that do not fit the questions change nothing.

        Raises:
            Refused: this owner has no such thread, the thread is at work or waits for nothing, or the
                decisions do not fit the questions.
        """
        owner = await self._owner(thread_id, owner)
        run = await self._run(thread_id, "auto", owner, pending=True)
        async with held_or_refused(thread_id):
            waiting = {each.interrupt_id: each.question for each in await run.approvals()}
            if not waiting:
                raise Refused(409, str(NothingWaits()))
            try:
                answers = _addressed(decisions, waiting)
                for question, given in answers.items():
                    read_answer(given, waiting[question], run.graph.edits)
            except WrongAnswer as wrong:
                raise Refused(422, str(wrong), thread_id=thread_id, interrupts=_shown(waiting)) from None
            ended = await self._carry_out(run, run.answer(answers), owner)
            for asked in ended.questions:
                if asked["id"] in answers and (error := asked["value"].get("error")):
                    raise Refused(422, str(error), thread_id=thread_id, interrupts=ended.questions)
            return ended

    async def stands(self, thread_id: str, *, agent: AgentName, owner: str | None) -> Ended:
        """Return the state of a thread: its result or its open questions.

        The status is `running` while a run is at work in the thread.

        Raises:
            Refused: this owner has no such thread, or the thread belongs to another agent.
        """
        owner = await self._owner(thread_id, owner)
        run = await self._run(thread_id, agent, owner, pending=True)
        if is_busy(thread_id):
            return Ended(thread_id, "running", "It is at work: ask again later.", [], [])
        return await _ended(run, await run.result())

    async def _run(
        self, thread_id: str, agent: AgentName | Literal["auto"], owner: str | None, *, pending: bool = False
    ) -> Run:
        try:
            return await self.runtime.run(
                thread_id,
                agent,
                pending=pending,
                watched=False,
                metadata={OWNER: owner} if owner else {},
            )
        except AgentRefused as refused:
            raise Refused(409 if refused.thread_agent else 400, str(refused)) from None

    async def _owner(self, thread_id: str, owner: str | None) -> str | None:
        """Return a thread's owner; refuse another owner's thread. Without tokens, everybody has access."""
        latest = await self.runtime.threads.aget_tuple({"configurable": {"thread_id": thread_id}})
        its_owner = cast("str | None", latest.metadata.get(OWNER)) if latest else None
        if latest is None or owner not in (None, its_owner):
            # LangGraph lists a thread before its first run; this database does not hold it yet.
            raise Refused(404, "There is no such thread, or no run has begun in it.")
        return its_owner

    async def _carry_out(self, run: Run, events: AsyncGenerator[Event, None], owner: str | None) -> Ended:
        metadata = {"graph_id": GRAPH_IDS[run.agent]} | ({OWNER: owner} if owner else {})
        try:
            with DRAIN.answer():
                try:
                    async with listed(run.graph, run.thread_id, metadata):
                        return await _ended(run, await carry_out(run, events, grace=self._grace))
                except (GraphDrained, CutOff):
                    raise await _continued(run, metadata) from None
        except Refused:
            raise
        except Exception as error:
            if isinstance(error, database_errors()):
                raise
            if (text := explained(error)) is None:
                logger.exception("a run failed")
                text = INTERNAL
            return Ended(run.thread_id, "error", run.ended("error", text).text, [], [], failed=True)


async def _continued(run: Run, metadata: Mapping[str, Any]) -> Refused:
    named = {"thread_id": run.thread_id}
    if run_id := await continued_later(run.thread_id, GRAPH_IDS[run.agent], metadata):
        named["run_id"] = run_id
    return Refused(503, (_CONTINUED if run_id else _DRAINED).format(**named), **named)


async def _ended(run: Run, result: Result) -> Ended:
    state = await run.state()
    steps = [*steps_taken(state.values), {"type": "final", "content": result.text}]
    questions = {each.id: each.value for each in state.interrupts}
    return Ended(
        run.thread_id, result.status, result.text, steps, _shown(questions), absent_paths=result.absent_paths
    )


@asynccontextmanager
async def held_or_refused(thread_id: str) -> AsyncIterator[None]:
    """Hold a thread. Refuses if a run is at work in the thread, or the server is ending."""
    if DRAIN.requested:
        raise Refused(503, "The server is ending or restarting: ask again in a few seconds.")
    try:
        async with held(thread_id):
            yield
    except ThreadInUse:
        raise Refused(409, AT_WORK) from None


def _addressed(decisions: Any, waiting: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return question id -> answer.

    Raises:
        WrongAnswer: an id is not that of an open question; or several questions are open, and the decisions
            have no ids.
    """
    if isinstance(decisions, dict) and decisions and "type" not in decisions:
        if unknown := [question for question in decisions if question not in waiting]:
            raise WrongAnswer(
                f"no question {unknown[0][:100]!r} waits in this thread; these wait: {', '.join(waiting)}."
            )
        return {
            question: {"decisions": given} if isinstance(given, list) else given
            for question, given in decisions.items()
        }
    is_one_decision = isinstance(decisions, dict) and decisions
    return answers_by_id(decisions if is_one_decision else {"decisions": decisions}, waiting)


def _shown(waiting: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": question, "value": value} for question, value in waiting.items()]
