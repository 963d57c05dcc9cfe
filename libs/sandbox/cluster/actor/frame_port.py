"""Accepts the connections of a server to the containers of a node. Runs in the actor of the node."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from libs.sandbox.cluster.actor.link import Link, secured

__all__ = ["FramePort"]

_TOKEN_SIZE: Final = 32
_STRANGER_SECONDS: Final = 5.0
"""Seconds for the handshake of TLS, and for the token."""
_MOST_STRANGERS: Final = 64
"""Connections without a token at the same time. A further one is closed at once."""
_AGAIN_SECONDS: Final = 0.1
"""Seconds until the next try to accept a connection, if the process has too many open files."""

Take = Callable[[Link], None]


class FramePort:
    """A port of the node's address in the cluster. A connection begins with a token, which is valid once.

    Thread-safe.

    Args:
        address: the node's IP address.

    Raises:
        OSError: the address is not one of this machine.
    """

    def __init__(self, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listening = socket.create_server((address, 0), family=family, backlog=_MOST_STRANGERS)
        self.number: int = self._listening.getsockname()[1]
        self._expected: dict[bytes, Take] = {}
        self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, name="node-port", daemon=True).start()

    def expect(self, take: Take) -> bytes:
        """Return a token. `take` is called in a thread with the connection that begins with the token."""
        token = secrets.token_bytes(_TOKEN_SIZE)
        with self._lock:
            self._expected[token] = take
        return token

    def forget(self, token: bytes) -> None:
        """Refuse a token from now on, if it is still valid."""
        with self._lock:
            self._expected.pop(token, None)

    def close(self) -> None:
        """Accept no more connections."""
        self._closed = True
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                time.sleep(_AGAIN_SECONDS)
                continue
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            greeting = threading.Thread(target=self._greet, args=[connection], name="node-link", daemon=True)
            try:
                greeting.start()
            except RuntimeError:  # no more threads are allowed
                self._strangers.release()
                connection.close()

    def _greet(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_STRANGER_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = secured(connection)
            # A token arrives in one piece: it is smaller than any packet.
            take = self._taken(connection.recv(_TOKEN_SIZE))
        except OSError:
            take = None
        finally:
            self._strangers.release()
        if take:
            take(Link(connection))
        else:
            connection.close()

    def _taken(self, said: bytes) -> Take | None:
        with self._lock:
            for token in self._expected:
                if secrets.compare_digest(token, said):
                    return self._expected.pop(token)
        return None
