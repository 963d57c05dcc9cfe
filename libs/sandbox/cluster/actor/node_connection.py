"""Carries the frames of one container of a node. Runs in the actor of the node."""

from __future__ import annotations

import threading
from contextlib import suppress

from libs.sandbox.cluster.actor.link import Link
from libs.sandbox.docker import AttachedTransport

__all__ = ["NodeConnection"]


class NodeConnection:
    """A container, and the connection of the server to it. Thread-safe. Methods block.

    A side that does not receive makes the other side wait: nothing is stored between them.

    Args:
        thread: the thread of the sandbox; empty for a spare.
    """

    def __init__(self, transport: AttachedTransport, thread: str) -> None:
        self.thread = thread
        self.token = b""
        """The token that the server needs to connect."""
        self._transport = transport
        self._link: Link | None = None
        self._carriers: list[threading.Thread] = []
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the container.

        Raises:
            SandboxError: the Engine refuses. No container is left.
        """
        try:
            self._transport.start()
        except BaseException:
            self._transport.discard()
            raise

    def take_up(self, link: Link) -> None:
        """Carry frames until the container or the connection ends. The container ends with the connection."""
        with self._lock:
            if self._closed:
                link.close()
                return
            self._link = link
            for work in (self._from_container, self._to_container):
                carrier = threading.Thread(target=work, args=[link], name="node-carrier", daemon=True)
                carrier.start()
                self._carriers.append(carrier)

    def epitaph(self) -> str:
        """Return why the container ended."""
        return self._transport.epitaph()

    def close(self) -> None:
        """End the container and wait until it is removed."""
        with self._lock:
            self._closed = True
        if self._link:
            self._link.end()
        self._transport.close()
        for carrier in self._carriers:
            carrier.join()
        if self._link:
            self._link.close()
        self._transport.release()

    def _from_container(self, link: Link) -> None:
        with suppress(OSError):
            while data := self._transport.receive():
                link.send(data)
        link.end_sending()

    def _to_container(self, link: Link) -> None:
        while data := _received(link):
            try:
                self._transport.send(data)
            except OSError:
                return  # the container has ended, of which the other thread tells the server
        self._transport.close()


def _received(link: Link) -> bytes:
    try:
        return link.receive()
    except OSError:
        return b""
