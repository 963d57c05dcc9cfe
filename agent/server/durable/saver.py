"""Opens the server's checkpoint saver; langgraph.json names `checkpointer`.

LangGraph's server keeps threads and runs in memory and loses the last seconds of them when it is killed.
`journal.py` writes them to the database; `checkpointer` restores them before a run can start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent.secrets import secret_filter
from agent.server.durable.journal import Journal
from agent.server.langgraph_server import Lists, attempts, lists
from agent.settings import load_settings
from agent.threads import open_threads
from libs.persistence import database_errors
from libs.persistence.served_saver import ServedSaver

__all__ = ["Running", "checkpointer", "open_saver", "running"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Running:
    """The saver, journal, event loop and lists of a running server."""

    saver: ServedSaver
    journal: Journal
    loop: asyncio.AbstractEventLoop
    store: Lists


_running: Running | None = None


def running() -> Running | None:
    """Return the parts of this process's server; None if none runs, or if it has a database of its own."""
    return _running


@asynccontextmanager
async def checkpointer() -> AsyncIterator[ServedSaver]:
    """Open the saver for LangGraph's server, which enters this once for each of its event loops.

    The first entry also restores threads and runs, before the server's queue starts: so no run is carried
    out twice.

    Raises:
        CheckpointerUnavailable: the database cannot be used, or another server uses it. This server does not
            start then.
    """
    global _running  # noqa: PLW0603 one server in a process, which names this function and nothing else
    settings = load_settings()
    async with open_threads(settings) as saver:
        store = lists()
        if _running is not None or store is None:
            yield saver
            return
        async with saver.alone():
            journal = Journal(saver, store, attempts(), secret_filter(settings))
            await journal.restore()
            _running = Running(saver, journal, asyncio.get_running_loop(), store)
            try:
                yield saver
            finally:
                _running = None
                try:
                    await journal.write_last()
                except database_errors() as error:
                    logger.warning("how the last runs ended cannot be written down: %s", error)


@asynccontextmanager
async def open_saver() -> AsyncIterator[ServedSaver]:
    """Open the saver for our own routes: the same threads, through the open connection if there is one.

    The metadata of a run's config (`graph_id`, `assistant_id`, `owner`) is saved with its checkpoints. After
    a restart, a thread that only the database has takes its metadata from there.

    Raises:
        CheckpointerUnavailable: the database cannot be used.
    """
    if _running is not None and _running.loop is asyncio.get_running_loop():
        yield _running.saver
        return
    async with open_threads(load_settings()) as saver:
        yield saver
