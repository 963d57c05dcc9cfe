"""Goes back in a thread, to the end of one of its turns: the conversation and the files together."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph import END, START
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from agent.run.turn_points import Point, TurnPoints, WrongPoint
from libs.middleware.approvals import AddressedGraph
from libs.middleware.captures import WORKSPACE
from libs.middleware.program_messages import told
from libs.persistence.served_saver import ServedSaver
from libs.workspace import Difference
from libs.workspace.history import Moved, NoCapture, WayBack, WorkspaceHistory

__all__ = ["ThreadPoints"]

_MOST_NAMED = 10
"""Paths that the model is told of."""


class ThreadPoints:
    """The turns of one thread. Hold the thread's lock (`agent.threads.held`) to change anything.

    Args:
        saver: holds the checkpoints of the thread.
        history: the captures; None for an agent without a workspace of its own.
    """

    def __init__(
        self,
        thread: str,
        graph: AddressedGraph,
        saver: ServedSaver,
        history: WorkspaceHistory | None,
    ) -> None:
        self._thread = thread
        self.graph = graph
        self._turns = TurnPoints(saver, thread)
        self._history = history

    async def points(self) -> list[Point]:
        """Return the begin of the thread, and the end of each turn on the way to its latest checkpoint."""
        points = await self._turns.all()
        ends = [
            replace(end, changed=await self._changed(before.ticket, end.ticket))
            for before, end in pairwise(points)
        ]
        return [*points[:1], *ends]

    async def point(self, number: int) -> Point:
        """Return the end of a turn; 0: the begin of the thread.

        Raises:
            WrongPoint: the thread has no such turn.
            NoCapture: the files of this point were never kept.
        """
        point = await self._turns.one(number)
        if point is None:
            last = len(await self._turns.all()) - 1
            raise WrongPoint(f"The thread has no turn {number}: give 0 (before the first turn) to {last}.")
        # The files of point 0 are those that the first turn found.
        named = point if number else await self._turns.one(1)
        if named and named.ticket is None:
            raise NoCapture(
                f"The files of turn {named.number} were not kept, so the thread cannot go back there.",
                hint="Only turns since snapshots are kept can be gone back to.",
            )
        return point

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
        point = await self.point(number)
        return await self._move(
            point.ticket, point.checkpoint, dry_run=dry_run, files_only=files_only, empty=number == 0
        )

    async def undo(self, *, dry_run: bool = False) -> Moved:
        """Return to where the thread was before it went back.

        Raises:
            WrongPoint: the thread has not gone back, or a turn has begun since.
        """
        way = await self._captures().way_back(self._thread)
        if way is None or way.since != await self._latest_id():
            raise WrongPoint(
                "There is nothing to undo: the thread has not gone back since its latest turn began."
            )
        return await self._move(way.ticket, way.checkpoint, dry_run=dry_run, is_undo=True)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of new checkpoints, which name the agent."""
        return dict((self.graph.config or {}).get("metadata", {}))

    async def can_undo(self) -> bool:
        """Return whether the thread has gone back since its latest turn began."""
        way = await self._history.way_back(self._thread) if self._history else None
        return way is not None and way.since == await self._latest_id()

    async def begin_as_copy(self, point: Point | None) -> None:
        """Go to a point of a thread that was just copied; None: to its latest checkpoint. No way leads back.

        Raises:
            NoCapture: see `go_to`.
        """
        if point is None:
            latest = (await self._latest()).checkpoint
            await self._move(latest["channel_values"].get(WORKSPACE), latest["id"], dry_run=False)
        else:
            await self._move(point.ticket, point.checkpoint, dry_run=False, empty=point.number == 0)
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
        moved = await history.go_back(self._thread, ticket, dry_run=dry_run)
        if dry_run:
            return moved
        if files_only:
            await history.stays_at(self._thread, before.checkpoint["channel_values"].get(WORKSPACE))
        else:
            # END as the node: the copy of the checkpoint has no pending step, so a question lapses.
            await self.graph.aupdate_state(self._config(checkpoint), None, as_node=END)
            if empty:
                await self._add(RemoveMessage(REMOVE_ALL_MESSAGES))
            else:
                await self._add(told(_note(moved)))
        if is_undo:
            await history.keep_way_back(self._thread, None)
        else:
            way = WayBack(moved.before, before.checkpoint["id"], await self._latest_id())
            await history.keep_way_back(self._thread, way)
        return moved

    async def _add(self, message: AnyMessage | RemoveMessage) -> None:
        """Add a message at the end of the thread, without a pending step."""
        config: Any = {"configurable": {"thread_id": self._thread}}
        await self.graph.aupdate_state(config, {"messages": [message]}, as_node=START)
        await self.graph.aupdate_state(config, None, as_node=END)

    async def _changed(self, before: str | None, after: str | None) -> Difference | None:
        try:
            return await self._captures().turn_difference(self._thread, before, after)
        except (NoCapture, WrongPoint):
            return None

    async def _latest(self) -> CheckpointTuple:
        found = await self._turns.latest()
        if found is None:
            raise WrongPoint(f"There is no thread {self._thread!r} to go back in.")
        return found

    async def _latest_id(self) -> str:
        return (await self._latest()).checkpoint["id"]

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
