"""Where threads are kept: a file in the working directory, or the database that the settings name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.config import COMMANDS, Settings
from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.served_saver import ServedSaver
from libs.persistence.sqlite import open_checkpointer
from libs.sandbox import RecordUnavailable
from libs.sandbox.records import CommandRecords

__all__ = ["LOCKS", "THREADS", "open_threads", "place"]

logger = logging.getLogger(__name__)

THREADS = Path(".code-agent/threads.sqlite")
"""The file, in the working directory."""

LOCKS = THREADS.parent / "locks"
"""Who works in a thread holds its lock in this folder: see `libs.persistence.thread_lock`."""


def place(settings: Settings) -> str:
    """Where threads are kept, for people."""
    return "the database at DATABASE_URL" if settings.postgres_url else str(THREADS.absolute())


@asynccontextmanager
async def open_threads(settings: Settings) -> AsyncIterator[ServedSaver]:
    """Open the checkpointer of this installation.

    A thread that is deleted takes the record of its commands along, and all else that is kept of it; one that
    is copied has what is kept of the other.

    Raises:
        CheckpointerUnavailable: the file or the database cannot be used; says what to do.
    """
    records = CommandRecords(COMMANDS)

    async def forget(thread_id: str) -> None:
        from agent.memory import forget_thread

        # The thread itself is deleted by now.
        try:
            await records.aforget(thread_id)
        except RecordUnavailable as error:
            logger.warning("the record of its commands stays: %s %s", error, error.hint)
        try:
            await forget_thread(settings, thread_id)
        except CheckpointerUnavailable as error:
            logger.warning("what its programs have kept stays: %s %s", error, error.hint)

    async def copied(source: str, target: str) -> None:
        from agent.memory import copy_thread

        try:
            await copy_thread(settings, source, target)
        except CheckpointerUnavailable as error:
            logger.warning("the copy has nothing of what is kept of the thread: %s %s", error, error.hint)

    try:
        async with _open(settings) as saver:
            saver.forget, saver.copied = forget, copied
            yield saver
    finally:
        await asyncio.to_thread(records.close)


@asynccontextmanager
async def _open(settings: Settings) -> AsyncIterator[ServedSaver]:
    if url := settings.postgres_url:
        from libs.persistence.postgres import open_postgres

        async with open_postgres(url) as in_postgres:
            yield in_postgres
    else:
        async with open_checkpointer(THREADS) as in_sqlite:
            yield in_sqlite
