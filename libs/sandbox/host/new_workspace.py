"""Fills the workspace of a sandbox that starts empty, and captures it over the same connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.host.awaited_answers import Feed, awaited_answer
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.loop_thread import on_core
from libs.sandbox.host.requests import decoded, file_result, tree_request
from libs.sandbox.wire.frames import Fd

__all__ = ["ChannelTree", "Fill", "NewWorkspace"]


class ChannelTree:
    """The workspace of one running sandbox, never that of the sandbox that replaces it.

    Implements `libs.sandbox.Tree`. Its requests do not count as use of the sandbox.
    """

    def __init__(self, channel: Channel, own_mounts: Sequence[str]) -> None:
        self._channel = channel
        self._own_mounts = own_mounts

    @on_core
    async def atree(
        self, do: str, *, content: bytes = b"", feed: Feed | None = None, size: int = 0, **arguments: Any
    ) -> tuple[dict[str, Any], bytes, bytes]:
        """See `libs.sandbox.Tree.atree`.

        Raises:
            SandboxDied: the sandbox has ended.
        """
        seconds, payload = tree_request(do, len(content) + size, arguments, self._own_mounts)
        call = self._channel.request(payload, content=content, counts=False)
        call.redact = None
        answer = await awaited_answer(self._channel, call, seconds, feed)
        message, data = await decoded(call, answer, lambda: file_result(call, answer, seconds))
        return message, data, bytes(call.data[Fd.ERR])

    async def aend(self) -> None:
        """End this sandbox, and no other. Cancelling waits for the end."""
        ending = asyncio.ensure_future(asyncio.to_thread(self._channel.close))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait({ending})
            raise


Fill = Callable[[ChannelTree], Awaitable[None]]
"""Fills the workspace of a new sandbox. It uses this tree alone: every other request waits for it."""


class NewWorkspace:
    """The workspace of a new sandbox. Used on the core only."""

    def __init__(self, channel: Channel, own_mounts: Sequence[str]) -> None:
        self.tree = ChannelTree(channel, own_mounts)
        self._channel = channel
        self._filling: asyncio.Task[None] | None = None

    def is_filled(self) -> bool:
        """Return whether `fill` has succeeded."""
        filling = self._filling
        return filling is not None and filling.done() and not filling.cancelled() and not filling.exception()

    def belongs_to(self, channel: Channel) -> bool:
        return self._channel is channel

    async def filled(self, fill: Fill) -> None:
        """Fill the workspace, once for all callers. Cancelling one caller does not stop the others.

        Raises:
            SandboxError: the workspace could not be filled, and the sandbox was closed.
        """
        if self._filling is None:
            self._filling = asyncio.ensure_future(self._fill(fill))
            # Every caller may be cancelled before the fill fails.
            self._filling.add_done_callback(lambda filling: filling.cancelled() or filling.exception())
        # Not awaited itself: a caller that is cancelled would cancel it.
        await asyncio.wait({self._filling})
        if error := self._filling.exception():
            raise error.again() if isinstance(error, SandboxError) else error

    async def _fill(self, fill: Fill) -> None:
        try:
            await fill(self.tree)
        except SandboxDied as error:
            raise SandboxError(
                f"The sandbox ended while its workspace was filled. {error}",
                hint="Nothing was run in it: repeat the call.",
            ) from error
        except BaseException:
            await self.tree.aend()
            raise
        self._channel.used()
