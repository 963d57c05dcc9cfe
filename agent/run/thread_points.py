"""Goes back in a thread, to the end of one of its turns: the conversation and the files together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph import END, START
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from agent.prompts import back_note, files_note
from agent.run.turn_points import Point, TurnPoints, WrongPoint
from libs.middleware.approvals import GRANTS, AddressedGraph, revoked_in
from libs.middleware.arrival import arrive_at_start
from libs.middleware.captures import WORKSPACE
from libs.middleware.program_messages import by_person, told
from libs.middleware.unfinished import is_unfinished
from libs.persistence.served_saver import ServedSaver
from libs.workspace import Manifest
from libs.workspace.history import Moved, NoCapture, TurnChange, WorkspaceHistory
from libs.workspace.ledger import WayBack

__all__ = ["ThreadPoints"]

_LISTING_SECONDS = 3.0
"""Longest wait for captures that are under way, when turns are listed."""
_OF_THE_THREAD = ("graph_id", "assistant_id", "owner")
"""Metadata that each checkpoint of a thread has."""


class ThreadPoints:
    """The turns of one thread. Hold the thread's lock (`agent.threads.held`) to change anything.

    Args:
        saver: holds the checkpoints of the thread.
        history: the captures; None: no snapshots are kept.
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
        self._saver = saver
        self._turns = TurnPoints(saver, graph, thread)
        self._history = history

    async def points(self) -> list[Point]:
        """Return the begin of the thread, and the end of each turn on the way to its latest checkpoint."""
        if self._history:
            await self._history.captures.settled(self._thread, most=_LISTING_SECONDS)
        points = await self._turns.all()
        ids = await self._message_ids(points)
        ends = [
            replace(
                end, messages=ids.get(end.number, ()), changed=await self._changed(before.ticket, end.ticket)
            )
            for before, end in pairwise(points)
        ]
        return [*points[:1], *ends]

    async def _message_ids(self, points: Sequence[Point]) -> dict[int, tuple[str, ...]]:
        """Return turn -> IDs of the person's messages. The inputs of a turn often have none."""
        state = await self.graph.aget_state(self._config())
        said = [each for each in state.values.get("messages", ()) if by_person(each)]
        ids: dict[int, tuple[str, ...]] = {}
        # From the end: a summary may have taken the place of the first messages.
        for point in reversed(points if START not in state.next else points[:-1]):
            place = max(len(said) - len(point.asked), 0)
            if tuple(each.text for each in said[place:]) == point.asked:
                ids[point.number] = tuple(each.id or "" for each in said[place:])
            del said[place:]
        return ids

    async def last(self) -> int:
        """Return the number of the last turn."""
        return len(await self._turns.all()) - 1

    async def point(self, number: int) -> Point:
        """Return the end of a turn; 0: the begin of the thread.

        Raises:
            WrongPoint: the thread has no such turn.
            NoCapture: the files of this point were never kept.
        """
        point = await self._turns.one(number)
        if point is None:
            last = await self.last()
            raise WrongPoint(f"The thread has no turn {number}: give 0 (before the first turn) to {last}.")
        # The files of point 0 are those that the first turn found.
        named = point if number else await self._turns.one(1)
        if named and named.ticket is None:
            raise NoCapture(
                f"The files of turn {named.number} were not kept, so the thread cannot go back there.",
                hint="Only turns since snapshots are kept can be gone back to.",
            )
        return point

    async def manifest(self, number: int, *, begin: bool = False) -> Manifest:
        """Return the files at the end of a turn, or at its begin. Turn 0: before the first turn.

        Raises:
            WrongPoint: the thread has no such turn, or no snapshots are kept.
            NoCapture: the files of this point are not kept.
        """
        history = self._captures()
        await history.captures.settled(self._thread, most=_LISTING_SECONDS)
        ticket = (await self.point(number)).ticket
        if begin and number:
            before = await self._turns.one(number - 1)
            ticket = await history.files.begin_of(self._thread, before.ticket if before else None, ticket)
        return await history.files.at(self._thread, ticket)

    async def at_call(self, key: str, *, begin: bool) -> Manifest:
        """Return the files before or after a call that has run before it was decided on.

        Raises:
            WrongPoint: no snapshots are kept.
            NoCapture: no such call is known.
        """
        before, after = await self._captures().around_call(self._thread, key)
        return before if begin else after

    async def content(self, manifest: Manifest, path: str) -> bytes:
        """Return the content of a file of a manifest. Raises as `WorkspaceStore.aread`."""
        return await self._captures().files.content(manifest, path)

    async def go_to(self, number: int, *, dry_run: bool = False, files_only: bool = False) -> Moved:
        """Go back to the end of a turn; 0: to before the first.

        A pending question lapses. The way back is kept until the next turn begins: see `undo`.

        Args:
            dry_run: change nothing, and return what would change.
            files_only: leave the conversation as it is.

        Raises:
            WrongPoint: the thread has no such turn, or `files_only` while a call that has run waits for a
                decision. The call would run again, and the decision would be about what nobody has seen.
            NoCapture: the files of this point are not kept. Nothing was changed.
        """
        point = await self.point(number)
        if files_only and await self._waits_with_effect():
            raise WrongPoint(
                "A call has run and waits for your decision on what it did: decide first, or go back "
                "with the conversation, too."
            )
        if dry_run:
            return await self._captures().go_back(self._thread, point.ticket, dry_run=True)
        before = (await self._turns.latest()).checkpoint["id"]
        moved = await self._move(point.ticket, None if files_only else point.checkpoint, empty=number == 0)
        since = (await self._turns.latest()).checkpoint["id"]
        await self._captures().ledger.add_way_back(
            self._thread, WayBack(moved.before, before, since, files_only)
        )
        await self._captures().ledger.end_move(self._thread)
        return moved

    async def undo(self, *, dry_run: bool = False) -> Moved:
        """Return to where the thread was before it went back.

        Raises:
            WrongPoint: the thread has not gone back, or a turn has begun since.
        """
        history = self._captures()
        way = await history.ledger.way_back(self._thread)
        if way is None or way.since != (await self._turns.latest()).checkpoint["id"]:
            raise WrongPoint(
                "There is nothing to undo: the thread has not gone back since its latest turn began."
            )
        if dry_run:
            return await history.go_back(self._thread, way.ticket, dry_run=True)
        moved = await self._move(way.ticket, None if way.files_only else way.checkpoint, undo=True)
        await history.ledger.end_way_back(self._thread, (await self._turns.latest()).checkpoint["id"])
        await history.ledger.end_move(self._thread)
        return moved

    async def _waits_with_effect(self) -> bool:
        state = await self.graph.aget_state(self._config())
        asked = [request for each in state.interrupts for request in each.value.get("action_requests", ())]
        return any("effect" in request for request in asked)

    @property
    def has_files(self) -> bool:
        """Whether snapshots are kept, so the thread can go back."""
        return self._history is not None

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of new checkpoints, which name the agent."""
        return dict((self.graph.config or {}).get("metadata", {}))

    async def can_undo(self) -> bool:
        """Return whether the thread has gone back since its latest turn began."""
        way = await self._history.ledger.way_back(self._thread) if self._history else None
        return way is not None and way.since == (await self._turns.latest()).checkpoint["id"]

    async def present(self) -> Point:
        """Capture the files as they are now. Return a point with the latest checkpoint, and number -1."""
        latest = (await self._turns.latest()).checkpoint
        ticket = await self._captures().captures.present(self._thread)
        return Point(-1, latest["ts"], "", ticket, latest["id"])

    async def begin_as_copy(self, point: Point) -> Moved:
        """Go to a point of the thread of which this one is a new copy. No way leads back.

        Raises:
            NoCapture: see `go_to`.
        """
        moved = await self._move(point.ticket, point.checkpoint, empty=point.number == 0)
        await self._captures().ledger.end_move(self._thread)
        return moved

    async def _move(
        self, ticket: str | None, checkpoint: str | None, *, empty: bool = False, undo: bool = False
    ) -> Moved:
        """Bring back the files, and the conversation unless `checkpoint` is None. `empty`: to its begin."""
        history = self._captures()
        latest = await self._turns.latest()
        if await history.ledger.unfinished_move(self._thread):
            config: Any = {"configurable": {"thread_id": self._thread}}
            await arrive_at_start(history.arrive, self._saver, self._thread, config)
        moved = await history.go_back(self._thread, ticket, more_follows=True)
        if checkpoint is None:
            await history.ledger.set_head(self._thread, latest.checkpoint["channel_values"].get(WORKSPACE))
            state = await self.graph.aget_state(self._config())
            if is_unfinished(state):  # a question must not lapse
                paused: Literal["question", "run"] = "question" if state.interrupts else "run"
                await history.ledger.tell(self._thread, files_note(moved, undo=undo, paused=paused))
            else:
                await self._add(latest, told(files_note(moved, undo=undo)))
            return moved
        # END as the node: the copy of the checkpoint has no pending step, so a question lapses.
        await self._update(latest, None, as_node=END, checkpoint_id=checkpoint)
        # A grant that was revoked since stays revoked.
        revoked = revoked_in(latest)
        message = RemoveMessage(REMOVE_ALL_MESSAGES) if empty else told(back_note(moved))
        await self._add(latest, message, revoked=revoked)
        return moved

    async def _add(
        self, latest: CheckpointTuple, message: AnyMessage | RemoveMessage, *, revoked: Collection[str] = ()
    ) -> None:
        """Add a message at the end of the thread, without a pending step."""
        values = {"messages": [message]} | ({GRANTS: dict.fromkeys(revoked)} if revoked else {})
        await self._update(latest, values, as_node=START)
        await self._update(latest, None, as_node=END)

    async def _update(self, latest: CheckpointTuple, values: Any, *, as_node: str, **where: str) -> None:
        """Update the state. The new checkpoint belongs to the same owner as the thread's latest one."""
        kept = {key: value for key, value in latest.metadata.items() if key in _OF_THE_THREAD}
        config: Any = {**self._config(**where), "metadata": {**self.metadata, **kept}}
        await self.graph.aupdate_state(config, values, as_node=as_node)

    async def _changed(self, before: str | None, after: str | None) -> TurnChange | None:
        try:
            return await self._captures().files.changed(self._thread, before, after)
        except (NoCapture, WrongPoint):
            return None

    def _captures(self) -> WorkspaceHistory:
        if self._history is None:
            raise WrongPoint("No snapshots are kept of this computer, so this thread cannot go back.")
        return self._history

    def _config(self, **where: str) -> Any:
        return {"configurable": {"thread_id": self._thread, "checkpoint_ns": "", **where}}
