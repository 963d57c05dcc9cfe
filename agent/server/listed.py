"""The threads of /run among those of LangGraph's server: found by its routes from the moment they begin.

The server lists what its own runs have made. Runs of /run go around its queue, so they say here that they
have begun and how they ended; what a thread holds, all of them read from the same checkpoints.
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

from agent.server.saver import Running, running

__all__ = ["is_at_work", "listed", "new_row", "tell"]

logger = logging.getLogger(__name__)

_at_work: dict[str, str | None] = {}
"""Thread -> its owner."""


def is_at_work(thread_id: object, owner: str) -> bool:
    """Whether a run of /run is going on in this owner's thread; "" is anybody where nobody has a token."""
    return str(thread_id) in _at_work and (not owner or _at_work[str(thread_id)] == owner)


@asynccontextmanager
async def listed(
    graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str, metadata: Mapping[str, Any]
) -> AsyncIterator[None]:
    """While this lasts, the thread is at work for LangGraph's routes; then it is as its checkpoints say.

    Does nothing where the server has a database of its own, or no name for the thread.

    Whoever enters this holds the thread (`agent.turns`).

    Args:
        graph: what reads the checkpoints.
        thread_id: the thread; listed if it is not yet.
        metadata: what a thread that is listed now is found by: `graph_id`, and `owner` if it has one.
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
    """A thread as the server lists it, with nothing in it."""
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
    """Write into the server's list what a thread says and what it waits for."""
    from langgraph_api.state import patch_interrupt

    row["values"] = state.values
    row["interrupts"] = {
        task.id: [patch_interrupt(each) for each in task.interrupts]
        for task in state.tasks
        if task.interrupts
    }


async def _ended(
    graph: CompiledStateGraph[Any, Any, Any, Any], at_work: Running, thread: UUID, *, failed: bool
) -> None:
    try:
        state = await graph.aget_state({"configurable": {"thread_id": str(thread)}})
    except Exception:  # how the run ended is what matters to whoever waits for it
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
        row["status"] = "interrupted" if state is not None and state.next else "idle"
    now = datetime.now(UTC)
    row |= {"updated_at": now, "state_updated_at": now}


def _awaited(at_work: Running, thread: UUID) -> bool:
    """Whether a run of the server waits in the thread."""
    runs = reversed(at_work.store["runs"])
    return any(run["thread_id"] == thread and run["status"] in {"pending", "running"} for run in runs)


def _row(at_work: Running, thread: UUID) -> dict[str, Any] | None:
    # The latest are asked for most.
    threads = reversed(at_work.store["threads"])
    return next((row for row in threads if row["thread_id"] == thread), None)


def _uuid(thread_id: str) -> UUID | None:
    try:
        thread = UUID(thread_id)
    except ValueError:  # of `code-agent run`
        return None
    return thread if str(thread) == thread_id else None
