"""Where threads are kept: a file in the working directory, or the database that the settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.config import Settings
from libs.persistence.served_saver import ServedSaver
from libs.persistence.sqlite import open_checkpointer

__all__ = ["LOCKS", "THREADS", "open_threads", "place"]

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

    Raises:
        CheckpointerUnavailable: the file or the database cannot be used; says what to do.
    """
    if url := settings.postgres_url:
        from libs.persistence.postgres import open_postgres

        async with open_postgres(url) as in_postgres:
            yield in_postgres
    else:
        async with open_checkpointer(THREADS) as in_sqlite:
            yield in_sqlite
