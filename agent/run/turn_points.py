"""Finds the ends of the turns of a thread in its checkpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START

from libs.middleware.approvals import AddressedGraph
from libs.middleware.captures import WORKSPACE
from libs.middleware.program_messages import by_person
from libs.persistence.lineage import Ancestor, lineage
from libs.persistence.served_saver import ServedSaver
from libs.workspace.history import TurnChange

__all__ = ["Point", "ThreadGone", "TurnPoints", "WrongPoint"]


class WrongPoint(Exception):
    """There is no such point in the thread, or nothing to undo; the message says what there is."""


class ThreadGone(WrongPoint):
    """The thread was deleted, perhaps while it was read."""


@dataclass(frozen=True, slots=True)
class Point:
    """The end of a turn. Number 0 is the begin of the thread."""

    number: int
    at: str
    """When the turn ended, in ISO 8601."""
    words: str
    """What the person asked in this turn."""
    ticket: str | None
    """Names the files."""
    checkpoint: str
    """The checkpoint to which the conversation goes back."""
    asked: tuple[str, ...] = ()
    """The texts of the person's messages."""
    messages: tuple[str, ...] = ()
    """The IDs of these messages. Empty: not known."""
    changed: TurnChange | None = None
    """What the turn changed. None: not known, because a snapshot is missing."""


@dataclass(frozen=True, slots=True)
class _Turn:
    number: int
    asked: tuple[str, ...]
    end: str
    """Its last checkpoint."""


class TurnPoints:
    """The begin of a thread, and the end of each turn on the way to its latest checkpoint.

    Reads the inputs of the turns and not their messages: some agents rebuild the messages from all
    checkpoints, which takes long for each turn. `Point.messages` and `Point.changed` are not filled in.
    """

    def __init__(self, saver: ServedSaver, graph: AddressedGraph, thread: str) -> None:
        self._saver = saver
        self._graph = graph
        self._thread = thread

    async def all(self) -> list[Point]:
        """Return all points: none, or the begin and each turn."""
        return [await self._point(turn) async for turn in self._turns()]

    async def one(self, number: int) -> Point | None:
        """Return a point; None: the thread has no such turn."""
        async for turn in self._turns():
            if turn.number == number:
                return await self._point(turn)
        return None

    async def latest(self) -> CheckpointTuple:
        """Return the latest checkpoint.

        Raises:
            ThreadGone: there is no such thread.
        """
        found = await self._saver.aget_tuple(self._config())
        if found is None:
            raise ThreadGone(f"There is no thread {self._thread!r} to go back in.")
        return found

    async def _turns(self) -> AsyncIterator[_Turn]:
        line = await lineage(self._saver, self._thread)
        begins = [place for place in range(len(line)) if _may_begin(line, place)]
        seen: set[str | None] = set()
        turn: _Turn | None = None
        for begin, after in pairwise([*begins, len(line)]):
            one = line[begin]
            turn = turn or _Turn(0, (), one.id)
            given = await (self._input(one) if one.source == "input" else self._added(one))
            asked = [each for each in given if by_person(each) and each.id not in seen]
            seen.update(each.id for each in asked if each.id)
            steps = [one.id for one in line[begin + 1 : after] if one.source == "loop"]
            # After a return to the begin of the thread, updates follow the first input, and no step.
            if asked and (steps or begin + 1 == after or begin != begins[0]):
                yield turn
                texts = tuple(each.text for each in asked)
                turn = _Turn(turn.number + 1, texts, line[after - 1].id)
            if steps and turn.number:
                # Without what was added after the turn, such as the note of a return.
                turn = replace(turn, end=steps[-1])
        if turn:
            yield turn

    async def _input(self, begin: Ancestor) -> Sequence[BaseMessage]:
        """Return the messages that a run was given."""
        given: Any = (await self.read(begin.id)).checkpoint["channel_values"].get(START)
        messages: Any = given.get("messages", []) if isinstance(given, dict) else []
        return convert_to_messages(messages if isinstance(messages, list) else [messages])

    async def _added(self, update: Ancestor) -> Sequence[BaseMessage]:
        """Return the messages that an update of the state added, as Studio does before a run."""
        states = [
            await self._graph.aget_state(self._config(checkpoint_id=each))
            for each in (update.parent, update.id)
            if each
        ]
        before = {message.id for state in states[:-1] for message in state.values.get("messages", [])}
        messages: list[BaseMessage] = states[-1].values.get("messages", [])
        return [message for message in messages if message.id not in before]

    async def _point(self, turn: _Turn) -> Point:
        end = (await self.read(turn.end)).checkpoint
        ticket = end["channel_values"].get(WORKSPACE) if turn.number else None
        return Point(turn.number, end["ts"], "\n".join(turn.asked), ticket, turn.end, turn.asked)

    async def read(self, checkpoint: str) -> CheckpointTuple:
        """Return a checkpoint of the thread.

        Raises:
            ThreadGone: the thread has no such checkpoint any more.
        """
        found = await self._saver.aget_tuple(self._config(checkpoint_id=checkpoint))
        if found is None:
            raise ThreadGone(f"The thread {self._thread!r} was deleted meanwhile.")
        return found

    def _config(self, **more: str) -> Any:
        return {"configurable": {"thread_id": self._thread, "checkpoint_ns": "", **more}}


def _may_begin(line: Sequence[Ancestor], place: int) -> bool:
    """Return whether a turn may begin with a checkpoint: with an input, or an update before a step."""
    source = line[place].source
    return source == "input" or (
        source in ("update", "fork") and place + 1 < len(line) and line[place + 1].source == "loop"
    )
