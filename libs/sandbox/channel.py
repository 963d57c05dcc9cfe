"""The host's end of a sandbox: many requests at once over one connection.

One thread reads and hands results to whoever waits, threads and event loops alike. Small frames are sent
at once by the caller; what the connection does not take is left to a second thread, so that nobody, least
of all an event loop, waits for a slow sandbox.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from libs.sandbox.call import Answer, Call
from libs.sandbox.egress import Door, Streams
from libs.sandbox.errors import SandboxDied
from libs.sandbox.frames import (
    ANSWER,
    CHUNK,
    EARLY,
    INSIDE,
    MOST_CONTENT,
    Decoder,
    Ending,
    Frame,
    Kind,
    ProtocolError,
    encode,
)
from libs.sandbox.protocol import OnOutput
from libs.sandbox.redact import Redact

__all__ = ["Channel", "Transport"]

logger = logging.getLogger(__name__)

_WRITER_SECONDS = 5.0
"""Seconds in which the writing thread notices the end: at once, where the transport can be shut down."""
_CREDIT_SIZE = 4
_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


class Transport(Protocol):
    """A connection to a supervisor's standard input and output."""

    def receive(self) -> bytes:
        """The next bytes; waits for some. Empty at the end."""
        ...

    def send_now(self, data: bytes) -> int:
        """Send what can be sent without waiting; the number of bytes.

        Raises:
            OSError: the connection has ended.
        """
        ...

    def send(self, data: bytes) -> None:
        """Send all, waiting where needed. Raises OSError as `send_now`."""
        ...

    def close(self) -> None:
        """End the connection, waking up a thread that waits in `receive`."""
        ...

    def epitaph(self) -> str:
        """Why the connection ended, as far as that is known; may be empty."""
        ...


