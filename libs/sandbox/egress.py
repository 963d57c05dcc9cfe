"""The host's end of connections that programs inside make to the proxy. What may be reached others decide.

A sandbox is handed what makes a `Door` for it; without one, programs inside find no proxy, and no way out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from libs.sandbox.frames import NET_WINDOW, Kind, ProtocolError, encode

__all__ = ["PROXY_PORT", "Door", "Egress", "EgressStream", "Receiver", "Streams", "way_out"]

PROXY_PORT = 3128
"""Where on 127.0.0.1 programs inside find the proxy."""
_MOST = 1_024
"""Connections of one sandbox at once: more than its own end lets in."""
_CREDIT_SIZE = 4


class Receiver(Protocol):
    """Is told what happens to a connection, by the thread that reads for the sandbox: it may not wait."""

    def came(self, data: bytes) -> None:
        """The program has sent this."""
        ...

    def ended(self) -> None:
        """The program sends no more."""
        ...

    def room(self, size: int) -> None:
        """So many bytes more may be sent to the program."""
        ...

    def broke_off(self) -> None:
        """The connection is no more."""
        ...


class Door(Protocol):
    """What the gateway is to one sandbox."""

    @property
    def certificate(self) -> bytes:
        """PEM that programs inside are to trust besides; may be empty."""
        ...

    @property
    def variables(self) -> Mapping[str, str]:
        """More variables for commands."""
        ...

    def belongs_to(self, sandbox: str, thread: str) -> None:
        """Whose it is, from now on."""
        ...

    def connected(self, stream: EgressStream) -> Receiver | None:
        """A program has made a connection; None refuses it.

        Called as a `Receiver` is. What serves the connection may not call it from here.
        """
        ...


Egress = Callable[[], Door]
"""Makes the door of a new sandbox."""


def way_out(door: Door, port: int = PROXY_PORT) -> dict[str, str]:
    """Variables by which programs inside find the proxy.

    Two are for the first process alone, which takes them out: see `boot.py`.
    """
    proxy, direct = f"http://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {
        **{spelt: proxy for name in names for spelt in (name, name.lower())},
        **dict.fromkeys(("NO_PROXY", "no_proxy"), direct),
        **door.variables,
        "SANDBOX_PROXY": str(port),
        "SANDBOX_TRUST": door.certificate.decode("ascii"),
    }


class EgressStream:
    """One connection, for whoever serves it. Thread-safe; never waits; does nothing once it is over.

    At first `room` bytes may be sent; more as `Receiver.room` says. As many may come; more by `grant`.
    """

    room = NET_WINDOW

    def __init__(self, streams: Streams, number: int) -> None:
        self._streams = streams
        self.number = number
        self.window = NET_WINDOW
        """Bytes that may still come."""
        self.untaken = 0
        """Bytes that were sent, and that the program has not taken yet as far as its end has said."""
        self.ended_there = self.ended_here = False

    def send(self, data: bytes) -> None:
        """Send bytes to the program, no more than there is room for."""
        self._streams.send(self, Kind.DATA, data)

    def grant(self, size: int) -> None:
        """Let the program send so many bytes more."""
        self._streams.send(self, Kind.CREDIT, size.to_bytes(_CREDIT_SIZE, "big"))

    def end(self) -> None:
        """Send no more. What comes still comes."""
        self._streams.send(self, Kind.END)

    def abort(self) -> None:
        """End it both ways. The program finds its connection reset."""
        self._streams.send(self, Kind.CANCEL)


class Streams:
    """The connections of one channel.

    Args:
        send: sends a frame to the supervisor, without waiting.
        connected: see `Door.connected`; None refuses all.
    """

    def __init__(
        self, send: Callable[[bytes], None], connected: Callable[[EgressStream], Receiver | None] | None
    ) -> None:
        self._send = send
        self._connected = connected
        self._open: dict[int, tuple[EgressStream, Receiver]] = {}
        self._lock = threading.Lock()

    def take(self, number: int, kind: int, payload: bytes) -> None:
        """Take a frame from inside.

        Raises:
            ProtocolError: nobody who keeps to the protocol sends this.
        """
        if kind == Kind.OPEN:
            self._begin(number)
            return
        with self._lock:
            found = self._open.get(number)
            if found is None:
                return  # ended here, and not yet known there
            stream, receiver = found
            if kind == Kind.DATA:
                stream.window -= len(payload)
                if stream.window < 0 or stream.ended_there:
                    raise ProtocolError("a connection sent more than it may")
            elif kind == Kind.CREDIT:
                if len(payload) != _CREDIT_SIZE:
                    raise ProtocolError(f"a credit of {len(payload)} bytes")
                stream.untaken -= int.from_bytes(payload, "big")
                if stream.untaken < 0:
                    # Who may send without end has the host keep what its end does not read.
                    raise ProtocolError("a connection granted more than it was sent")
            elif kind == Kind.END:
                stream.ended_there = True
            if kind == Kind.CANCEL or (stream.ended_there and stream.ended_here):
                del self._open[number]
        if kind == Kind.DATA:
            receiver.came(payload)
        elif kind == Kind.CREDIT:
            receiver.room(int.from_bytes(payload, "big"))
        elif kind == Kind.END:
            receiver.ended()
        elif kind == Kind.CANCEL:
            receiver.broke_off()
        else:
            raise ProtocolError(f"a frame of kind {kind} on a connection")

    def end(self) -> None:
        """The sandbox is gone."""
        with self._lock:
            left, self._open = list(self._open.values()), {}
        for _, receiver in left:
            receiver.broke_off()

    def send(self, stream: EgressStream, kind: int, payload: bytes = b"") -> None:
        """Send a frame for a connection, unless that is over."""
        with self._lock:
            if stream.number not in self._open or self._open[stream.number][0] is not stream:
                return
            if kind == Kind.DATA:
                stream.untaken += len(payload)
            elif kind == Kind.CREDIT:
                stream.window += int.from_bytes(payload, "big")
            elif kind == Kind.END:
                if stream.ended_here:
                    return
                stream.ended_here = True
            if kind == Kind.CANCEL or (stream.ended_there and stream.ended_here):
                del self._open[stream.number]
        self._send(encode(stream.number, kind, payload))

    def _begin(self, number: int) -> None:
        with self._lock:
            if number in self._open:
                raise ProtocolError("a connection began twice")
            stream = EgressStream(self, number)
            # Within the lock: whoever serves it may send at once, from a thread of its own.
            receiver = self._connected(stream) if self._connected and len(self._open) < _MOST else None
            if receiver:
                self._open[number] = stream, receiver
                return
        self._send(encode(number, Kind.CANCEL))
