"""Restores every thread of the database, with its messages and open questions, when the server starts.

The journal restores the rows of threads and runs. This module reads the content of each thread from its
checkpoints, with the graph that wrote them, and adds threads that the journal does not have.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from starlette.exceptions import HTTPException

from agent.run import GRAPH_IDS, named_in
from agent.server.durable.listed_threads import new_row, tell
from agent.server.durable.saver import Running, running
from agent.server.langgraph_server import read_state
from libs.middleware.unfinished import is_unfinished

__all__ = ["restore_threads"]

logger = logging.getLogger(__name__)

_OF_THE_THREAD = ("graph_id", "assistant_id", "owner")
"""Metadata of a checkpoint that belongs to its thread."""

_UNREADABLE = (HTTPException, ValueError, KeyError, TypeError, AttributeError)
"""Errors of reading a thread whose graph is gone, or whose checkpoints another version wrote."""


async def restore_threads() -> None:
    """Restore every thread of the database. Does nothing if the server has a database of its own."""
    if (at_work := running()) is None:
        return
    threads = at_work.store["threads"]
    known = {str(thread["thread_id"]) for thread in threads}
    for thread_id in await at_work.saver.thread_ids():
        if thread_id not in known and (found := await _found(at_work, thread_id)):
            threads.append(found)
    for thread in list(threads):
        if not await _filled(at_work, thread):
            logger.warning("thread %s cannot be read, and is shown without its messages", thread["thread_id"])
    await at_work.journal.write()


async def _found(at_work: Running, thread_id: str) -> dict[str, Any] | None:
    """Return a row for a thread that only the database has; None if its id is not a UUID."""
    try:
        thread = UUID(thread_id)
    except ValueError:  # of `code-agent run`
        return None
    latest = await at_work.saver.aget_tuple({"configurable": {"thread_id": thread_id}})
    if str(thread) != thread_id or latest is None:
        return None
    saved: dict[str, Any] = dict(latest.metadata)
    metadata = {name: saved[name] for name in _OF_THE_THREAD if saved.get(name)}
    metadata.setdefault("graph_id", GRAPH_IDS[named_in(saved)])
    then = datetime.fromisoformat(latest.checkpoint["ts"]).astimezone(UTC)
    return new_row(thread, metadata, then)


async def _filled(at_work: Running, thread: dict[str, Any]) -> bool:
    """Read a thread's state into its row; return False if the state cannot be read."""
    thread_id, before = thread["thread_id"], (thread["status"], thread["updated_at"])
    runs = [run for run in at_work.store["runs"] if run["thread_id"] == thread_id]
    if thread["status"] == "busy" and not any(run["status"] in {"pending", "running"} for run in runs):
        thread["status"] = "idle"
        before = ("idle", thread["updated_at"])
    try:
        state = await read_state(thread_id)
    except _UNREADABLE:
        logger.info("thread %s:", thread_id, exc_info=True)
        return False
    # A run that went on meanwhile has newer values.
    if not state.created_at or before != (thread["status"], thread["updated_at"]):
        return True
    tell(thread, state)
    if thread["status"] not in {"busy", "error"}:
        thread["status"] = "interrupted" if is_unfinished(state) else "idle"
    return True