class Channel:
    """Requests and answers over one transport, and connections that programs inside make. Thread-safe."""

    def __init__(
        self, transport: Transport, *, on_close: Callable[[], None] = lambda: None, door: Door | None = None
    ) -> None:
        self._transport = transport
        self._on_close = on_close
        self.door = door
        """What serves the connections; without one they are refused."""
        self._connections = Streams(self._send, door.connected if door else None)
        self._streams = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._lock = threading.Lock()
        self._unsent: deque[bytes] = deque()
        self._more = threading.Condition(self._lock)
        self._writer: threading.Thread | None = None
        self.owner: object = None
        """What is not to be forgotten as long as the other end lives: its sandbox, which ends it."""
        self.redact: Redact | None = None
        """Takes secrets out of all that comes over it; set before the first request."""
        self.closed = False
        self.given_up = False
        """Whether it was ended because nothing more came over it."""
        self.ready_at: float | None = None
        """When the supervisor said that it is there, by the monotonic clock."""
        self._last_used = time.monotonic()
        self._reason = ""
        self._ready = Call(0, b"", None)
        self._calls[0] = self._ready
        _channels.add(self)
        self._reader = threading.Thread(target=self._read, name="sandbox-reader", daemon=True)
        self._reader.start()

    @property
    def ready(self) -> bool:
        """Whether the supervisor has said that it is there; what is asked before waits until then."""
        return self.ready_at is not None

    def wait_until_ready(self, seconds: float) -> None:
        """Wait for the supervisor to say that it is there.

        Raises:
            SandboxDied: it ended before it was ready.
            TimeoutError: it did not answer in time.
        """
        self._ready.future.result(seconds)

    def request(self, payload: bytes, *, content: bytes = b"", on_output: OnOutput | None = None) -> Call:
        """Send a request; its result comes in the call's future.

        Args:
            payload: a REQUEST and what its worker reads.
            content: input of the request, sent as fast as it is taken.

        Raises:
            SandboxDied: the channel had ended; nothing was sent.
            ValueError: the payload is too large for a frame.
        """
        call = Call(next(self._streams), content, on_output, self.redact)
        early, call.unsent = call.unsent[:EARLY], call.unsent[EARLY:]
        frame = encode(call.stream, Kind.OPEN, payload)
        if early:
            frame += encode(call.stream, Kind.DATA, bytes(early))
        with self._lock:
            if self.closed:
                raise self._died()
            self._calls[call.stream] = call
        self._send(frame)
        return call

    def rest(self, seconds: float) -> bool:
        """End the connection if nothing was under way on it for `seconds`; whether it has ended.

        A request that comes in the same moment is either before it, or refused before anything is sent.
        """
        with self._lock:
            # Call 0 is the wait for it to be ready: for how long is its owner's to say.
            used = any(self._calls) or time.monotonic() - self._last_used < seconds
            if used and not self.closed:
                return False
            self.closed = True
        self.close()
        return True

    def used(self) -> None:
        """Count its rest from now."""
        self._last_used = time.monotonic()

    def cancel(self, call: Call) -> None:
        """End a request early. Its future still gets an END, unless the sandbox ends first."""
        if call.stream in self._calls:
            self._send(encode(call.stream, Kind.CANCEL))

    def close(self) -> None:
        """End the connection, and with it the sandbox."""
        self._transport.close()
        if threading.current_thread() is not self._reader:
            self._reader.join(5)

    # -- sending

    def _send(self, data: bytes) -> None:
        with self._lock:
            if not self._unsent:
                try:
                    sent = self._transport.send_now(data)
                except OSError:
                    return  # the reader sees the end too, and answers every call
                if sent == len(data):
                    return
                data = data[sent:]
            self._unsent.append(data)
            if self._writer is None:
                writer = threading.Thread(target=self._write, name="sandbox-writer", daemon=True)
                writer.start()
                self._writer = writer  # only now: where none could be started, another call may find room
            self._more.notify()

    def _write(self) -> None:
        while True:
            with self._lock:
                while not self._unsent and not self.closed:
                    self._more.wait()
                if self.closed:
                    return
                data = self._unsent[0]
            try:
                self._transport.send(data)
            except OSError:
                return
            with self._lock:
                # Only now: as long as it stands there, others queue behind it and keep the order.
                self._unsent.popleft()

    def _send_content(self, call: Call, credit: int) -> None:
        """Send as much of a call's input as was granted."""
        while credit > 0 and call.unsent:
            size = min(credit, CHUNK, len(call.unsent))
            piece, call.unsent = call.unsent[:size], call.unsent[size:]
            credit -= size
            self._send(encode(call.stream, Kind.DATA, bytes(piece)))

    # -- receiving

    def _read(self) -> None:
        decoder = Decoder()
        try:
            while data := self._transport.receive():
                for frame in decoder.feed(data):
                    self._take(frame)
        except (OSError, ProtocolError) as error:
            logger.debug("the connection to the sandbox broke off: %s", error)
        finally:
            self._reason = self._transport.epitaph()
            with self._lock:
                self.closed = True
                calls, self._calls = self._calls, {}
                self._more.notify_all()
            self._connections.end()
            for call in calls.values():
                self._show_rest(call, cut=True)
                if call.future.set_running_or_notify_cancel():
                    call.future.set_exception(self._died())
            # Only now: it waits for the container to be gone.
            self._transport.close()
            if self._writer:
                # Its descriptor may soon be another file's.
                self._writer.join(_WRITER_SECONDS)
            self._on_close()

    def _take(self, frame: Frame) -> None:
        stream, kind, payload, fd = frame
        if stream & INSIDE:
            self._connections.take(stream, kind, payload)
            return
        call = self._calls.get(stream)
        if call is None:
            return
        if kind in (Kind.DATA, Kind.TAIL):
            call.room -= len(payload)
            if call.room < 0:
                raise ProtocolError(f"more than {MOST_CONTENT} bytes came for one request")
            (call.data if kind == Kind.DATA else call.tail)[fd].extend(payload)
        if kind in (Kind.DATA, Kind.LIVE):
            self._show(call, payload, fd, sample=kind == Kind.LIVE)
        elif kind == Kind.CREDIT:
            if len(payload) != _CREDIT_SIZE:
                raise ProtocolError(f"a credit of {len(payload)} bytes")
            self._send_content(call, int.from_bytes(payload, "big"))
        elif kind == Kind.END:
            if len(payload) < ANSWER.size or payload[0] > Ending.WAITED:
                raise ProtocolError("an end that says nothing known")
            del self._calls[stream]
            self.used()
            if call is self._ready:
                self.ready_at = self._last_used
            ending, _ = ANSWER.unpack_from(payload)
            self._show_rest(call, cut=ending != Ending.DONE)
            # A call that was cancelled on this side too has nobody left to tell.
            if call.future.set_running_or_notify_cancel():
                call.future.set_result(Answer(ending, payload[ANSWER.size :]))

    def _show(self, call: Call, data: bytes, fd: int, *, sample: bool) -> None:
        if call.on_output:
            with self._showing(call):
                if call.live:
                    call.live.feed(fd, data, sample=sample)
                else:
                    call.on_output(data)

    def _show_rest(self, call: Call, *, cut: bool) -> None:
        """Show what was held back; `cut`: what printed it was ended, and may have printed more."""
        if call.on_output and call.live:
            with self._showing(call):
                call.live.flush([fd for fd, tail in call.tail.items() if cut or tail])

    @contextmanager
    def _showing(self, call: Call) -> Iterator[None]:
        try:
            yield
        except Exception:  # whatever it is, the other calls of this channel must go on
            logger.exception("showing live output failed; the command goes on without")
            call.on_output = None

    def _died(self) -> SandboxDied:
        reason = self.redact(self._reason) if self.redact else self._reason
        return SandboxDied(
            "The sandbox ended" + (f": {reason}" if reason else "") + ".",
            hint="What was running is lost and may have taken effect. The next command starts a new sandbox "
            "on the same workspace: look at what is there before repeating anything.",
        )


def _close_in_fork() -> None:
    """A fork has none of the threads that serve a channel: it starts a sandbox of its own."""
    for channel in list(_channels):
        channel.closed = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_fork)
