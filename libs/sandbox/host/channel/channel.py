"""Carries many requests at once over one connection to a sandbox.

A reader thread receives answers and completes the future of each request. The caller sends small frames
itself. Frames that the connection does not take at once are left to a writer thread, so no caller and no
event loop waits for a slow sandbox.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future

from libs.redaction import Redact
from libs.sandbox.errors import SandboxDied
from libs.sandbox.host.channel.connections import Door, Streams
from libs.sandbox.host.channel.transport import Transport
from libs.sandbox.host.requests import Answer, Call
from libs.sandbox.protocol import OnOutput
from libs.sandbox.wire.frames import (
    ANSWER,
    INSIDE,
    MOST_CONTENT,
    Decoder,
    Ending,
    Frame,
    Kind,
    ProtocolError,
    encode,
)

__all__ = ["Channel"]

logger = logging.getLogger(__name__)

_WRITER_SECONDS = 5.0
"""Seconds to wait for the writer thread after the connection has ended."""
_CREDIT_SIZE = 4
_GIVEN_UP = "it did not answer another call in time, and was given up"
_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


class Channel:
    """Sends requests over one transport, and serves connections of programs inside. Thread-safe."""

    def __init__(
        self, transport: Transport, *, on_close: Callable[[], None] = lambda: None, door: Door | None = None
    ) -> None:
        self._transport = transport
        self._on_close = on_close
        self.door = door
        """Serves connections of programs inside. None refuses them."""
        self._connections = Streams(self._send, door.connected if door else None)
        self._streams = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._lock = threading.Lock()
        self._unsent: deque[bytes] = deque()
        self._more = threading.Condition(self._lock)
        self._writer: threading.Thread | None = None
        self.owner: object = None
        """The sandbox. The reference keeps the sandbox alive as long as its container."""
        self.redact: Redact | None = None
        """Removes secrets from all output. Set before the first request."""
        self.number = 0
        """Number of the sandbox. A later start in this program has a higher number."""
        self.closed = False
        self.given_up = False
        """Whether the channel was closed because the sandbox did not answer."""
        self.ready = False
        """Whether the supervisor is ready."""
        self._last_used = time.monotonic()
        self._reason = ""
        self._ready = Call(0, b"", None)
        self._calls[0] = self._ready
        _channels.add(self)
        self._reader = threading.Thread(target=self._read, name="sandbox-reader", daemon=True)
        self._reader.start()

    @property
    def came_up(self) -> Future[Answer]:
        """A future that is done when the supervisor is ready. SandboxDied if the sandbox ends before."""
        return self._ready.future

    def request(
        self,
        payload: bytes,
        *,
        content: bytes = b"",
        on_output: OnOutput | None = None,
        counts: bool = True,
        uses: Collection[str] = (),
    ) -> Call:
        """Send a request. The answer arrives in the future of the returned call.

        Args:
            payload: a REQUEST header and the message for the worker.
            content: input of the request, sent as fast as the worker reads.
            counts: whether the end of the request restarts the idle time.
            uses: tools of servers that programs of the request may call until its end.

        Raises:
            SandboxDied: the channel had ended; nothing was sent.
            ValueError: the payload is too large for a frame.
        """
        call = Call(next(self._streams), content, on_output, self.redact)
        call.counts = counts
        frame = encode(call.stream, Kind.OPEN, payload)
        if early := call.piece():
            frame += encode(call.stream, Kind.DATA, early)
        with self._lock:
            if self.closed:
                raise self._died()
            self._calls[call.stream] = call
        if uses and (door := self.door):
            door.declare(call.stream, uses)
            call.future.add_done_callback(lambda _: door.declare(call.stream, ()))
        self._send(frame)
        return call

    def rest(self, seconds: float) -> bool:
        """Close the connection if no request ran for `seconds`. Return whether the connection is closed.

        A request at the same moment either keeps the connection open or fails before anything is sent.
        """
        with self._lock:
            if not (self.closed or self._rested(seconds)):
                return False
            self.closed = True
        self.close()
        return True

    def idle(self, seconds: float) -> bool:
        """Return whether no request runs, and none that counts has run for `seconds`."""
        with self._lock:
            return self._rested(seconds)

    def _rested(self, seconds: float) -> bool:
        # Call 0 waits for the supervisor. It does not count as use.
        return not any(self._calls) and time.monotonic() - self._last_used >= seconds

    def used(self) -> None:
        """Restart the idle time."""
        self._last_used = time.monotonic()

    def cancel(self, call: Call) -> None:
        """End a request early. Its future still completes."""
        if call.stream in self._calls:
            self._send(encode(call.stream, Kind.CANCEL))

    def end_left(self, stream: int) -> None:
        """End what a finished command has left running in the background."""
        self._send(encode(stream, Kind.CANCEL))

    def renew(self) -> None:
        """Stop the live interpreters that run no block, until their next blocks. Renew other idle workers.

        Connections to the proxy that wait to be accepted are dropped. Does not wait. The supervisor does this
        before it begins the next request.
        """
        self._send(encode(0, Kind.CANCEL))

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
                    return  # the reader thread sees the end too and fails every call
                if sent == len(data):
                    return
                data = data[sent:]
            self._unsent.append(data)
            if self._writer is None:
                writer = threading.Thread(target=self._write, name="sandbox-writer", daemon=True)
                writer.start()
                self._writer = writer  # after start(): if it fails, the next call tries again
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
                # Removed after sending: later frames queue behind it and keep the order.
                self._unsent.popleft()

    def feed(self, call: Call, data: bytes) -> Future[None]:
        """Send more input of a request.

        The future is done when all input is sent, or when the request has ended.
        """
        with call.sending:
            call.unsent = memoryview(data)
            call.sent = sent = Future[None]()
        self._send_content(call, 0)
        if call.future.done():
            with call.sending:
                call.all_sent()
        return sent

    def _send_content(self, call: Call, credit: int) -> None:
        """Send as much of a request's input as the credit allows."""
        with call.sending:
            call.credit += credit
            while piece := call.piece():
                self._send(encode(call.stream, Kind.DATA, piece))
            if not call.unsent:
                call.all_sent()

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
            self._reason = _GIVEN_UP if self.given_up else self._transport.epitaph()
            with self._lock:
                self.closed = True
                calls, self._calls = self._calls, {}
                self._more.notify_all()
            self._connections.end()
            for call in calls.values():
                call.show_rest(cut=True)
                call.future.set_exception(self._died())
                with call.sending:
                    call.all_sent()
            # Last, because it waits until the container is removed.
            self._transport.close()
            if self._writer:
                # The descriptor number may soon belong to another file.
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
            call.show(payload, fd)
        elif kind == Kind.CREDIT:
            if len(payload) != _CREDIT_SIZE:
                raise ProtocolError(f"a credit of {len(payload)} bytes")
            self._send_content(call, int.from_bytes(payload, "big"))
        elif kind == Kind.END:
            if len(payload) < ANSWER.size or payload[0] > Ending.ENDED:
                raise ProtocolError("an END frame without a known ending")
            del self._calls[stream]
            if call.counts:
                self.used()
            self.ready = True
            ending, idle = ANSWER.unpack_from(payload)
            left_running = ending == Ending.DONE and not idle
            call.show_rest(cut=left_running or ending != Ending.DONE)
            call.future.set_result(Answer(ending, payload[ANSWER.size :], left_running))
            with call.sending:
                call.all_sent()

    def _died(self) -> SandboxDied:
        reason = self.redact(self._reason) if self.redact else self._reason
        return SandboxDied(
            "The sandbox ended" + (f": {reason}" if reason else "") + ".",
            hint="The running call is lost and may have had effects. The next command starts a new sandbox: "
            "look at what is in the workspace before repeating anything.",
        )


def _close_in_fork() -> None:
    """Close all channels in a forked child. The reader threads exist in the parent only."""
    for channel in list(_channels):
        channel.closed = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_fork)
