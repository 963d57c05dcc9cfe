"""The life of a sandbox behind a channel: it starts on first use, is replaced where it has died, and ends."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from libs.sandbox.call import Answer, Call
from libs.sandbox.channel import Channel
from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.handover import Handover
from libs.sandbox.idle import rest_after, rests_no_more
from libs.sandbox.protocol import OnOutput
from libs.sandbox.redact import Redact, redacted_errors

__all__ = ["SandboxLife"]

_START_SECONDS = 60.0
"""Seconds for which its start is waited for, on a busy machine; who waited so long ends it for all."""
_PATIENCE = 10.0
"""Seconds over a request's own time-out after which a sandbox that does not answer is given up."""
_STARTS = 3
"""Sandboxes that a request finds dead before it is sent; then it is told so."""


class SandboxLife(ABC):
    """Has a channel to a sandbox that lives whenever something is asked. Thread-safe.

    See `libs.sandbox.protocol.Sandbox` for the methods that have no text here.
    """

    def __init__(self, idle_seconds: float, redact: Redact | None) -> None:
        """Describe it; nothing is started.

        Args:
            idle_seconds: how long it may rest until it is ended; 0 for ever.
            redact: see `Redact`.
        """
        self._idle_seconds = idle_seconds
        self._redact = redact
        self._channel: Channel | None = None
        self._handover: Handover | None = None
        self._starting = threading.Lock()
        self._asked_at = 0.0
        """When the call came that it is being started for."""
        self._failed: tuple[float, SandboxError] | None = None
        """When it could not be started last, and why."""

    @abstractmethod
    def _connect(self) -> Channel:
        """Start a fresh sandbox, which need not be ready yet. Called by one thread at a time.

        Raises:
            SandboxError: it cannot be started.
        """

    @abstractmethod
    def _not_ready(self, died: SandboxDied | None) -> SandboxError:
        """What is to be said of one that was started and did not become ready: it died, or said nothing."""

    @property
    def redact(self) -> Redact | None:
        """What takes secrets out of all that leaves it."""
        return self._redact

    @property
    def running(self) -> bool:
        """Whether it has been started, is ready, and lives."""
        channel = self._live()
        return channel is not None and channel.ready

    def start(self) -> None:
        """Start it now, where the first call would, and wait until it is ready.

        Raises:
            SandboxError: it cannot be started, or was closed meanwhile.
        """
        channel = self._start(time.monotonic())
        try:
            self._wait_until_ready(channel)
        except SandboxDied as error:
            if self._never_came_up(channel):
                raise self._start_failed(channel, error) from None
            raise SandboxError(
                "The sandbox was closed while it started.", hint="Nothing was asked of it yet: ask again."
            ) from None

    async def _astart(self) -> None:
        await asyncio.to_thread(self.start)

    def rest(self, seconds: float) -> bool:
        """End it if nothing was asked of it for `seconds`; whether it has ended. The next call starts it."""
        channel = self._channel
        if channel is None:
            return True
        return channel.rest(seconds if channel.ready else max(seconds, _START_SECONDS))

    def reset(self) -> None:
        self.close()

    async def areset(self) -> None:
        await asyncio.to_thread(self.reset)

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        with self._starting:
            channel, self._channel = self._channel, None
            if channel:
                channel.close()
            rests_no_more(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- starting

    def _live(self) -> Channel | None:
        channel = self._channel
        return channel if channel and not channel.closed else None

    def _start(self, asked: float) -> Channel:
        """`asked`: when the call came that wants it."""
        with self._starting:
            self._asked_at = asked
            channel = self._live()
            if channel is None:
                if self._failed and self._failed[0] >= asked:
                    # While this one waited: to be told so in turn might take a minute for each.
                    raise self._failed[1].again()
                try:
                    with redacted_errors(self._redact):
                        channel = self._connect()
                except SandboxError as error:
                    self._failed = time.monotonic(), error.again()
                    raise
                channel.redact = self._redact
                channel.owner = self
                channel.used()
                self._channel = channel
                if self._idle_seconds:
                    rest_after(self, self._idle_seconds)
            return channel

    def _wait_until_ready(self, channel: Channel) -> None:
        """Raises SandboxDied; nothing was sent to it."""
        try:
            channel.wait_until_ready(_START_SECONDS)
        except TimeoutError:
            raise self._end_silent(channel) from None

    # -- asking

    def _request(
        self, payload: bytes, key: str | None, *, content: bytes = b"", on_output: OnOutput | None = None
    ) -> tuple[Channel, Call]:
        tries = 0
        while True:
            channel = self._started()
            try:
                if key is not None and not channel.ready:
                    # Until it is, nobody could say for sure whether it had begun.
                    self._wait_until_ready(channel)
                return channel, channel.request(payload, content=content, on_output=on_output)
            except SandboxDied as error:  # before anything was sent
                tries += 1
                if self._never_came_up(channel):
                    raise self._start_failed(channel, error) from None
                if tries == _STARTS:
                    raise

    async def _arequest(
        self, payload: bytes, key: str | None, *, content: bytes = b"", on_output: OnOutput | None = None
    ) -> tuple[Channel, Call]:
        tries = 0
        while True:
            channel = await self._astarted()
            try:
                if key is not None and not channel.ready:
                    await asyncio.to_thread(self._wait_until_ready, channel)
                return channel, channel.request(payload, content=content, on_output=on_output)
            except SandboxDied as error:  # before anything was sent
                tries += 1
                if self._never_came_up(channel):
                    raise await asyncio.to_thread(self._start_failed, channel, error) from None
                if tries == _STARTS:
                    raise

    def _started(self) -> Channel:
        """The channel of a sandbox that lives and may change all that is in its workspace.

        It need not be ready: what is sent to it meanwhile is there when it is, and costs no way there.
        """
        channel = self._live() or self._start(time.monotonic())
        handover = self._handover  # once: closing takes it away
        if handover and handover.news():
            handover.catch_up()
        return channel

    async def _astarted(self) -> Channel:
        channel = self._live()
        if channel is None:
            channel = await asyncio.to_thread(self._start, time.monotonic())
        handover = self._handover
        if handover and handover.news():
            await asyncio.to_thread(handover.catch_up)
        return channel

    # -- waiting

    def _wait(self, channel: Channel, call: Call, seconds: float) -> Answer:
        asked = time.monotonic()
        try:
            while True:
                try:
                    return call.future.result(_patience(channel, asked, seconds))
                except TimeoutError:
                    if _patience(channel, asked, seconds) <= 0:
                        raise
        except TimeoutError:
            raise self._give_up(channel) from None
        except SandboxDied as error:
            raise self._lost(channel, error) from error.__cause__
        except SandboxError:
            raise
        except BaseException:
            channel.cancel(call)
            raise

    async def _await(self, channel: Channel, call: Call, seconds: float) -> Answer:
        asked = time.monotonic()
        answering = asyncio.wrap_future(call.future)
        try:
            while not answering.done():
                patience = _patience(channel, asked, seconds)
                if patience <= 0:
                    raise TimeoutError
                await asyncio.wait({answering}, timeout=patience)
            return answering.result()
        except TimeoutError:
            answering.cancel()
            # Ending it asks the Engine, and waits: not on the event loop.
            raise await asyncio.to_thread(self._give_up, channel) from None
        except SandboxDied as error:
            # What mends it is looked up on the disk.
            raise await asyncio.to_thread(self._lost, channel, error) from error.__cause__
        except asyncio.CancelledError:
            answering.cancel()
            channel.cancel(call)
            raise

    def _give_up(self, channel: Channel) -> SandboxDied:
        return self._lost(channel, self._end_silent(channel))

    def _end_silent(self, channel: Channel) -> SandboxDied:
        """End one that nothing comes from any more."""
        channel.given_up = True
        channel.close()
        return SandboxDied(
            "The sandbox does not answer any more.",
            hint="It was ended; the next command starts a new one on the same workspace.",
        )

    def _never_came_up(self, channel: Channel) -> bool:
        """Whether it ended by itself, or was given up, before it was ready; others were closed."""
        return not channel.ready and (channel is self._channel or channel.given_up)

    def _lost(self, channel: Channel, error: SandboxDied) -> SandboxDied:
        """What is to be said to whoever had sent something to a sandbox that has died.

        That it never said to be ready does not tell that nothing has begun: that may have been lost, too.
        """
        if not self._never_came_up(channel):
            return error
        failure = self._start_failed(channel, error)
        return SandboxDied(
            str(failure), hint=f"{failure.hint} What was asked of it may have taken effect: look first."
        )

    def _start_failed(self, channel: Channel, died: SandboxDied) -> SandboxError:
        """The error of a start that came to nothing, for those too who wait for it."""
        error = self._not_ready(None if channel.given_up else died)
        if self._redact:
            error = type(error)(self._redact(str(error)), hint=error.hint)
        self._failed = time.monotonic(), error.again()
        return error


def _patience(channel: Channel, asked: float, seconds: float) -> float:
    """Seconds from now for which an answer is waited for; of one that is not ready yet, until another look.

    The start is no part of a command's time. Whoever waits is woken up once where it is short: that takes
    the processor from what starts.
    """
    now = time.monotonic()
    if channel.ready_at is None:
        return min(asked + _START_SECONDS - now, seconds + _PATIENCE)
    return max(asked, channel.ready_at) + seconds + _PATIENCE - now
