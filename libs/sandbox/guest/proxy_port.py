"""Listens for programs inside and relays each connection to the host (standard library only).

Programs reach the proxy on a port. The packages of MCP servers use a Unix socket, because the kernel tells
which process has connected there. The host decides what is reachable. This code is part of PID 1, so no
command can end or replace it.
"""

from __future__ import annotations

# The module `socket` takes as long to import as the interpreter to start.
import _socket
import select
import struct

from libs.sandbox.wire.frames import INSIDE, NET_WINDOW, Kind, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Outlet"]

_MOST = 256
"""Connections at once. Further connections wait."""
_PIECE = 64 * 1024
"""Bytes that are read from one connection before the next connection is served."""
_RESET = struct.pack("ii", 1, 0)
_PEER = struct.Struct("3i")
"""struct ucred of unix(7): process, user and group."""


class _Connection:
    """State of one program's connection."""

    def __init__(self, stream: int, sock: _socket.socket) -> None:
        self.stream = stream
        self.sock = sock
        self.descriptor: int = sock.fileno()
        self.room = NET_WINDOW
        """Bytes that the host accepts now."""
        self.owed = 0
        """Bytes that the program has read since the last credit to the host."""
        self.unsent: list[memoryview] = []
        self.all_read = False
        self.all_come = False
        """Whether the host has sent its END."""
        self.interest = 0


