"""Closes a sandbox that is idle, after its workspace was kept where that is needed."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable

from libs.sandbox.errors import SandboxError
from libs.sandbox.host.channel import Channel

__all__ = ["Keep", "close_when_idle"]

logger = logging.getLogger(__name__)

_START_SECONDS = 60.0
"""Seconds without a request in which a sandbox may start."""

Keep = Callable[[], Awaitable[None]]
"""Keeps the workspace of a sandbox that is about to be closed. Raises SandboxError if that fails."""


async def close_when_idle(
    watched: weakref.ref[Channel], seconds: float, keep: Callable[[], Keep | None] = lambda: None
) -> None:
    """Close a channel after `seconds` without a request, at most a quarter of that time late.

    The next call starts the sandbox again.

    Args:
        keep: returns what keeps the workspace. If that fails, the channel stays open until a later try.
    """
    while channel := watched():
        rest = seconds if channel.ready else max(seconds, _START_SECONDS)
        if await _may_close(channel, rest, keep()) and await asyncio.to_thread(channel.rest, rest):
            return
        del channel  # keep no closed sandbox alive
        await asyncio.sleep(max(0.05, seconds / 4))


async def _may_close(channel: Channel, seconds: float, keep: Keep | None) -> bool:
    if keep is None or channel.closed or not channel.ready:
        return True
    if not channel.idle(seconds):
        return False
    try:
        await keep()
    except SandboxError as error:
        logger.warning("An idle sandbox stays open, as its files could not be kept: %s %s", error, error.hint)
        return channel.closed
    return True
