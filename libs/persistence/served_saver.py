"""Adds what LangGraph's savers for SQLite and Postgres lack for a server: roll back, copy, prune, list.

`multitask_strategy="rollback"` takes a run back. A run that answers a question writes the answer to the
checkpoint that it begins on, which belongs to an earlier run. Deleting only the run's own checkpoints would
leave the answer, and the next run would find an approval that was taken back. So the saver keeps the earlier
writes when a run first writes to such a checkpoint, and restores them when the run is taken back.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata

from libs.persistence.saver_statements import COLUMNS, Do, Spelling

__all__ = ["Key", "ServedSaver"]

Key = tuple[str, str]
"""Kind and id of a row of the server."""

_ROWS = ", ".join(COLUMNS)


class ServedSaver(BaseCheckpointSaver[str]):
    """A mixin; it stands before LangGraph's saver in the list of bases."""

    spelling: Spelling
    forget: Callable[[str], Awaitable[None]] | None = None
    """Called with a deleted thread: removes its data outside the saver."""
    copied: Callable[[str, str], Awaitable[None]] | None = None
    """Called with source and target of a copy: copies the data outside the saver."""

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Do]:
        """Run several statements in one transaction."""

    @abstractmethod
    def alone(self) -> AbstractAsyncContextManager[None]:
        """Be the only server of this database inside the block: two would carry out runs twice.

        Raises:
            CheckpointerUnavailable: another server uses the database.
        """

    # Marks of runs

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint; mark the run's first checkpoint in a thread."""
        run_id = str(metadata.get("run_id") or _run_of(config) or "")
        if run_id:
            thread_id, checkpoint_ns, _ = _place(config)
            async with self.transaction() as do:
                if not await do(_HAS_BEGUN, run_id, thread_id):
                    await do(_MARK, run_id, thread_id, checkpoint_ns, checkpoint["id"], time.time_ns())
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save writes; before the first write to another run's checkpoint, keep that checkpoint's writes."""
        if run_id := _run_of(config):
            async with self.transaction() as do:
                await self._keep_writes(do, run_id, *_place(config))
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

    # Operations that the server calls

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Take runs back: delete their checkpoints, and their writes to checkpoints of other runs.

        A checkpoint stays if a later run is built on it: that run's messages are rebuilt from its ancestors.
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
                newer.add(place)  # restoring this checkpoint would delete the writes of this other run
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
        """Copy all checkpoints and writes of a thread to a new thread."""
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
        """Delete threads.

        Raises:
            NotImplementedError: any strategy but `delete` and `delete_all`: the messages of most agents are
                rebuilt from all checkpoints, and the latest checkpoint alone would lose them.
        """
        if strategy not in ("delete", "delete_all"):
            raise NotImplementedError(f"threads are not pruned with {strategy!r}: use delete")
        for thread_id in thread_ids:
            await self.adelete_thread(str(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread and the marks of its runs."""
        await super().adelete_thread(str(thread_id))
        async with self.transaction() as do:
            for table in ("run_marks", "writes_before"):
                await do(f"DELETE FROM {table} WHERE thread_id = ?", str(thread_id))
        if self.forget:
            await self.forget(str(thread_id))

    # Queries

    async def thread_ids(self) -> list[str]:
        """Return every thread that has a checkpoint."""
        async with self.transaction() as do:
            rows = await do("SELECT DISTINCT thread_id FROM checkpoints WHERE checkpoint_ns = ''")
        return [str(thread_id) for (thread_id,) in rows]

    async def newest(self, count: int) -> list[str]:
        """Return the threads that were at work last, latest first."""
        async with self.transaction() as do:
            rows = await do(
                # Checkpoint ids begin with their time.
                "SELECT thread_id, MAX(checkpoint_id) AS latest FROM checkpoints WHERE checkpoint_ns = '' "
                "GROUP BY thread_id ORDER BY latest DESC LIMIT ?",
                count,
            )
        return [str(thread_id) for thread_id, _ in rows]

    async def began(self, run_id: str) -> bool:
        """Return whether a run has written anything."""
        async with self.transaction() as do:
            return bool(await do("SELECT 1 FROM run_marks WHERE run_id = ? LIMIT 1", str(run_id)))

    # What a server knows besides checkpoints, such as its threads and runs: (kind, id) -> text

    async def load_rows(self) -> dict[Key, str]:
        """Return all rows."""
        async with self.transaction() as do:
            rows = await do("SELECT kind, id, value FROM server_rows")
        return {(str(kind), str(key)): str(value) for kind, key, value in rows}

    async def save_rows(self, changed: Mapping[Key, str], gone: Iterable[Key]) -> None:
        """Write and delete rows in one transaction, which is on the disk when this returns."""
        async with self.transaction() as do:
            for (kind, key), value in changed.items():
                await do(
                    "INSERT INTO server_rows VALUES (?, ?, ?) "
                    "ON CONFLICT (kind, id) DO UPDATE SET value = excluded.value",
                    *(kind, key, value),
                )
            for kind, key in gone:
                await do("DELETE FROM server_rows WHERE kind = ? AND id = ?", kind, key)


_AT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_MARK = "INSERT INTO run_marks VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_IS_MARKED = f"SELECT 1 FROM run_marks WHERE run_id = ? AND {_AT}"
_HAS_BEGUN = "SELECT 1 FROM run_marks WHERE run_id = ? AND thread_id = ? LIMIT 1"


def _run_of(config: RunnableConfig) -> str | None:
    """Return the run that calls the saver; None for an update of the state from outside."""
    run_id = config.get("metadata", {}).get("run_id") or config.get("configurable", {}).get("run_id")
    return str(run_id) if run_id else None


def _place(config: RunnableConfig) -> tuple[str, str, str]:
    at = config["configurable"]
    return str(at["thread_id"]), str(at.get("checkpoint_ns", "")), str(at.get("checkpoint_id") or "")


def _without_descendants(rows: Sequence[Sequence[Any]], runs: Collection[str]) -> set[tuple[str, str]]:
    """Return namespace and id of the checkpoints of `runs` that no other run's checkpoint descends from."""
    gone: set[tuple[str, str]] = set()
    needed: set[tuple[str, str]] = set()
    # Ids begin with the time, so a child's id is greater than its parent's.
    for checkpoint_ns, checkpoint_id, parent, run_id in sorted(
        rows, key=lambda row: str(row[1]), reverse=True
    ):
        place = (str(checkpoint_ns), str(checkpoint_id))
        if run_id in runs and place not in needed:
            gone.add(place)
        elif parent:
            needed.add((place[0], str(parent)))
    return gone
