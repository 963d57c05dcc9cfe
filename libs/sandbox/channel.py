"""The host's end of a sandbox: many requests at once over one connection.

One thread reads and hands results to whoever waits, threads and event loops alike. Small frames are sent
at once by the caller; what the connection does not take is left to a second thread, so that nobody, least
of all an event loop, waits for a slow sandbox.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from libs.sandbox.errors import SandboxDied
from libs.sandbox.frames import CHUNK, Decoder, Fd, Frame, Kind, ProtocolError, encode
from libs.sandbox.protocol import OnOutput

__all__ = ["Call", "Channel", "Transport"]


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


class Call:
    """One request under way, and what has come back so far."""

    def __init__(self, stream: int, content: bytes, on_output: OnOutput | None) -> None:
        self.stream = stream
        self.future: Future[dict[str, Any]] = Future()
        """The END message; SandboxDied where the sandbox ended first."""
        self.data: dict[int, list[bytes]] = {Fd.OUT: [], Fd.ERR: []}
        """Content, in the order it came."""
        self.tail: dict[int, list[bytes]] = {Fd.OUT: [], Fd.ERR: []}
        """What follows `data`: directly, or after a part that was left out."""
        self.unsent = memoryview(content)
        self.on_output = on_output


class Channel:
    """Requests and answers over one transport. Thread-safe."""

    def __init__(self, transport: Transport, *, on_close: Callable[[], None] = lambda: None) -> None:
        self._transport = transport
        self._on_close = on_close
        self._streams = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._lock = threading.Lock()
        self._unsent: deque[bytes] = deque()
        self._more = threading.Condition(self._lock)
        self._writer: threading.Thread | None = None
        self.closed = False
        self._reader = threading.Thread(target=self._read, name="sandbox-reader", daemon=True)
        self._reader.start()

    def configure(self, config: dict[str, Any], *, seconds: float) -> None:
        """Do the hand-shake: the supervisor is ready when this returns.

        Raises:
            SandboxDied: it ended before it was ready.
            TimeoutError: it did not answer in time.
        """
        call = Call(0, b"", None)
        self._begin(call, config)
        call.future.result(seconds)

    def request(
        self, request: dict[str, Any], *, content: bytes = b"", on_output: OnOutput | None = None
    ) -> Call:
        """Send a request; its result comes in the call's future.

        Args:
            content: input of the request, sent as fast as it is taken.

        Raises:
            SandboxDied: the channel has ended.
        """
        call = Call(next(self._streams), content, on_output)
        self._begin(call, request)
        return call

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

    def _begin(self, call: Call, request: dict[str, Any]) -> None:
        frame = encode(call.stream, Kind.OPEN, json.dumps(request).encode())
        with self._lock:
            if self.closed:
                raise self._died()
            self._calls[call.stream] = call
        self._send(frame)

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
                self._writer = threading.Thread(target=self._write, name="sandbox-writer", daemon=True)
                self._writer.start()
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
        except (OSError, ProtocolError):
            self._transport.close()
        with self._lock:
            self.closed = True
            calls, self._calls = self._calls, {}
            self._more.notify_all()
        self._on_close()
        for call in calls.values():
            if call.future.set_running_or_notify_cancel():
                call.future.set_exception(self._died())

    def _take(self, frame: Frame) -> None:
        call = self._calls.get(frame.stream)
        if call is None:
            return
        if frame.kind == Kind.DATA:
            call.data[frame.fd].append(frame.payload)
            if call.on_output:
                call.on_output(frame.payload)
        elif frame.kind == Kind.LIVE:
            if call.on_output:
                call.on_output(frame.payload)
        elif frame.kind == Kind.TAIL:
            call.tail[frame.fd].append(frame.payload)
        elif frame.kind == Kind.CREDIT:
            self._send_content(call, int.from_bytes(frame.payload, "big"))
        elif frame.kind == Kind.END:
            del self._calls[frame.stream]
            # A call that was cancelled on this side too has nobody left to tell.
            if call.future.set_running_or_notify_cancel():
                call.future.set_result(json.loads(frame.payload))

    def _died(self) -> SandboxDied:
        reason = self._transport.epitaph()
        return SandboxDied(
            "The sandbox ended" + (f": {reason}" if reason else "") + ".",
            hint="What was running is lost and may have taken effect. The next command starts a new sandbox "
            "on the same workspace: look at what is there before repeating anything.",
        )
