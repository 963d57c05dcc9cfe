"""One run at a time in a thread, by whichever door it comes: LangGraph's routes, /run, a command, an editor.

Two at once would each go on from what the other is changing: checkpoints of both in one thread, commands of
both in one sandbox, an answer to a question that is no longer asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from libs.middleware.answers import AddressedGraph, Turns

__all__ = ["held", "taking_turns"]

_LOOK_AGAIN = 0.1
"""Seconds between looks at whether a thread is free: the kernel tells nobody."""


@asynccontextmanager
async def held(thread_id: str) -> AsyncIterator[None]:
    """Keep every other run out of the thread, those of other programs too.

    Raises:
        ThreadInUse: another one is at work in it.
    """
    # Here, as below: whoever imports the graph has not begun a run in a thread yet.
    from agent.threads import LOCKS
    from libs.persistence.thread_lock import thread_lock

    held = ExitStack()
    taking = asyncio.ensure_future(
        asyncio.to_thread(lambda: held.enter_context(thread_lock(LOCKS, thread_id)))
    )
    try:
        await asyncio.shield(taking)
        yield
    finally:
        await asyncio.wait({taking})  # it may have been cancelled while it was taken
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(held.close)))


@asynccontextmanager
async def _in_turn(thread_id: str) -> AsyncIterator[None]:
    """As `held`, once the thread is free."""
    from libs.persistence.thread_lock import ThreadInUse

    while True:
        taken = held(thread_id)
        try:
            await taken.__aenter__()
            break
        except ThreadInUse:
            await asyncio.sleep(_LOOK_AGAIN)
    try:
        yield
    finally:
        await taken.__aexit__(None, None, None)


@asynccontextmanager
async def _at_once(thread_id: str) -> AsyncIterator[None]:
    """As `held`; what is in the way is told to a client of LangGraph's server."""
    from starlette.exceptions import HTTPException

    from libs.persistence.thread_lock import ThreadInUse

    try:
        async with held(thread_id):
            yield
    except ThreadInUse:
        raise HTTPException(409, "The thread is at work: wait until its run has ended.") from None


def taking_turns(graph: AddressedGraph) -> AddressedGraph:
    """The graph for LangGraph's server: runs wait for their turn in a thread, changes are refused.

    The server itself knows of its own runs alone.
    """
    graph.turns = Turns(run=_in_turn, change=_at_once)
    return graph
