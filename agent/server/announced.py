"""Prints that threads are saved, and the page's address, when the server is ready.

Stands after LangGraph's own messages, which speak of an in-memory server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx

__all__ = ["announced"]

_LAST_MESSAGES = 1.0
"""Seconds from the first answer to the printed address, in which LangGraph's server logs statistics."""

_SAVED = (
    "LangGraph calls this server in-memory. Here threads, runs and crons are saved in a database, and stay "
    "after a restart."
)


@asynccontextmanager
async def announced(server: str) -> AsyncIterator[None]:
    """Print that threads are saved, and the address of the page, when the server answers.

    Args:
        server: address of the server.
    """
    task = asyncio.create_task(_announce(server), name="address of the page")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _announce(server: str) -> None:
    async with httpx.AsyncClient(base_url=server, verify=False, trust_env=False) as client:  # noqa: S501
        while not await _answers(client):  # noqa: ASYNC110 LangGraph has no event for this
            await asyncio.sleep(0.1)
    await asyncio.sleep(_LAST_MESSAGES)
    print(f"\n{_SAVED}\n\nThe page: {server}/app\n", flush=True)  # noqa: T201 for the person at the terminal


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/ok")).is_success
    except httpx.TransportError:
        return False
