"""The supervisor's end of the channel: standard input and output (standard library only)."""

from __future__ import annotations

import posix as os
import select

from libs.sandbox.children import write_some
from libs.sandbox.frames import CHUNK, Decoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from libs.sandbox.frames import Frame

__all__ = ["Stdio"]


class Stdio:
    """Never waits: what the host does not take yet is kept, and `on_blocked` told.

    Args:
        poll: where both descriptors are registered, standard output only while it is blocked.
        on_blocked: is told when the host begins to take nothing (True), and when it does again (False).
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
        """What has come; None at the end: the owner is gone."""
        try:
            data = os.read(0, CHUNK)
        except BlockingIOError:
            return []
        return self._decoder.feed(data) if data else None

    def send(self, data: bytes) -> None:
        """Send a frame, now or when the host takes it."""
        self._unsent.append(data)
        self.flush()

    def flush(self) -> None:
        """Send what can be sent."""
        try:
            write_some(1, self._unsent)
        except BrokenPipeError:
            # The owner is gone; end of file on standard input says the same.
            self._unsent.clear()
        blocked = bool(self._unsent)
        if blocked != self.blocked:
            self.blocked = blocked
            if blocked:
                self._poll.register(1, select.POLLOUT)
            else:
                self._poll.unregister(1)
            self._on_blocked(blocked)
