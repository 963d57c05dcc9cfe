"""Sends requests to a sandbox, or to a new sandbox if the first ends before a request is sent."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from libs.sandbox.errors import SandboxDied
from libs.sandbox.host.awaited_answers import Feed, awaited_answer
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.lifecycle import SandboxLife, closed_meanwhile
from libs.sandbox.host.requests import Answer, Call
from libs.sandbox.protocol import OnOutput
from libs.sandbox.wire.frames import Ending

__all__ = ["SandboxRequests"]

_STARTS = 3
"""Number of new sandboxes to try before a request fails."""


class SandboxRequests(SandboxLife):
    """Sends requests and waits for their answers. Thread-safe."""

    @abstractmethod
    def _left_running(self, channel: Channel, stream: int) -> None:
        """Note that the command of a request has left processes in the background."""

    async def _ask(
        self,
        payload: bytes | Callable[[], bytes],
        seconds: float,
        *,
        content: bytes = b"",
        on_output: OnOutput | None = None,
        feed: Feed | None = None,
        redacted: bool = True,
        uses: Collection[str] = (),
        sent: Callable[[Call], None] = lambda _: None,
    ) -> tuple[Call, Answer]:
        """Send a request and wait for its answer.

        Args:
            payload: a function is called right before each sending.
            uses: tools of servers that its programs may call until then.
            sent: called with each request that is sent. A cancelled one has its answer when this raises.
            feed: returns more input, after `content`. An error of it cancels the request and is raised here.

        Raises:
            WorkspaceMissing: the workspace folder was moved or removed, and there is no folder at its path.
            SandboxError: see `libs.sandbox.protocol.Sandbox`.
        """
        while True:
            channel, call = await self._request(payload, content=content, on_output=on_output, uses=uses)
            sent(call)
            if not redacted:
                call.redact = None
            answer = await awaited_answer(channel, call, seconds, feed)
            if answer.left_running:
                self._left_running(channel, call.stream)
            if answer.ending != Ending.REMOVED:
                return call, answer
            # Nothing was run. A running container keeps the removed folder, even if there is a new one.
            await asyncio.to_thread(self._leave, channel)

    async def _request(self, payload: bytes | Callable[[], bytes], **more: Any) -> tuple[Channel, Call]:
        """Send a request. `more`: see `Channel.request`. Raises like `_current_channel`."""
        tries = 0
        while True:
            channel = await self._current_channel()
            try:
                call = channel.request(payload() if callable(payload) else payload, **more)
                call.sandbox = channel.number
                return channel, call
            except SandboxDied:  # before anything was sent
                tries += 1
                if tries == _STARTS:
                    raise closed_meanwhile() from None
