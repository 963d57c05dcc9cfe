"""What a saved run does with the files of its thread: brings them to the checkpoint from which it starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from libs.middleware.captures import WORKSPACE
from libs.sandbox.host import blocking

__all__ = ["Arrive", "RunFiles", "arrive_at_start", "arrive_at_start_now"]

Arrive = Callable[[str, str | None, Callable[[str], Awaitable[bool]]], Awaitable[object]]
"""See `libs.workspace.history.WorkspaceHistory.arrive`."""


class RunFiles(Protocol):
    """The files of threads, at the start and the end of a run."""

    async def arrive(
        self, thread: str, ticket: str | None, is_held: Callable[[str], Awaitable[bool]]
    ) -> object:
        """Bring the files to a ticket. See `libs.workspace.history.WorkspaceHistory.arrive`."""
        ...

    async def settled(self, thread: str) -> None:
        """Wait until the captures of the run have ended, for a limited time."""
        ...


async def arrive_at_start(
    arrive: Arrive, saver: BaseCheckpointSaver[Any], thread: str, config: RunnableConfig | None
) -> None:
    """Call `arrive` with the ticket in the checkpoint from which a run with `config` starts.

    Does nothing if `config` names a checkpoint that does not exist. LangGraph then begins without a state,
    but nobody has asked for the files before the first turn.
    """

    loop = asyncio.get_running_loop()

    # `arrive` asks on the event loop of the sandboxes. A saver's locks belong to the loop of the caller.
    async def is_held(ticket: str) -> bool:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(look(ticket), loop))

    async def look(ticket: str) -> bool:
        checkpoints = cast("AsyncGenerator[CheckpointTuple, None]", saver.alist(_checkpoints_of(thread)))
        # Closed at once: until then, the saver for SQLite is locked.
        async with aclosing(checkpoints):
            async for each in checkpoints:  # the newest first
                if (answer := _holds(each, ticket)) is not None:
                    return answer
        return False

    start = _start_of(config)
    if (found := await saver.aget_tuple(start)) or _is_latest(start):
        await arrive(thread, _ticket_in(found), is_held)


def arrive_at_start_now(
    arrive: Arrive, saver: BaseCheckpointSaver[Any], thread: str, config: RunnableConfig | None
) -> None:
    """As `arrive_at_start`, with the saver's synchronous methods: some savers have no others."""

    def is_held(ticket: str) -> bool:
        answers = (_holds(each, ticket) for each in saver.list(_checkpoints_of(thread)))
        return next((answer for answer in answers if answer is not None), False)

    async def arrived(at: str | None) -> None:
        await arrive(thread, at, lambda ticket: asyncio.to_thread(is_held, ticket))

    start = _start_of(config)
    if (found := saver.get_tuple(start)) or _is_latest(start):
        blocking(arrived)(_ticket_in(found))


def _checkpoints_of(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def _start_of(config: RunnableConfig | None) -> RunnableConfig:
    """Return the config of the checkpoint that is asked for, or of the latest."""
    asked: dict[str, Any] = ensure_config(config)["configurable"]
    at: dict[str, Any] = {"thread_id": asked["thread_id"], "checkpoint_ns": ""}
    # The config of a subagent's checkpoint names that of the outermost graph, which has the ticket, in a map.
    named = (
        asked.get("checkpoint_map", {}).get("") if asked.get("checkpoint_ns") else asked.get("checkpoint_id")
    )
    return {"configurable": {**at, "checkpoint_id": named} if named else at}


def _is_latest(start: RunnableConfig) -> bool:
    return "checkpoint_id" not in start["configurable"]


def _ticket_in(found: CheckpointTuple | None) -> str | None:
    ticket: str | None = found.checkpoint["channel_values"].get(WORKSPACE) if found else None
    return ticket


def _holds(found: CheckpointTuple, ticket: str) -> bool | None:
    """Return whether a checkpoint holds a ticket. None: an older checkpoint may hold it."""
    # Importing a graph should not import the store.
    from libs.workspace.ledger import made_at

    if _ticket_in(found) == ticket:
        return True
    return False if datetime.fromisoformat(found.checkpoint["ts"]) < made_at(ticket) else None
