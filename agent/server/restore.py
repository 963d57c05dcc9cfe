"""At the start of the server: every thread of the database is there, with what it says and what it waits for.

The journal has brought back threads and runs. What a thread's checkpoints hold is read with the graph that
wrote them; threads that only the database knows, made by another route, get their place as well.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from starlette.exceptions import HTTPException

from agent.agents import GRAPH_IDS, named_in
from agent.server.listed import new_row, tell
from agent.server.saver import Running, running

__all__ = ["restore_threads"]

logger = logging.getLogger(__name__)

_OF_THE_THREAD = ("graph_id", "assistant_id", "owner")
"""What the metadata of a checkpoint tells of its thread."""

_UNREADABLE = (HTTPException, ValueError, KeyError, TypeError, AttributeError)
"""What a thread raises whose graph is gone, or whose checkpoints another version wrote."""


async def restore_threads() -> None:
    """Bring every thread of the database back. Does nothing where the server has a database of its own."""
    if (at_work := running()) is None:
        return
    from langgraph_runtime.database import connect

    began = asyncio.get_running_loop().time()
    async with connect() as connection:
        threads: list[dict[str, Any]] = connection.store["threads"]
        known = {str(thread["thread_id"]) for thread in threads}
        for thread_id in await at_work.saver.thread_ids():
            if thread_id not in known and (found := await _found(at_work, thread_id)):
                threads.append(found)
        unreadable = [
            thread["thread_id"] for thread in list(threads) if not await _filled(connection, thread)
        ]
    for thread_id in unreadable:
        logger.warning("thread %s cannot be read, and is shown without its messages", thread_id)
    await at_work.journal.write()
    seconds = asyncio.get_running_loop().time() - began
    logger.info("%d threads are as they were left (%.2f s)", len(threads), seconds)


async def _found(at_work: Running, thread_id: str) -> dict[str, Any] | None:
    """A thread that only the database knows; None for one that the server has no name for."""
    try:
        thread = UUID(thread_id)
    except ValueError:  # of `code-agent run`
        return None
    latest = await at_work.saver.aget_tuple({"configurable": {"thread_id": thread_id}})
    if str(thread) != thread_id or latest is None:
        return None
    told: dict[str, Any] = dict(latest.metadata)
    metadata = {name: told[name] for name in _OF_THE_THREAD if told.get(name)}
    metadata.setdefault("graph_id", GRAPH_IDS[named_in(told)])
    then = datetime.fromisoformat(latest.checkpoint["ts"]).astimezone(UTC)
    return new_row(thread, metadata, then)


async def _filled(connection: Any, thread: dict[str, Any]) -> bool:
    """Read a thread's state; False where that cannot be done."""
    from langgraph_runtime.ops import Threads

    thread_id, before = thread["thread_id"], (thread["status"], thread["updated_at"])
    runs = [run for run in connection.store["runs"] if run["thread_id"] == thread_id]
    if thread["status"] == "busy" and not any(run["status"] in {"pending", "running"} for run in runs):
        thread["status"] = "idle"
        before = ("idle", thread["updated_at"])
    try:
        state = await Threads.State.get(
            connection, {"configurable": {"thread_id": str(thread_id), "checkpoint_ns": ""}}
        )
    except _UNREADABLE:
        logger.info("thread %s:", thread_id, exc_info=True)
        return False
    # A run that had not ended may have gone on meanwhile, and knows better.
    if not state.created_at or before != (thread["status"], thread["updated_at"]):
        return True
    tell(thread, state)
    if thread["status"] not in {"busy", "error"}:
        thread["status"] = "interrupted" if state.next else "idle"
    return True
