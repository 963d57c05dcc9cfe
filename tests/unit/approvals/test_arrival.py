"""The checkpoint from which a run starts is found with the saver of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from libs.middleware.arrival import arrive_at_start
from libs.sandbox.host import on_core


class _Saver(InMemorySaver):
    """Notes the event loops that list its checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        self.loops.append(asyncio.get_running_loop())
        async for each in super().alist(*args, **options):
            yield each


async def test_checkpoints_are_listed_on_the_loop_of_the_caller() -> None:
    saver, asked = _Saver(), []

    @on_core
    async def arrive(_thread: str, _ticket: str | None, is_held: Callable[[str], Awaitable[bool]]) -> None:
        asked.append((asyncio.get_running_loop(), await is_held("a ticket")))

    await arrive_at_start(arrive, saver, "t", {"configurable": {"thread_id": "t"}})
    here = asyncio.get_running_loop()
    assert saver.loops == [here], "the locks of a saver belong to one loop"
    assert [(loop is here, held) for loop, held in asked] == [(False, False)]
