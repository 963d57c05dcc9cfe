"""A TCP connection between a server and a node. It uses TLS if Ray uses TLS."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

__all__ = ["Link", "connect_link", "secured"]

_PIECE: Final = 262_144
"""Bytes that are received at once, at most."""
_CONNECT_SECONDS: Final = 10.0
"""Seconds for a connection. The kernel repeats the first packet after 1, 3 and 7 seconds."""
_PROBE_SECONDS: Final = 5
"""Seconds without data until the kernel sends a probe, and between two probes."""
_SILENT_SECONDS: Final = 20
"""Seconds after which a connection ends if the node takes no data and answers no probe. A cut of some seconds
is survived. `Cluster` notices a silent node earlier: this bound is for a network that drops this connection
alone."""
_FILES: Final = ("CA_CERT", "SERVER_CERT", "SERVER_KEY")
"""What the names of Ray's variables end with, which have the paths of the files."""

Result = TypeVar("Result")


class Link:
    """A connected socket. One thread may receive while another one sends. Methods raise OSError."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._plain = not isinstance(connection, ssl.SSLSocket)
        self._using = threading.Lock()
        """OpenSSL allows one call at a time. No call waits, because the socket does not block."""

    def receive(self) -> bytes:
        """Wait for the next bytes and return them. Empty at the end."""
        return self._when_ready(partial(self._connection.recv, _PIECE), select.POLLIN)

    def send_now(self, data: bytes) -> int:
        """Send as many bytes as possible without waiting. Return their number."""
        if not self._plain:
            return 0  # OpenSSL must get the same bytes again if it could not send all of them
        try:
            # Not `send`: checks for blocking calls on an event loop ignore that the socket does not block.
            return self._connection.sendmsg([data])
        except BlockingIOError:
            return 0

    def send(self, data: bytes) -> None:
        """Send all bytes, and wait where needed."""
        left = memoryview(data)
        while left:
            left = left[self._when_ready(partial(self._connection.send, left), select.POLLOUT) :]

    def end_sending(self) -> None:
        """Let the other side receive the end, after all that was sent."""
        self._shut(socket.SHUT_WR)

    def end(self) -> None:
        """End both directions. A thread that waits in `receive` or `send` returns."""
        self._shut(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the descriptor. Call when no thread uses the connection."""
        self._connection.close()

    def _when_ready(self, work: Callable[[], Result], usual: int) -> Result:
        while True:
            try:
                with self._using:
                    return work()
            except ssl.SSLWantReadError:
                awaited = select.POLLIN
            except ssl.SSLWantWriteError:
                awaited = select.POLLOUT
            except BlockingIOError:
                awaited = usual
            poll = select.poll()
            poll.register(self._connection, awaited)
            poll.poll()

    def _shut(self, how: int) -> None:
        with suppress(OSError):
            # `SSLSocket.shutdown` would turn off TLS for a thread that still receives.
            socket.socket.shutdown(self._connection, how)


def connect_link(address: str, port: int, token: bytes) -> Link:
    """Connect to the port of a node: see `FramePort`.

    Raises:
        OSError: the port cannot be reached, or the node has no certificate for its address.
    """
    connection = socket.create_connection((address, port), _CONNECT_SECONDS)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_SECONDS * 1000)
        connection = secured(connection, address)
        connection.sendall(token)
    except BaseException:
        connection.close()
        raise
    return Link(connection)


def secured(connection: socket.socket, other: str | None = None) -> socket.socket:
    """Return the connection with TLS if Ray uses TLS, with the files of Ray and as strict as Ray.

    Both sides need a certificate of Ray's authority.

    Args:
        other: address of a node or of Ray's head, which its certificate must have. None: this side is a node.

    Raises:
        OSError: a variable is missing, a file cannot be read, or the other side has no such certificate.
    """
    if os.environ.get("RAY_USE_TLS", "0").lower() not in {"1", "true"}:
        return connection
    try:
        authority, certificate, key = (os.environ[f"RAY_TLS_{what}"] for what in _FILES)
    except KeyError as missing:
        raise OSError(f"RAY_USE_TLS needs {missing}, too") from missing
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if other else ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority)
    context.set_alpn_protocols(["h2"])  # for the head, which speaks gRPC
    context.load_cert_chain(certificate, key)
    return context.wrap_socket(connection, server_side=other is None, server_hostname=other)
