"""The saver of the server; `checkpointer` is what langgraph.json names.

LangGraph's server keeps its threads and runs in memory, and forgets the last seconds of them when it is
killed. `checkpointer` brings them back from the database before a run can start; `journal.py` writes them
there.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agent.config import load_settings
from agent.known_secrets import secret_filter
from agent.server.journal import Journal
from agent.threads import open_threads
from libs.persistence.errors import database_errors
from libs.persistence.served_saver import ServedSaver

__all__ = ["Running", "checkpointer", "open_saver", "running"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Running:
    """What a running server works with."""

    saver: ServedSaver
    journal: Journal
    loop: asyncio.AbstractEventLoop
    store: dict[str, list[dict[str, Any]]]
    """What the server lists: kind (`threads`, `runs`) -> rows."""


_running: Running | None = None


def running() -> Running | None:
    """What the server of this process works with; None where none runs, or one with a database of its own."""
    return _running


@asynccontextmanager
async def checkpointer() -> AsyncIterator[ServedSaver]:
    """Open the saver for LangGraph's server, which enters this once for each of its event loops.

    The first to come also restores what the server knew of threads and runs. That is before its queue starts,
    so that no run is carried out twice.

    Raises:
        CheckpointerUnavailable: the database cannot be used, or another server works with it: this one does
            not start.
    """
    global _running  # noqa: PLW0603 one server in a process, which names this function and nothing else
    settings = load_settings()
    async with open_threads(settings) as saver:
        # Loaded where it is the runtime. Any other brings its own database.
        database = sys.modules.get("langgraph_runtime_inmem.database")
        if _running is not None or database is None:
            yield saver
            return
        async with saver.alone():
            journal = Journal(saver, database, secret_filter(settings))
            await journal.restore()
            _running = Running(saver, journal, asyncio.get_running_loop(), database.GLOBAL_STORE)
            try:
                yield saver
            finally:
                _running = None
                try:
                    await journal.write()
                except database_errors() as error:
                    logger.warning("how the last runs ended cannot be written down: %s", error)


@asynccontextmanager
async def open_saver() -> AsyncIterator[ServedSaver]:
    """Open the saver for routes beside LangGraph's: the same threads, by the same connection if one is open.

    What the metadata of a run's config tells of the thread (`graph_id`, `assistant_id`, `owner`) is kept with
    its checkpoints, and becomes the thread's where it is found in the database alone, after a restart.

    Raises:
        CheckpointerUnavailable: the database cannot be used.
    """
    if _running is not None and _running.loop is asyncio.get_running_loop():
        yield _running.saver
        return
    async with open_threads(load_settings()) as saver:
        yield saver
