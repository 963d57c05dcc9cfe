"""Runs in threads, for programs: from a task or from decisions to an answer or to questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, Interrupt

from agent.agents import GRAPH_IDS, AgentName, build_agent, named_in, steps_of
from agent.models import calls_tools
from agent.served import Served, served
from agent.server.exchange import Refused
from agent.server.listed import listed
from agent.server.saver import open_saver
from agent.steps import settle
from agent.turns import held
from libs.middleware.answers import AddressedGraph
from libs.middleware.decisions import WrongAnswer
from libs.middleware.grants import decided
from libs.persistence.thread_lock import ThreadInUse

__all__ = ["Ended", "Runs", "open_runs"]

OWNER = "owner"
"""Where the metadata of a thread's checkpoints names its owner, where it has one."""

_GRACE = 30.0
"""Seconds that a run may last beyond those of its budget, in which no model and no tool is at work."""

Decisions = list[Any] | Mapping[str, list[Any]]
"""What is decided about the only question that waits, or by the ids of questions."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, or where it stopped to ask."""

    thread_id: str
    status: str
    output: str
    """The model's last words."""
    steps: list[dict[str, Any]]
    """What was done since the person's message; the last is the answer."""
    questions: list[dict[str, Any]]
    """Each `{id, value}` of an interrupt that waits; none where the run has ended."""


@asynccontextmanager
async def open_runs() -> AsyncIterator[Runs]:
    """The runs of this process, its graphs built and its threads open.

    Raises:
        CheckpointerUnavailable: the database of threads cannot be used.
    """
    async with open_saver() as saver:
        yield await asyncio.to_thread(lambda: Runs(served(), saver))


class Runs:
    """Carries out runs on the agents' compiled graphs; two of them share no more than these.

    Args:
        made: what to serve with.
        saver: keeps threads.
        grace: see `_GRACE`.
    """

    def __init__(self, made: Served, saver: BaseCheckpointSaver[Any], *, grace: float = _GRACE) -> None:
        self._model = made.model
        self._saver = saver
        self._seconds = made.settings.run_max_seconds + grace
        self._graphs = {
            name: cast(
                "AddressedGraph",
                build_agent(
                    name,
                    made.model,
                    checkpointer=saver,
                    settings=made.settings,
                    backend=made.backend,
                    parts=made.exec_parts if name == "exec" else None,
                ),
            )
            for name in GRAPH_IDS
        }

    async def begin(
        self, task: str, *, agent: AgentName | None, thread_id: str | None, owner: str | None
    ) -> Ended:
        """Carry out a task in a thread, or in a new one. Calls that wait for approval there are dropped.

        Args:
            task: what the person wants.
            agent: whose thread a new one becomes; None: what the model is able to be.
            thread_id: the thread to go on in; None begins one.
            owner: who asks; None: nobody has a token.

        Raises:
            Refused: there is no such thread of this owner, it is another agent's or at work, or the model
                cannot be this agent.
        """
        given = {"messages": [HumanMessage(task)]}
        if thread_id is None:
            agent, thread_id = await self._chosen(agent), str(uuid4())
            # Listed as soon as it begins, so another run may come in.
            async with _held(thread_id):
                return await self._carry_out(agent, thread_id, given, owner)
        its_agent, owner = await self._thread(thread_id, owner)
        if agent not in (None, its_agent):
            raise Refused(
                409,
                f'The thread is one of the {its_agent} agent: leave "agent" out, or begin a new thread '
                'without "thread_id".',
            )
        async with _held(thread_id):
            return await self._carry_out(its_agent, thread_id, given, owner)

    async def answer(self, thread_id: str, decisions: Decisions, *, owner: str | None) -> Ended:
        """Go on with a person's decisions. What does not fit the questions changes nothing.

        Raises:
            Refused: there is no such thread of this owner, it is at work or waits for nothing, or the
                decisions do not fit.
        """
        agent, owner = await self._thread(thread_id, owner)
        graph = self._graphs[agent]
        async with _held(thread_id):
            waiting = {each.id: each for each in (await graph.aget_state(_config(thread_id))).interrupts}
            if not waiting:
                raise Refused(409, "Nothing in this thread waits for approval.")
            answers = _addressed(decisions, waiting)
            for question, given in answers.items():
                try:
                    decided(given, waiting[question].value, graph.edits)
                except WrongAnswer as wrong:
                    raise Refused(422, str(wrong), thread_id=thread_id, interrupts=_shown(waiting)) from None
            ended = await self._carry_out(agent, thread_id, Command(resume=answers), owner)
            for asked in ended.questions:
                if asked["id"] in answers and (error := asked["value"].get("error")):
                    raise Refused(422, str(error), thread_id=thread_id, interrupts=ended.questions)
            return ended

    async def _chosen(self, asked: AgentName | None) -> AgentName:
        if asked in ("code", "exec"):
            return asked
        # In a thread: a provider's package may have to be imported first.
        able = await asyncio.to_thread(calls_tools, self._model)
        if asked == "deep" and not able:
            raise Refused(
                400,
                "The configured model cannot call tools, and the deep agent works with nothing else: send "
                '"agent": "code", or leave "agent" out.',
            )
        return "deep" if able else "code"

    async def _thread(self, thread_id: str, owner: str | None) -> tuple[AgentName, str | None]:
        """Whose agent a thread is, and whose it is; where nobody has a token, everybody may have it."""
        latest = await self._saver.aget_tuple(_config(thread_id))
        its_owner = cast("str | None", latest.metadata.get(OWNER)) if latest else None
        if latest is None or owner not in (None, its_owner):
            raise Refused(404, "There is no such thread. To begin one, send no thread_id to /run.")
        return named_in(latest.metadata), its_owner

    async def _carry_out(self, agent: AgentName, thread_id: str, given: Any, owner: str | None) -> Ended:
        metadata = {"graph_id": GRAPH_IDS[agent]} | ({OWNER: owner} if owner else {})
        async with listed(self._graphs[agent], thread_id, metadata):
            return await self._run(agent, thread_id, given, owner)

    async def _run(self, agent: AgentName, thread_id: str, given: Any, owner: str | None) -> Ended:
        graph = self._graphs[agent]
        config = _config(thread_id, owner)
        try:
            async with asyncio.timeout(self._seconds) as deadline:
                # Written before the next step begins: no command runs ahead of the approval that allows it.
                state = await graph.ainvoke(given, config, durability="sync")
        except asyncio.CancelledError:
            await settle(graph, config, steps_of(agent))
            raise
        except TimeoutError:
            if not deadline.expired():
                raise
            await settle(graph, config, steps_of(agent))
            raise Refused(500, f"The run was ended after {self._seconds:g} s (RUN_MAX_SECONDS).") from None
        waiting = (await graph.aget_state(config)).interrupts if state.get("__interrupt__") else ()
        messages: list[AnyMessage] = state.get("messages", [])
        last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
        output = last.text if last else ""
        status = "interrupted" if waiting else state.get("status") or "completed"
        done = _blocks_run(state) if agent == "code" else _tools_used(messages)
        steps = [*done, {"type": "final", "content": output}]
        return Ended(thread_id, status, output, steps, _shown({each.id: each for each in waiting}))


