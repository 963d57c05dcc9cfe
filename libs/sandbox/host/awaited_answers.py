"""Waits for the answer of a request, sends its input meanwhile, and gives up a sandbox that stays silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from libs.sandbox.errors import SandboxDied
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.loop_thread import until_done
from libs.sandbox.host.requests import Answer, Call

__all__ = ["Feed", "awaited_answer", "give_up"]

Feed = Callable[[], AsyncIterator[bytes]]
"""Returns input of a request, piece by piece."""

_PATIENCE = 10.0
"""Seconds after a request's own time-out until a silent sandbox is given up."""
_CANCEL_SECONDS = 1.0
"""Seconds to wait for the end of a cancelled request. The sandbox needs at most half a second."""


async def awaited_answer(channel: Channel, call: Call, seconds: float, feed: Feed | None) -> Answer:
    """Send the rest of a request's input and wait for its answer. Cancelling ends the request first.

    Args:
        seconds: the request's own time-out.
        feed: returns the rest of the input. An error of it cancels the request and is raised here.

    Raises:
        SandboxDied: the sandbox has ended, or was given up because it stayed silent.
    """
    if feed is None:
        return await _answer(channel, call, seconds)
    feeding = asyncio.ensure_future(_send(channel, call, feed()))
    try:
        answer = await _answer(channel, call, seconds)
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})
    if not feeding.cancelled() and (error := feeding.exception()):
        raise error
    return answer


def give_up(channel: Channel) -> SandboxDied:
    """Close a channel whose sandbox is silent. Return the error for its callers. Blocks."""
    channel.given_up = True
    channel.close()
    return SandboxDied(
        "The sandbox does not answer any more.",
        hint="It was ended. The running call may have had effects. The next command starts a new sandbox: "
        "look at what is in the workspace before repeating anything.",
    )


async def _answer(channel: Channel, call: Call, seconds: float) -> Answer:
    try:
        if not await until_done(call.future, seconds + _PATIENCE):
            raise await asyncio.to_thread(give_up, channel)
        return call.future.result()
    except asyncio.CancelledError:
        channel.cancel(call)
        await until_done(call.future, _CANCEL_SECONDS)
        raise


async def _send(channel: Channel, call: Call, pieces: AsyncIterator[bytes]) -> None:
    """Send the input as it comes, one piece after the other."""
    try:
        async for piece in pieces:
            await until_done(channel.feed(call, piece))
            if call.future.done():
                return
    except Exception:
        channel.cancel(call)
        raise
