"""Carries the frames of a sandbox between this process and the actor on its node."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from libs.sandbox.cluster import ray_client
from libs.sandbox.cluster.actor import Link
from libs.sandbox.errors import SandboxError

__all__ = ["NodeTransport"]


class NodeTransport:
    """A connection to the supervisor of a container on a node: see `libs.sandbox.host.channel`.

    Args:
        node: the node as people read it.
        ask: calls a method of the actor for the container, by its name. Raises SandboxError.
        place: is given back when the container has ended.
    """

    def __init__(self, link: Link, node: str, ask: Callable[[str], Any], place: ray_client.Place) -> None:
        self.closed = False
        self.send_now = link.send_now
        self.send = link.send
        self._link = link
        self._node = node
        self._ask = ask
        self._place = place
        self._lost = ""
        """Why the node is lost."""
        self._broken = ""
        """Why the connection broke off."""
        self._lock = threading.Lock()

    def receive(self) -> bytes:
        try:
            return self._link.receive()
        except OSError as error:
            self._broken = f"the connection broke off ({error.strerror})"
            return b""

    def cut(self, why: str) -> None:
        """End the connection, because the node is lost."""
        self._lost = self._lost or why
        self._link.end()

    def close(self) -> None:
        with self._lock:
            if self.closed:
                return
            self.closed = True
        self._link.end()
        try:
            if not self._lost:
                with suppress(SandboxError):  # the node is gone, and the container with it
                    self._ask("close")
        finally:
            ray_client.free_place(self._place)

    def release(self) -> None:
        """Close the descriptor. Call when no thread uses the connection."""
        self._link.close()

    def epitaph(self) -> str:
        if self._lost or self.closed:
            return self._lost or "it was closed"
        try:
            said = self._ask("epitaph")
        except SandboxError:
            return self._lost or f"its node {self._node} does not answer"
        return f"{self._broken or said or 'the reason is not known'}, on node {self._node}"
