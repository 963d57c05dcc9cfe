"""Finds the ends of the turns of a thread in its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START

from libs.middleware.captures import WORKSPACE
from libs.middleware.program_messages import by_person
from libs.persistence.lineage import Ancestor, lineage
from libs.persistence.served_saver import ServedSaver
from libs.workspace import Difference

__all__ = ["Point", "turn_points"]


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
    changed: Difference | None = None
    """What the turn changed. None: not known, because a snapshot is missing."""


async def turn_points(saver: ServedSaver, thread: str) -> list[Point]:
    """Return the begin of a thread, and the end of each turn on the way to its latest checkpoint.

    `changed` is not filled in. The messages of the turns are not read, only the inputs: some agents rebuild
    their messages from all checkpoints, which takes long for each.
    """

    async def read(place: int) -> CheckpointTuple:
        found = await saver.aget_tuple(
            {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": line[place].id}}
        )
        assert found is not None  # noqa: S101 - the line was just read
        return found

    line = await lineage(saver, thread)
    begins = [place for place, one in enumerate(line) if one.source == "input"]
    points: list[Point] = []
    seen: set[str | None] = {None}
    for begin, next_begin in pairwise([*begins, len(line)]):
        given = await read(begin)
        if not points:
            points.append(Point(0, given.checkpoint["ts"], "", None, line[begin].id))
        asked = [each for each in _input(given) if by_person(each) and each.id not in seen - {None}]
        seen.update(each.id for each in asked)
        if not asked or (begin == begins[0] and _left(line[begin + 1 : next_begin])):
            continue
        end = await read(next_begin - 1)
        points.append(
            Point(
                len(points),
                end.checkpoint["ts"],
                "\n".join(each.text for each in asked),
                end.checkpoint["channel_values"].get(WORKSPACE),
                line[next_begin - 1].id,
            )
        )
    return points


def _input(found: CheckpointTuple) -> Sequence[BaseMessage]:
    """Return the messages that a run was given."""
    given: Any = found.checkpoint["channel_values"].get(START)
    messages: Any = given.get("messages", []) if isinstance(given, dict) else []
    return convert_to_messages(messages if isinstance(messages, list) else [messages])


def _left(after: Sequence[Ancestor]) -> bool:
    """Return whether the thread went back to its begin, so that the input was never worked on."""
    return bool(after) and all(one.source != "loop" for one in after)
