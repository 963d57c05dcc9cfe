"""Lets one run at a time work in a thread, for LangGraph's routes, /run, commands and editors.

Two runs at once would mix their checkpoints in one thread and their commands in one sandbox, and could answer
a question that is no longer open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from agent.threads.drain import DRAIN
from libs.middleware.approvals import AddressedGraph, Turns

__all__ = ["AT_WORK", "held", "taking_turns"]

AT_WORK = (
    "The thread is at work: wait until its run has ended, or stop the run: press Stop on the page, Ctrl-C in "
    "its terminal, or call POST /threads/{thread_id}/runs/{run_id}/cancel."
)
"""Why a request is refused while a run is at work in its thread."""

_LOOK_AGAIN = 0.1
"""Seconds between checks whether a thread is free; the kernel does not notify."""


@asynccontextmanager
async def held(thread_id: str) -> AsyncIterator[None]:
    """Keep other runs, also those of other programs, out of the thread.

    Raises:
        ThreadInUse: another run is at work in the thread.
    """
    # Imported here and below, because importing a graph should not import the database.
    from agent.settings import LOCKS
    from libs.persistence import thread_lock

    held = ExitStack()
    taking = asyncio.ensure_future(
        asyncio.to_thread(lambda: held.enter_context(thread_lock(LOCKS, thread_id)))
    )
    try:
        await asyncio.shield(taking)
        yield
    finally:
        await asyncio.wait({taking})  # a cancelled caller may still get the lock
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(held.close)))


@asynccontextmanager
async def _in_turn(thread_id: str | None) -> AsyncIterator[RunControl | None]:
    """Wait until the thread is free, then hold it. Yield the control of the run.

    When the server ends, the run stops after its current step and then waits here. LangGraph's server cancels
    the waiting run, and continues the run after its next start. A run without a thread gets no control: it is
    not saved, so it must not stop.
    """
    async with AsyncExitStack() as turn:
        if thread_id is not None:
            await _hold(turn, thread_id)
        if DRAIN.requested:
            await _until_cancelled()
        try:
            with DRAIN.run() as control:
                yield control if thread_id is not None else None
            return
        except GraphDrained:
            pass
    await _until_cancelled()


async def _hold(turn: AsyncExitStack, thread_id: str) -> None:
    from libs.persistence import ThreadInUse

    while True:
        try:
            await turn.enter_async_context(held(thread_id))
            return
        except ThreadInUse:
            await asyncio.sleep(_LOOK_AGAIN)


async def _until_cancelled() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def _at_once(thread_id: str | None) -> AsyncIterator[None]:
    """Hold the thread, or answer the client of LangGraph's server with 409."""
    if thread_id is None:
        yield
        return
    from starlette.exceptions import HTTPException

    from libs.persistence import ThreadInUse

    try:
        async with held(thread_id):
            yield
    except ThreadInUse:
        raise HTTPException(409, AT_WORK) from None


def taking_turns(graph: AddressedGraph) -> AddressedGraph:
    """Prepare a graph for LangGraph's server: a run waits until its thread is free, a change is refused.

    The server itself knows only its own runs.
    """
    graph.turns = Turns(run=_in_turn, change=_at_once)
    return graph
