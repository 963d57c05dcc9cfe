"""Carries the frames of a sandbox between this process and the actor on its node."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TimedOut
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

from libs.sandbox.cluster import ray_client
from libs.sandbox.errors import SandboxError

__all__ = ["NodeTransport"]

logger = logging.getLogger(__name__)

_WINDOW: Final = 8_000_000
"""Bytes that are under way to the node. A slow node delays only its own sandboxes."""
_AT_ONCE: Final = 100_000
"""Bytes that are sent without waiting. Ray copies larger values into shared memory, which takes time."""
_PATIENCE: Final = 10.0
"""Seconds to wait for the answer to a question, and until a container is removed."""


class NodeTransport:
    """A connection to the supervisor of a container on a node: see `libs.sandbox.host.transport`.

    One call waits for frames at any time. So a node sends no more than this process has taken.
    """

    def __init__(
        self, host: Any, node: str, container: str, place: ray_client.Place, gone: Callable[[str], None]
    ) -> None:
        """Connect to a container that was started.

        Args:
            host: the actor.
            node: the node as people read it.
            place: is given back when the container has ended.
            gone: called with the reason if the node is gone. It must `cut` all connections to the node.
        """
        self.closed = False
        self._host = host
        self._node = node
        self._container = container
        self._place = place
        self._gone = gone
        self._arrived: SimpleQueue[Future[Any] | None] = SimpleQueue()
        self._reason = ""
        self._number = 0
        self._under_way = 0
        self._changed = threading.Condition()
        self._pull()

    def receive(self) -> bytes:
        future = self._arrived.get()
        if future is None or self.closed or self._reason:
            return b""
        try:
            data: bytes = future.result()
            if data:
                self._pull()
        except SandboxError as error:
            logger.debug("node %s is gone: %s", self._node, error)
            self._gone(f"its node {self._node} is gone")
            return b""
        return data

    def _pull(self) -> None:
        future = ray_client.submit(self._host.receive, self._container)
        future.add_done_callback(self._arrived.put)

    def send_now(self, data: bytes) -> int:
        if len(data) > _AT_ONCE:
            return 0
        with self._changed:
            self._check()
            if self._under_way > _WINDOW:
                return 0
            self._submit(data)
        return len(data)

    def send(self, data: bytes) -> None:
        with self._changed:
            self._check()
            while self._under_way > _WINDOW:
                self._changed.wait()
                self._check()
            self._submit(data)

    def _check(self) -> None:
        if self.closed or self._reason:
            raise OSError(self._reason or "the connection was closed")

    def _submit(self, data: bytes) -> None:
        number, size = self._number, len(data)
        future = ray_client.submit(self._host.send, self._container, number, data)
        self._number += 1
        self._under_way += size

        def taken(_: Future[Any]) -> None:
            with self._changed:
                self._under_way -= size
                self._changed.notify_all()

        future.add_done_callback(taken)

    def cut(self, why: str) -> None:
        """End the connection, because the node is lost."""
        self._end(why)
        self._arrived.put(None)

    def _end(self, why: str) -> None:
        with self._changed:
            self._reason = self._reason or why
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            if self.closed:
                return
            self.closed = True
            self._changed.notify_all()
        self._arrived.put(None)
        try:
            if not self._reason:
                with suppress(SandboxError, TimedOut):  # the node is gone, and the container with it
                    ray_client.submit(self._host.close, self._container).result(_PATIENCE)
        finally:
            ray_client.free_place(self._place)

    def epitaph(self) -> str:
        if self._reason or self.closed:
            return self._reason or "it was closed"
        try:
            reason = str(ray_client.submit(self._host.epitaph, self._container).result(_PATIENCE))
        except TimedOut:
            reason = "its node does not answer"
        except SandboxError:
            reason = "its node is gone"
        return f"{reason or 'the reason is not known'}, on node {self._node}"
