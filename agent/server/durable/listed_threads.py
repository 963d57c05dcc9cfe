"""Makes the threads of /run visible to LangGraph's routes from the moment their runs begin.

LangGraph's server lists only threads of its own runs. Runs of /run bypass its queue, so they register their
start and their end here. The content of a thread comes from the same checkpoints for both.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from agent.server.durable.saver import Running, running
from libs.middleware.unfinished import is_unfinished

__all__ = ["is_at_work", "is_busy", "listed", "new_row", "tell"]

logger = logging.getLogger(__name__)

_at_work: dict[str, str | None] = {}
"""Thread -> its owner."""


def is_at_work(thread_id: object, owner: str) -> bool:
    """Return whether a run of /run is at work in this owner's thread. Owner "" matches every thread."""
    return str(thread_id) in _at_work and (not owner or _at_work[str(thread_id)] == owner)


def is_busy(thread_id: str) -> bool:
    """Return whether a run of any route is at work or queued in a thread."""
    at_work, thread = running(), _uuid(thread_id)
    row = _row(at_work, thread) if at_work and thread else None
    return row is not None and row["status"] == "busy"


@asynccontextmanager
async def listed(
    graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str, metadata: Mapping[str, Any]
) -> AsyncIterator[None]:
    """Show the thread as busy to LangGraph's routes inside the block, then as its checkpoints say.

    Does nothing if the server has a database of its own, or if the thread's id is not a UUID. The caller must
    hold the thread (`agent.threads.thread_turns`).

    Args:
        graph: reads the checkpoints.
        thread_id: added to the server's list if missing.
        metadata: of a thread that is added: `graph_id`, and `owner` if it has one.
    """
    at_work, thread = running(), _uuid(thread_id)
    if at_work is None or thread is None:
        yield
        return
    row = _row(at_work, thread)
    if row is None:
        row = new_row(thread, metadata, datetime.now(UTC))
        at_work.store["threads"].append(row)
    row |= {"status": "busy", "updated_at": datetime.now(UTC)}
    _at_work[thread_id] = metadata.get("owner")
    failed = False
    try:
        yield
    except Exception:
        failed = True
        raise
    finally:
        del _at_work[thread_id]
        await _ended(graph, at_work, thread, failed=failed)


def new_row(thread: UUID, metadata: Mapping[str, Any], then: datetime) -> dict[str, Any]:
    """Return the server's row for a thread without content."""
    return {
        "thread_id": thread,
        **dict.fromkeys(("created_at", "updated_at", "state_updated_at"), then),
        "metadata": dict(metadata),
        "status": "idle",
        "config": {},
        "values": None,
        "interrupts": {},
    }


def tell(row: dict[str, Any], state: StateSnapshot) -> None:
    """Copy a thread's values and open interrupts into the server's row."""
    row["values"] = state.values
    row["interrupts"] = {
        task.id: [{"id": each.id, "value": each.value} for each in task.interrupts]
        for task in state.tasks
        if task.interrupts
    }


async def _ended(
    graph: CompiledStateGraph[Any, Any, Any, Any], at_work: Running, thread: UUID, *, failed: bool
) -> None:
    try:
        state = await graph.aget_state({"configurable": {"thread_id": str(thread)}})
    except Exception:  # the client must still learn how the run ended
        logger.warning("thread %s is listed without what was said last", thread, exc_info=True)
        state = None
    row = _row(at_work, thread)
    if row is None:  # deleted meanwhile
        return
    if state is not None and state.created_at:
        tell(row, state)
    if _awaited(at_work, thread):
        row["status"] = "busy"
    elif failed:
        row["status"] = "error"
    else:
        row["status"] = "interrupted" if state is not None and is_unfinished(state) else "idle"
    now = datetime.now(UTC)
    row |= {"updated_at": now, "state_updated_at": now}


def _awaited(at_work: Running, thread: UUID) -> bool:
    """Return whether a run of the server is queued or at work in the thread."""
    runs = reversed(at_work.store["runs"])
    return any(run["thread_id"] == thread and run["status"] in {"pending", "running"} for run in runs)


def _row(at_work: Running, thread: UUID) -> dict[str, Any] | None:
    # Newest first: recent threads are looked up most often.
    threads = reversed(at_work.store["threads"])
    return next((row for row in threads if row["thread_id"] == thread), None)


def _uuid(thread_id: str) -> UUID | None:
    try:
        thread = UUID(thread_id)
    except ValueError:  # of `code-agent run`
        return None
    return thread if str(thread) == thread_id else None
