"""Collects every use of undocumented names of LangGraph's server, each with its reason.

`tests/unit/house/test_contracts.py` names the version they were checked with. The server loads these modules
itself, so they are imported only in its process and only after it has chosen its runtime.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from langgraph.types import StateSnapshot

__all__ = ["OWN_ENTRIES", "Lists", "attempts", "described_paths", "lists", "read_state"]

Lists = dict[str, list[dict[str, Any]]]
"""Kind (`threads`, `runs`, `assistants`, `assistant_versions`, `crons`) -> rows."""

OWN_ENTRIES = "__pregel_"
"""Begins the names of the entries that LangGraph adds to the config of a run.

Most are objects of this process, such as the checkpointer, so they cannot be written to a database.
"""

_DATABASE = "langgraph_runtime_inmem.database"


def lists() -> Lists | None:
    """Return the in-memory database of `langgraph dev`, or None if the server uses another database.

    The server saves these lists every ten seconds and has no hook for changes in between.
    """
    database = sys.modules.get(_DATABASE)
    store: Lists | None = database.GLOBAL_STORE if database else None
    return store


def attempts() -> dict[UUID, int]:
    """Return run -> how often the server has started it. The server gives up a run after too many starts.

    The public interface can only add one. After a restart the counter must be read and set.
    """
    counters: dict[UUID, int] = sys.modules[_DATABASE].GLOBAL_RETRY_COUNTER._counters
    return counters


async def read_state(thread_id: UUID) -> StateSnapshot:
    """Return the state of a thread, read with the graph that wrote it. Works before any route answers."""
    from langgraph_runtime.database import connect
    from langgraph_runtime.ops import Threads

    config = {"configurable": {"thread_id": str(thread_id), "checkpoint_ns": ""}}
    async with connect() as connection:
        state: StateSnapshot = await Threads.State.get(connection, config)
    return state


def described_paths() -> Mapping[str, Any]:
    """Return path -> method -> LangGraph's description of its own routes.

    The server leaves them out of /openapi.json if an application adds routes.
    """
    from langgraph_api.validation import openapi

    paths: Mapping[str, Any] = openapi["paths"]
    return paths
