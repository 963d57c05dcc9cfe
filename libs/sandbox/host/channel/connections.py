"""Carries connections of programs in the sandbox to the gateway on the host.

The gateway passes an `Egress` to each sandbox and decides what is reachable. Without it, programs inside find
no proxy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from libs.sandbox.wire.frames import NET_WINDOW, Kind, ProtocolError, encode

__all__ = ["PROXY_PORT", "Door", "Egress", "EgressStream", "Receiver", "Streams", "way_out"]

PROXY_PORT = 3128
"""Port of the proxy on 127.0.0.1 inside the sandbox."""
_MOST = 1_024
"""Open connections of one sandbox. The supervisor allows fewer."""
_CREDIT_SIZE = 4
_REQUEST_SIZE = 4


class Receiver(Protocol):
    """Receives the events of a connection, in the reader thread of the channel. It must not block."""

    def came(self, data: bytes) -> None:
        """The program has sent data."""
        ...

    def ended(self) -> None:
        """The program sends no more."""
        ...

    def room(self, size: int) -> None:
        """`size` more bytes may be sent to the program."""
        ...

    def broke_off(self) -> None:
        """The connection is closed."""
        ...


class Door(Protocol):
    """The gateway, as one sandbox sees it."""

    @property
    def certificate(self) -> bytes:
        """PEM of the certificate that programs inside trust in addition. May be empty."""
        ...

    @property
    def variables(self) -> Mapping[str, str]:
        """Additional environment variables for commands."""
        ...

    @property
    def unreached(self) -> set[str]:
        """The hosts that a program inside may not reach, and those with which no connection was made."""
        ...

    def belongs_to(self, sandbox: str, thread: str) -> None:
        """Set the sandbox and the thread that the connections belong to."""
        ...

    def refuse(self, refused: Callable[[], set[str] | None]) -> None:
        """Let nothing out while `refused` returns a set, which gets the hosts that are allowed."""
        ...

    def declare(self, request: int, uses: Collection[str]) -> None:
        """Set the tools of servers that programs of a request may call: none, if the request has ended."""
        ...

    def connected(self, stream: EgressStream) -> Receiver | None:
        """Accept a connection of a program, or return None to refuse it.

        Called in the reader thread. It must not use `stream` before it returns.
        """
        ...


Egress = Callable[[], Door]
"""Creates the `Door` of a new sandbox."""


def way_out(door: Door, port: int = PROXY_PORT) -> dict[str, str]:
    """Return the environment variables by which programs inside find the proxy.

    The first process reads and removes two of them: see `boot.py`.
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
    """One connection, as the gateway uses it. Thread-safe. Never blocks. Does nothing after its end.

    At first, `room` bytes may be sent in each direction. `Receiver.room` allows more to the program, `grant`
    more from the program.
    """

    room = NET_WINDOW

    def __init__(self, streams: Streams, number: int, request: int) -> None:
        self._streams = streams
        self.number = number
        self.request = request
        """The running request whose program has connected; 0 if the supervisor does not know it."""
        self.window = NET_WINDOW
        """Bytes that the program may still send."""
        self.untaken = 0
        """Bytes sent to the program that it has not acknowledged."""
        self.ended_there = self.ended_here = False

    def send(self, data: bytes) -> None:
        """Send bytes to the program, at most as many as allowed."""
        self._streams.send(self, Kind.DATA, data)

    def grant(self, size: int) -> None:
        """Allow the program to send `size` more bytes."""
        self._streams.send(self, Kind.CREDIT, size.to_bytes(_CREDIT_SIZE, "big"))

    def end(self) -> None:
        """Close the direction to the program. The other direction stays open."""
        self._streams.send(self, Kind.END)

    def abort(self) -> None:
        """Close both directions. The program sees a reset connection."""
        self._streams.send(self, Kind.CANCEL)


class Streams:
    """The connections of one channel.

    Args:
        send: sends a frame to the supervisor without blocking.
        connected: see `Door.connected`. None refuses all connections.
    """

    def __init__(
        self, send: Callable[[bytes], None], connected: Callable[[EgressStream], Receiver | None] | None
    ) -> None:
        self._send = send
        self._connected = connected
        self._open: dict[int, tuple[EgressStream, Receiver]] = {}
        self._lock = threading.Lock()

    def take(self, number: int, kind: int, payload: bytes) -> None:
        """Handle a frame of a connection.

        Raises:
            ProtocolError: the frame breaks the protocol.
        """
        if kind == Kind.OPEN:
            if len(payload) != _REQUEST_SIZE:
                raise ProtocolError(f"a connection with {len(payload)} bytes about its program")
            self._begin(number, int.from_bytes(payload, "big"))
            return
        with self._lock:
            found = self._open.get(number)
            if found is None:
                return  # closed here; the supervisor does not know yet
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
                    # Otherwise the host would buffer without limit.
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
        """Close all connections: the sandbox has ended."""
        with self._lock:
            left, self._open = list(self._open.values()), {}
        for _, receiver in left:
            receiver.broke_off()

    def send(self, stream: EgressStream, kind: int, payload: bytes = b"") -> None:
        """Send a frame of a connection, unless it is closed."""
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

    def _begin(self, number: int, request: int) -> None:
        with self._lock:
            if number in self._open:
                raise ProtocolError("a connection began twice")
            stream = EgressStream(self, number, request)
            # Within the lock: the gateway may send at once, from another thread.
            receiver = self._connected(stream) if self._connected and len(self._open) < _MOST else None
            if receiver:
                self._open[number] = stream, receiver
                return
        self._send(encode(number, Kind.CANCEL))
