"""Opens the checkpointer: a file in the working directory, or the database that the settings name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent.settings import COMMANDS, THREADS, Settings
from libs.persistence import CheckpointerUnavailable
from libs.persistence.served_saver import ServedSaver
from libs.sandbox import RecordUnavailable
from libs.sandbox.host import CommandRecords

if TYPE_CHECKING:
    from agent.threads.snapshot_store import SnapshotStore

__all__ = ["open_threads", "place"]

logger = logging.getLogger(__name__)


def place(settings: Settings) -> str:
    """Say where threads are kept, for messages."""
    return "the database at DATABASE_URL" if settings.postgres_url else str(THREADS.absolute())


@asynccontextmanager
async def open_threads(settings: Settings) -> AsyncIterator[ServedSaver]:
    """Open the checkpointer of this installation.

    Deleting a thread also deletes the record of its commands, its values, files and messages, and its
    snapshots. Copying a thread copies its values, files and messages, and lets the copy use the snapshots.

    Raises:
        CheckpointerUnavailable: the file or the database cannot be used; the error says what to do.
    """
    records = CommandRecords(COMMANDS)

    async def forget(thread_id: str) -> None:
        from agent.threads.memory_store import kept_data

        # The thread itself is deleted by now.
        try:
            await records.forget(thread_id)
        except RecordUnavailable as error:
            logger.warning("the record of its commands stays: %s %s", error, error.hint)
        try:
            async with kept_data(settings) as stores:
                for store in stores:
                    await store.forget(thread_id)
        except CheckpointerUnavailable as error:
            logger.warning("its values, files and messages stay: %s %s", error, error.hint)
        await with_snapshots("its snapshots stay", lambda kept: kept.pruner.forget(thread_id))

    async def copied(source: str, target: str) -> None:
        from agent.threads.memory_store import kept_data

        try:
            async with kept_data(settings) as stores:
                for store in stores:
                    await store.copy(source, target)
        except CheckpointerUnavailable as error:
            logger.warning("the copy has no values, files and messages: %s %s", error, error.hint)
        await with_snapshots(
            "the copy has no snapshots, and in a workspace of its own no files",
            lambda kept: kept.ledger.copy(source, target, shared=settings.scope == "shared"),
        )

    async def with_snapshots(failed: str, work: Callable[[SnapshotStore], Awaitable[None]]) -> None:
        from agent.threads.snapshot_store import kept_snapshots
        from libs.workspace import SnapshotsUnavailable

        try:
            async with kept_snapshots(settings) as kept:
                if kept:
                    await work(kept)
        except (CheckpointerUnavailable, SnapshotsUnavailable) as error:
            logger.warning("%s: %s %s", failed, error, error.hint)

    try:
        async with _open(settings) as saver:
            saver.forget, saver.copied = forget, copied
            yield saver
    finally:
        await asyncio.to_thread(records.close)


@asynccontextmanager
async def _open(settings: Settings) -> AsyncIterator[ServedSaver]:
    if url := settings.postgres_url:
        from libs.persistence.postgres_saver import open_postgres

        async with open_postgres(url) as in_postgres:
            yield in_postgres
    else:
        from libs.persistence.sqlite_saver import open_checkpointer

        async with open_checkpointer(THREADS) as in_sqlite:
            yield in_sqlite
