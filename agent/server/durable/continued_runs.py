"""Makes a run of LangGraph's server from the rest of a run of /run, so that the next start continues it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError

from agent.server.durable.saver import running

__all__ = ["continued_later"]

logger = logging.getLogger(__name__)


async def continued_later(thread_id: str, graph_id: str, metadata: Mapping[str, Any]) -> str | None:
    """Queue a run that goes on where the thread stands, and return its id.

    The run is in the database before this returns. No run begins until the next start, because the process
    ends (see `agent.threads.thread_turns`).

    Returns None if the server keeps its runs elsewhere, or does not take the run.
    """
    if running() is None:
        return None
    # In a thread: the client reads the machine's certificates.
    client = await asyncio.to_thread(get_client, api_key=None)
    try:
        run = await client.runs.create(
            thread_id, graph_id, input=None, metadata=metadata, multitask_strategy="enqueue"
        )
    except APIStatusError as error:
        logger.warning("the run in thread %s cannot be continued: %s", thread_id, error)
        return None
    finally:
        await client.aclose()
    return run["run_id"]
