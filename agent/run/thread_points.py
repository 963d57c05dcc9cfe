"""Goes back in a thread, to the end of one of its turns: the conversation and the files together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.graph import END, START
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from libs.middleware.approvals import AddressedGraph
from libs.middleware.captures import WORKSPACE
from libs.middleware.program_messages import by_person, told
from libs.persistence.lineage import Ancestor
from libs.workspace import Difference, Manifest
from libs.workspace.history import Moved, NoCapture, WayBack, WorkspaceHistory

__all__ = ["OWNER", "Point", "ThreadPoints", "WrongPoint"]

OWNER = "owner"
"""Key of the owner in the metadata of a thread's checkpoints."""

_MOST_NAMED = 10
"""Paths that the model is told of."""


class WrongPoint(Exception):
    """There is no such point in the thread, or nothing to undo; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Point:
    """The end of a turn. Number 0 is the begin of the thread."""

    number: int
    at: str
    """When the turn ended, in ISO 8601."""
    words: str
    """What the person asked in this turn."""
    messages: tuple[str, ...]
    """IDs of the messages that hold `words`."""
    ticket: str | None
    """Names the files."""
    checkpoint: str
    """The checkpoint to which the conversation goes back."""
    changed: Difference | None = None
    """What the turn changed. None: not known, because a snapshot is missing."""


class ThreadPoints:
    """The turns of one thread. Hold the thread's lock (`agent.threads.held`) to change anything.

    Args:
        lineage: the checkpoints of the thread.
        history: the captures; None for an agent without a workspace of its own.
    """

    def __init__(
        self,
        thread: str,
        graph: AddressedGraph,
        lineage: Callable[[str], Awaitable[list[Ancestor]]],
        history: WorkspaceHistory | None,
    ) -> None:
        self._thread = thread
        self.graph = graph
        self._lineage = lineage
        self._history = history

    async def points(self) -> list[Point]:
        """Return the begin of the thread, and the end of each turn on the way to its latest checkpoint."""
        if self._history:
            await self._history.captures.settled(self._thread)
        line = await self._lineage(self._thread)
        begins = [place for place, one in enumerate(line) if one.source == "input"]
        if not begins:
            return []
        ends = [*(place - 1 for place in begins[1:]), len(line) - 1]
        first = await self.graph.aget_state(self._config(line[begins[0]].id))
        points = [Point(0, first.created_at or "", "", (), None, line[begins[0]].id)]
        seen: Sequence[AnyMessage] = ()
        for end in ends:
            state = await self.graph.aget_state(self._config(line[end].id))
            messages: list[AnyMessage] = state.values.get("messages", [])
            known = {message.id for message in seen}
            asked = [each for each in messages if each.id not in known and by_person(each)]
            ticket = state.values.get(WORKSPACE)
            seen = messages
            if not messages:  # the thread went back to its begin
                del points[1:]
            if not asked:
                continue
            changed = await self._changed(points[-1].ticket, ticket)
            words = "\n".join(each.text for each in asked)
            ids = tuple(each.id or "" for each in asked)
            at = state.created_at or ""
            points.append(Point(len(points), at, words, ids, ticket, line[end].id, changed))
        return points

    async def go_to(self, number: int, *, dry_run: bool = False, files_only: bool = False) -> Moved:
        """Go back to the end of a turn; 0: to before the first.

        A pending question lapses. The way back is kept until the next turn begins: see `undo`.

        Args:
            dry_run: change nothing, and return what would change.
            files_only: leave the conversation as it is.

        Raises:
            WrongPoint: the thread has no such turn.
            NoCapture: the files of this point are not kept. Nothing was changed.
        """
        point = self._kept_at(await self.points(), number)
        return await self._move(
            point.ticket, point.checkpoint, dry_run=dry_run, files_only=files_only, empty=number == 0
        )

    async def manifest(self, number: int, *, begin: bool = False) -> Manifest:
        """Return the files at the end of a turn, or at its begin. Turn 0: before the first turn.

        Raises:
            WrongPoint: the thread has no such turn, or the agent has no workspace of its own.
            NoCapture: the files of this point are not kept.
        """
        points = await self.points()
        ticket = self._kept_at(points, number).ticket
        history = self._captures()
        if begin and number:
            ticket = await history.begin_of(self._thread, points[number - 1].ticket, ticket)
        return await history.manifest_at(self._thread, ticket)

    async def content(self, manifest: Manifest, path: str) -> bytes:
        """Return the content of a file of a manifest. Raises as `WorkspaceStore.aread`."""
        return await self._captures().captures.store.aread(manifest.id, path)

    async def undo(self, *, dry_run: bool = False) -> Moved:
        """Return to where the thread was before it went back.

        Raises:
            WrongPoint: the thread has not gone back, or a turn has begun since.
        """
        way = await self._captures().way_back(self._thread)
        if way is None or way.since != await self._latest():
            raise WrongPoint(
                "There is nothing to undo: the thread has not gone back since its latest turn began."
            )
        return await self._move(way.ticket, way.checkpoint, dry_run=dry_run, is_undo=True)

    @property
    def has_files(self) -> bool:
        """Whether the agent has a workspace of its own, so its threads can go back."""
        return self._history is not None

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of new checkpoints, which name the agent."""
        return dict((self.graph.config or {}).get("metadata", {}))

    async def can_undo(self) -> bool:
        """Return whether the thread has gone back since its latest turn began."""
        way = await self._history.way_back(self._thread) if self._history else None
        return way is not None and way.since == await self._latest()

    async def number(self, asked: int | None) -> int:
        """Return the number of an existing turn: `asked`, or the latest.

        Raises:
            WrongPoint: the thread has no such turn.
        """
        points = await self.points()
        return self._at(points, len(points) - 1 if asked is None else asked).number

    async def begin_as_copy(self, number: int) -> None:
        """Go to the end of a turn in a thread that was just copied. There is no way back.

        Raises:
            WrongPoint, NoCapture: see `go_to`.
        """
        await self.go_to(number)
        await self._captures().keep_way_back(self._thread, None)

    async def _move(
        self,
        ticket: str | None,
        checkpoint: str,
        *,
        dry_run: bool,
        files_only: bool = False,
        is_undo: bool = False,
        empty: bool = False,
    ) -> Moved:
        history = self._captures()
        before = await self._latest()
        state = await self.graph.aget_state(self._config(before))
        moved = await history.go_back(self._thread, ticket, dry_run=dry_run)
        if dry_run:
            return moved
        if files_only:
            await history.stays_at(self._thread, state.values.get(WORKSPACE))
        else:
            owner = {key: value for key, value in (state.metadata or {}).items() if key == OWNER}
            config: Any = {**self._config(checkpoint), "metadata": owner}
            # END as the node: the copy of the checkpoint has no pending step, so a question lapses.
            await self.graph.aupdate_state(config, None, as_node=END)
            await self._add(RemoveMessage(REMOVE_ALL_MESSAGES) if empty else told(_note(moved)), owner)
        if is_undo:
            await history.keep_way_back(self._thread, None)
        else:
            way = WayBack(moved.before, before, await self._latest())
            await history.keep_way_back(self._thread, way)
        return moved

    async def _add(self, message: AnyMessage | RemoveMessage, owner: dict[str, Any]) -> None:
        """Add a message at the end of the thread, without a pending step."""
        config: Any = {"configurable": {"thread_id": self._thread}, "metadata": owner}
        await self.graph.aupdate_state(config, {"messages": [message]}, as_node=START)
        await self.graph.aupdate_state(config, None, as_node=END)

    async def _changed(self, before: str | None, after: str | None) -> Difference | None:
        try:
            return await self._captures().turn_difference(self._thread, before, after)
        except (NoCapture, WrongPoint):
            return None

    async def _latest(self) -> str:
        return (await self._lineage(self._thread))[-1].id

    def _at(self, points: Sequence[Point], number: int) -> Point:
        if not points:
            raise WrongPoint(f"There is no thread {self._thread!r} to go back in.")
        if not 0 <= number < len(points):
            raise WrongPoint(
                f"The thread has no turn {number}: give 0 (before the first turn) to {len(points) - 1}."
            )
        return points[number]

    def _kept_at(self, points: Sequence[Point], number: int) -> Point:
        point = self._at(points, number)
        if len(points) > 1 and points[max(number, 1)].ticket is None:
            raise NoCapture(
                f"The files of turn {max(number, 1)} were not kept, so the thread cannot go back there.",
                hint="Only turns since snapshots are kept can be gone back to.",
            )
        return point

    def _captures(self) -> WorkspaceHistory:
        if self._history is None:
            raise WrongPoint("This agent has no workspace of its own, so its threads cannot go back.")
        return self._history

    def _config(self, checkpoint: str) -> Any:
        return {"configurable": {"thread_id": self._thread, "checkpoint_ns": "", "checkpoint_id": checkpoint}}


def _note(moved: Moved) -> str:
    """Return what the model is told after a thread has gone back."""
    kept = [f"{path} ({why})" for path, why in islice(moved.restored.kept.items(), _MOST_NAMED)]
    more = len(moved.restored.kept) - len(kept)
    besides = f", except: {'; '.join(kept)}{f', and {more} more' if more else ''}" if kept else ""
    return (
        "The person has taken this conversation and its files back to this point. The files are as they were "
        f"here{besides}. Programs in the background and variables of Python blocks have ended."
    )
