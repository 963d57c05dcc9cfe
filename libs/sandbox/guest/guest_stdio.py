"""Reads and writes frames on standard input and output, for the supervisor (standard library only)."""

from __future__ import annotations

import os
import select

from libs.sandbox.guest.workers.children import write_some
from libs.sandbox.wire.frames import PIPE, Decoder, Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Stdio"]


class Stdio:
    """Never blocks. Frames that the host does not take yet are kept.

    Args:
        poll: both descriptors are registered here, standard output only while it is blocked.
        on_blocked: called with True when the host stops reading, and with False when it reads again.
    """

    def __init__(self, poll: select.poll, on_blocked: Callable[[bool], None]) -> None:
        self._poll = poll
        self._on_blocked = on_blocked
        self._decoder = Decoder()
        self._unsent: list[bytes] = []
        self.blocked = False
        for descriptor in (0, 1):
            os.set_blocking(descriptor, False)
        poll.register(0, select.POLLIN)

    def receive(self) -> list[Frame] | None:
        """Return the received frames. None at the end of input: the owner is gone."""
        try:
            data = os.read(0, PIPE)
        except BlockingIOError:
            return []
        return self._decoder.feed(data) if data else None

    def send(self, data: bytes) -> None:
        """Send a frame, now or when the host reads again."""
        self._unsent.append(data)
        self.flush()

    def flush(self) -> None:
        """Send as much as possible without blocking."""
        try:
            write_some(1, self._unsent)
        except BrokenPipeError:
            # The owner is gone. `receive` reports that.
            self._unsent.clear()
        blocked = bool(self._unsent)
        if blocked != self.blocked:
            self.blocked = blocked
            if blocked:
                self._poll.register(1, select.POLLOUT)
            else:
                self._poll.unregister(1)
            self._on_blocked(blocked)