class Outlet:
    """Listens on 127.0.0.1 and on a Unix socket, and relays connections. Never blocks.

    The Unix socket has the abstract name `sandbox-proxy-<port>`, which no program can remove.

    Args:
        poll: descriptors are registered here.
        send: sends a frame to the host.
        port: the port to listen on.
        request_of: returns the running request that a process belongs to; 0 if there is none.

    Raises:
        OSError: the port is not available.
    """

    def __init__(
        self,
        poll: select.poll,
        send: Callable[[bytes], None],
        port: int,
        request_of: Callable[[int], int],
    ) -> None:
        self._poll = poll
        self._send = send
        self._request_of = request_of
        self._connections: dict[int, _Connection] = {}
        """Descriptor -> connection."""
        self._streams: dict[int, _Connection] = {}
        self._count = 0
        self._paused = False
        self._listening = False
        self._taken = False
        """Whether a program listens on the port."""
        kind = _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC
        self._by_port = _socket.socket(_socket.AF_INET, kind)
        self._by_port.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        self._by_port.bind(("127.0.0.1", port))
        self._by_name = _socket.socket(_socket.AF_UNIX, kind)
        self._by_name.bind(f"\0sandbox-proxy-{port}")
        self._listeners = {listener.fileno(): listener for listener in (self._by_port, self._by_name)}
        for listener in self._listeners.values():
            listener.setblocking(False)
            listener.listen(_MOST)
        self._listen()

    def renew(self) -> None:
        """Drop the connections that wait to be accepted, because their programs may have ended.

        The kernel keeps what a program has sent before its end. Without this, such a connection would be
        accepted later, as if a program of a later command had made it.

        The sockets stay bound. A worker that was just forked still has copies of them, so closing them here
        would not free their names.
        """
        if not self._taken:
            # Also drops the connections that the kernel would complete later. The socket can listen again.
            self._by_port.shutdown(_socket.SHUT_RDWR)
        try:
            self._by_port.listen(_MOST)
            self._taken = False
        except OSError:
            self._taken = True  # by a program, between the two calls: nothing gets out until the next renewal
        try:
            for _ in range(_MOST + 1):  # the kernel queues one more than listen(2) was asked for
                descriptor, _ = self._by_name._accept()  # type: ignore[attr-defined]
                _socket.close(descriptor)
        except OSError:
            pass
        self._listen()

    def descriptors(self) -> Iterator[int]:
        """Return the descriptors that a fork must close."""
        yield from self._listeners
        yield from self._connections

    def pause(self, paused: bool) -> None:
        """Stop reading from programs while the host does not read, or continue."""
        self._paused = paused
        for connection in self._connections.values():
            self._watch(connection)
        self._listen()

    def on_ready(self, descriptor: int) -> None:
        """Serve a descriptor that is ready."""
        if listener := self._listeners.get(descriptor):
            if self._listening:  # not ended in this round of the poll
                self._accept(listener)
            return
        connection = self._connections.get(descriptor)
        if connection is None:
            return  # closed in this round of the poll
        try:
            if connection.unsent:
                self._write(connection)
            if connection.interest & select.POLLIN and not self._paused:
                self._read(connection)
        except BlockingIOError:
            self._watch(connection)
        except OSError:
            self._drop(connection, tell=True)
        else:
            self._settle(connection)

    def on_frame(self, stream: int, kind: int, payload: bytes) -> None:
        """Handle a frame of the host."""
        connection = self._streams.get(stream)
        if connection is None:
            return
        if kind == Kind.CANCEL:
            self._drop(connection, tell=False)
            return
        try:
            if kind == Kind.DATA:
                connection.unsent.append(memoryview(payload))
                if len(connection.unsent) == 1:
                    self._write(connection)
            elif kind == Kind.CREDIT:
                connection.room += int.from_bytes(payload, "big")
            elif kind == Kind.END:
                connection.all_come = True
                if not connection.unsent:
                    connection.sock.shutdown(_socket.SHUT_WR)
        except OSError:
            self._drop(connection, tell=True)
        else:
            self._settle(connection)

    # -- programs

    def _listen(self) -> None:
        wanted = len(self._connections) < _MOST and not self._paused and not self._taken
        if wanted != self._listening:
            self._listening = wanted
            for descriptor in self._listeners:
                if wanted:
                    self._poll.register(descriptor, select.POLLIN)
                else:
                    self._poll.unregister(descriptor)

    def _accept(self, listener: _socket.socket) -> None:
        try:
            descriptor, _ = listener._accept()  # type: ignore[attr-defined]
        except BlockingIOError:
            return  # the program has closed the connection
        except OSError:
            if self._connections:  # no free descriptor: listen again when a connection ends
                for each in self._listeners:
                    self._poll.unregister(each)
                self._listening = False
            return
        sock = _socket.socket(fileno=descriptor)
        sock.setblocking(False)
        request = 0
        if sock.family == _socket.AF_UNIX:
            peer = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER.size)
            request = self._request_of(_PEER.unpack(peer)[0])
        else:
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self._count = self._count % (INSIDE - 1) + 1
        connection = _Connection(INSIDE | self._count, sock)
        self._connections[descriptor] = self._streams[connection.stream] = connection
        self._listen()
        self._send(encode(connection.stream, Kind.OPEN, request.to_bytes(4, "big")))
        self._watch(connection)

    def _read(self, connection: _Connection) -> None:
        data = connection.sock.recv(min(_PIECE, connection.room))
        if data:
            connection.room -= len(data)
            self._send(encode(connection.stream, Kind.DATA, data))
        else:
            connection.all_read = True
            self._send(encode(connection.stream, Kind.END))

    def _write(self, connection: _Connection) -> None:
        unsent = connection.unsent
        try:
            while unsent:
                sent = connection.sock.send(unsent[0])
                connection.owed += sent
                if sent < len(unsent[0]):
                    unsent[0] = unsent[0][sent:]
                else:
                    unsent.pop(0)
        except BlockingIOError:
            return
        finally:
            if connection.owed >= NET_WINDOW // 4 and not connection.all_come:
                self._send(encode(connection.stream, Kind.CREDIT, connection.owed.to_bytes(4, "big")))
                connection.owed = 0
        if connection.all_come:
            connection.sock.shutdown(_socket.SHUT_WR)

    def _settle(self, connection: _Connection) -> None:
        """Close a connection that has ended in both directions, or update its poll."""
        if connection.all_read and connection.all_come and not connection.unsent:
            self._drop(connection, tell=False, reset=False)
        else:
            self._watch(connection)

    def _watch(self, connection: _Connection) -> None:
        interest = select.POLLOUT if connection.unsent else 0
        if connection.room > 0 and not connection.all_read and not self._paused:
            interest |= select.POLLIN
        if interest == connection.interest:
            return
        connection.interest = interest
        if interest:
            self._poll.register(connection.descriptor, interest)
        else:
            # Registered without events, the descriptor would report a hang-up again and again.
            self._poll.unregister(connection.descriptor)

    def _drop(self, connection: _Connection, *, tell: bool, reset: bool = True) -> None:
        if connection.interest:
            self._poll.unregister(connection.descriptor)
        del self._connections[connection.descriptor], self._streams[connection.stream]
        if tell:
            self._send(encode(connection.stream, Kind.CANCEL))
        if reset:
            try:
                connection.sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, _RESET)
            except OSError:
                pass
        connection.sock.close()
        self._listen()
