"""What a server asks of a saver that LangGraph's savers for SQLite and Postgres do not do.

It takes a run back (`multitask_strategy="rollback"`), copies and prunes threads, and lists them.

A run that answers a question writes to the checkpoint it begins on, which is another run's: the answer, and
what comes of it. Deleting the run's own checkpoints would leave that: an approval that was taken back would
still be found by whatever goes on in the thread. So what stood there before is kept when a run first writes
to such a checkpoint, and put back when the run is taken back.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata

from libs.persistence.statements import COLUMNS, Do, Spelling

__all__ = ["ServedSaver"]

_REMEMBERED = 4096
"""Checkpoints of which it is known, without asking the database, that a run has its mark on them."""

_ROWS = ", ".join(COLUMNS)

Result = TypeVar("Result")


class ServedSaver(BaseCheckpointSaver[str]):
    """Goes before LangGraph's saver in the list of bases."""

    spelling: Spelling
    loop: asyncio.AbstractEventLoop
    forget: Callable[[str], Awaitable[None]] | None = None
    """Handed in: removes what is kept elsewhere of a thread that is deleted."""
    copied: Callable[[str, str], Awaitable[None]] | None = None
    """Handed in: copies what is kept elsewhere of a thread to another."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._marked: dict[tuple[str, ...], None] = {}

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Do]:
        """Several statements that happen together or not at all."""

    @abstractmethod
    def alone(self) -> AbstractAsyncContextManager[None]:
        """Be the only server of this database, as long as the block lasts; runs would be carried out twice.

        Raises:
            CheckpointerUnavailable: another server works with it.
        """

    # What runs leave behind

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As LangGraph's saver does it; the run's first checkpoint of a thread leaves a mark."""
        run_id = str(metadata.get("run_id") or _run_of(config) or "")
        thread_id, checkpoint_ns, _ = _place(config)
        place = (run_id, thread_id, checkpoint_ns, checkpoint["id"])
        if run_id and (run_id, thread_id) not in self._marked:
            async with self.transaction() as do:
                await do(_MARK, *place, time.time_ns())
            self._remember((run_id, thread_id))
        self._remember(place)
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As LangGraph's saver does it; those on another run's checkpoint are kept before the first."""
        if run_id := _run_of(config):
            place = (run_id, *_place(config))
            if place not in self._marked:
                async with self.transaction() as do:
                    await self._keep_writes(do, *place)
                self._remember(place)
        await super().aput_writes(config, writes, task_id, task_path)

    async def _keep_writes(
        self, do: Do, run_id: str, thread_id: str, checkpoint_ns: str, checkpoint_id: str
    ) -> None:
        place = (thread_id, checkpoint_ns, checkpoint_id)
        owner = await do(f"SELECT {self.spelling.run_id} FROM checkpoints WHERE {_AT}", *place)
        if not owner or owner[0][0] == run_id or await do(_IS_MARKED, run_id, *place):
            return
        await do(_MARK, run_id, *place, time.time_ns())
        s = self.spelling
        await do(
            f"INSERT INTO writes_before (run_id, {_ROWS}, value) "
            f"SELECT ?, {_ROWS}, {s.value} FROM {s.writes} WHERE {_AT}",
            run_id,
            *place,
        )

    def _remember(self, place: tuple[str, ...]) -> None:
        self._marked[place] = None
        if len(self._marked) > _REMEMBERED:
            del self._marked[next(iter(self._marked))]

    # What the server asks for

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Take runs back: their checkpoints go, and what they wrote to those of others.

        A checkpoint that a later run was built on stays: that run's messages are rebuilt along its ancestors.
        """
        runs = {str(run_id) for run_id in run_ids}
        async with self.transaction() as do:
            threads = {
                str(thread_id)
                for run_id in sorted(runs)
                for (thread_id,) in await do("SELECT thread_id FROM run_marks WHERE run_id = ?", run_id)
            }
            for thread_id in sorted(threads):
                await self._take_back(do, thread_id, runs)
        self._marked.clear()

    async def _take_back(self, do: Do, thread_id: str, runs: Collection[str]) -> None:
        s = self.spelling
        rows = await do(
            f"SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, {s.run_id} FROM checkpoints "
            "WHERE thread_id = ?",
            thread_id,
        )
        gone = _without_descendants(rows, runs)
        for checkpoint_ns, checkpoint_id in sorted(gone):
            for table in ("checkpoints", s.writes, "writes_before"):
                await do(f"DELETE FROM {table} WHERE {_AT}", thread_id, checkpoint_ns, checkpoint_id)
        left = {(row[0], row[1]) for row in rows} - gone
        built_on = {(row[0], row[2]) for row in rows if (row[0], row[1]) in left}
        marks = await do(
            "SELECT run_id, checkpoint_ns, checkpoint_id FROM run_marks "
            "WHERE thread_id = ? ORDER BY marked_at DESC",
            thread_id,
        )
        own = {(row[0], row[1]) for row in rows if row[3] in runs}
        newer: set[tuple[str, str]] = set()
        for run_id, *at in marks:
            place = (at[0], at[1])
            if run_id not in runs:
                newer.add(place)  # whose writes would go with those of the run that began there before it
            elif place in left - built_on - own - newer:
                await self._put_back(do, run_id, thread_id, *place)
        for run_id in sorted(runs):
            for table in ("run_marks", "writes_before"):
                await do(f"DELETE FROM {table} WHERE run_id = ? AND thread_id = ?", run_id, thread_id)
        await self._sweep_blobs(do, thread_id)

    async def _put_back(self, do: Do, run_id: str, *place: str) -> None:
        s = self.spelling
        await do(f"DELETE FROM {s.writes} WHERE {_AT}", *place)
        await do(
            f"INSERT INTO {s.writes} ({_ROWS}, {s.value}) "
            f"SELECT {_ROWS}, value FROM writes_before WHERE run_id = ? AND {_AT}",
            run_id,
            *place,
        )

    async def _sweep_blobs(self, do: Do, thread_id: str) -> None:
        if blobs := self.spelling.blobs:
            await do(
                f"DELETE FROM {blobs} b WHERE b.thread_id = ? AND NOT EXISTS (SELECT 1 FROM checkpoints c "
                "WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns "
                "AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version)",
                thread_id,
            )

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to one that does not exist yet."""
        s = self.spelling
        source, target = str(source_thread_id), str(target_thread_id)
        checkpoint = "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint"
        async with self.transaction() as do:
            await do(
                f"INSERT INTO checkpoints (thread_id, {checkpoint}, metadata) "
                f"SELECT ?, {checkpoint}, {s.moved} FROM checkpoints WHERE thread_id = ?",
                target,
                target,
                source,
            )
            rows = ", ".join(COLUMNS[1:])
            await do(
                f"INSERT INTO {s.writes} (thread_id, {rows}, {s.value}) "
                f"SELECT ?, {rows}, {s.value} FROM {s.writes} WHERE thread_id = ?",
                target,
                source,
            )
            if s.blobs:
                blob = "checkpoint_ns, channel, version, type, blob"
                await do(
                    f"INSERT INTO {s.blobs} (thread_id, {blob}) "
                    f"SELECT ?, {blob} FROM {s.blobs} WHERE thread_id = ?",
                    target,
                    source,
                )
        if self.copied:
            await self.copied(source, target)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Prune threads: `delete` (or `delete_all`) them, or `keep_latest` of each of their namespaces.

        Raises:
            ValueError: there is no such strategy.
            NotImplementedError: `keep_latest` for a thread whose messages are rebuilt along its checkpoints,
                as those of the deep agent are: the latest alone would have lost them.
        """
        if strategy in ("delete", "delete_all"):
            for thread_id in thread_ids:
                await self.adelete_thread(str(thread_id))
            return
        if strategy != "keep_latest":
            raise ValueError(f"unknown strategy {strategy!r}: keep_latest, delete or delete_all")
        async with self.transaction() as do:
            for thread_id in map(str, thread_ids):
                await self._keep_latest(do, thread_id)

    async def _keep_latest(self, do: Do, thread_id: str) -> None:
        s = self.spelling
        if await do(f"SELECT 1 FROM checkpoints WHERE thread_id = ? AND {s.delta} LIMIT 1", thread_id):
            raise NotImplementedError(f"thread {thread_id} is rebuilt from all of its checkpoints")
        heads = await do(
            "SELECT checkpoint_ns, MAX(checkpoint_id) FROM checkpoints "
            "WHERE thread_id = ? GROUP BY checkpoint_ns",
            thread_id,
        )
        for checkpoint_ns, checkpoint_id in heads:
            for table in ("checkpoints", s.writes, "writes_before"):
                await do(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id <> ?",
                    thread_id,
                    checkpoint_ns,
                    checkpoint_id,
                )
        await do("UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE thread_id = ?", thread_id)
        await self._sweep_blobs(do, thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread, and what was kept of its runs."""
        await super().adelete_thread(str(thread_id))
        async with self.transaction() as do:
            for table in ("run_marks", "writes_before"):
                await do(f"DELETE FROM {table} WHERE thread_id = ?", str(thread_id))
        self._marked.clear()
        if self.forget:
            await self.forget(str(thread_id))

    # What a start needs to know

    async def thread_ids(self) -> list[str]:
        """Every thread that has a checkpoint."""
        async with self.transaction() as do:
            rows = await do("SELECT DISTINCT thread_id FROM checkpoints WHERE checkpoint_ns = ''")
        return [str(thread_id) for (thread_id,) in rows]

    async def newest(self, count: int) -> list[str]:
        """The threads that were at work last, the latest first."""
        async with self.transaction() as do:
            rows = await do(
                # Ids begin with the time.
                "SELECT thread_id, MAX(checkpoint_id) AS latest FROM checkpoints WHERE checkpoint_ns = '' "
                "GROUP BY thread_id ORDER BY latest DESC LIMIT ?",
                count,
            )
        return [str(thread_id) for thread_id, _ in rows]

    async def began(self, run_id: str) -> bool:
        """Whether a run has written anything."""
        async with self.transaction() as do:
            return bool(await do("SELECT 1 FROM run_marks WHERE run_id = ? LIMIT 1", str(run_id)))

    # The same for synchronous callers in another thread

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._wait(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._wait(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._wait(self.aprune(thread_ids, strategy=strategy))

    def _wait(self, doing: Awaitable[Result]) -> Result:
        async def do_it() -> Result:
            return await doing

        return asyncio.run_coroutine_threadsafe(do_it(), self.loop).result()


_AT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_MARK = "INSERT INTO run_marks VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_IS_MARKED = f"SELECT 1 FROM run_marks WHERE run_id = ? AND {_AT}"


def _run_of(config: RunnableConfig) -> str | None:
    """The run that a saver is called for; none where the state is updated from outside."""
    run_id = config.get("metadata", {}).get("run_id") or config.get("configurable", {}).get("run_id")
    return str(run_id) if run_id else None


def _place(config: RunnableConfig) -> tuple[str, str, str]:
    at = config["configurable"]
    return str(at["thread_id"]), str(at.get("checkpoint_ns", "")), str(at.get("checkpoint_id") or "")


def _without_descendants(rows: Sequence[Sequence[Any]], runs: Collection[str]) -> set[tuple[str, str]]:
    """The checkpoints of `runs` that no checkpoint of another run descends from, as namespace and id."""
    gone: set[tuple[str, str]] = set()
    needed: set[tuple[str, str]] = set()
    # A child's id is later than its parent's: ids begin with the time.
    for checkpoint_ns, checkpoint_id, parent, run_id in sorted(
        rows, key=lambda row: str(row[1]), reverse=True
    ):
        place = (str(checkpoint_ns), str(checkpoint_id))
        if run_id in runs and place not in needed:
            gone.add(place)
        elif parent:
            needed.add((place[0], str(parent)))
    return gone