def _config(thread_id: str, owner: str | None = None) -> RunnableConfig:
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    if owner is not None:
        config["metadata"] = {OWNER: owner}
    return config


@asynccontextmanager
async def _held(thread_id: str) -> AsyncIterator[None]:
    try:
        async with held(thread_id):
            yield
    except ThreadInUse:
        raise Refused(409, "The thread is at work: wait until its run has ended.") from None


def _addressed(decisions: Decisions, waiting: Mapping[str, Interrupt]) -> dict[str, dict[str, Any]]:
    """Question id -> its answer.

    Raises:
        Refused: it does not say which question is meant, or none that waits.
    """
    questions = _shown(waiting)
    if isinstance(decisions, list):
        if len(waiting) > 1:
            raise Refused(
                422,
                f'{len(waiting)} questions wait: send "decisions" as an object, the id of each -> its list.',
                interrupts=questions,
            )
        return {question: {"decisions": decisions} for question in waiting}
    if unknown := [question for question in decisions if question not in waiting]:
        raise Refused(422, f"No question {unknown[0][:100]!r} waits in this thread.", interrupts=questions)
    if not decisions:
        raise Refused(422, '"decisions" is empty.', interrupts=questions)
    return {question: {"decisions": given} for question, given in decisions.items()}


def _shown(waiting: Mapping[str, Interrupt]) -> list[dict[str, Any]]:
    return [{"id": question, "value": asked.value} for question, asked in waiting.items()]


def _tools_used(messages: list[AnyMessage]) -> list[dict[str, Any]]:
    """The calls of tools since the person's message that have a result, in the order of the calls."""
    begun = max((n for n, message in enumerate(messages) if isinstance(message, HumanMessage)), default=0)
    ours = messages[begun:]
    results = {message.tool_call_id: message.text for message in ours if isinstance(message, ToolMessage)}
    return [
        {"type": "tool", "name": call["name"], "args": call["args"], "result": results[str(call["id"])]}
        for message in ours
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] in results
    ]


def _blocks_run(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks that the run has run, as calls of the tool as which they are approved."""
    return [
        {
            "type": "tool",
            "name": "execute_code",
            "args": {"language": each["language"], "code": each["code"]},
            "result": each["output"],
        }
        for each in state.get("executions") or []
    ]
