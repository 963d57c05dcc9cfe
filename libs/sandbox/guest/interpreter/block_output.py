"""Collects what a block prints, apart from what earlier blocks have printed (standard library only)."""

from __future__ import annotations

from libs.sandbox.guest.workers.capture import Captured

__all__ = ["BlockOutput"]

_MISSED = "[earlier blocks' threads and processes have printed {} bytes since the last block: not shown]\n"
_MOST_HELD = 64 * 1024
"""Bytes that are held back until the mark comes. Earlier ones are not shown."""


class BlockOutput(Captured):
    """The output of a block. It begins after a mark, which the interpreter prints when the block begins.

    So text that threads of earlier blocks have printed, and that the interpreter had not written yet, is not
    taken for that of the block.

    Args:
        mark: what the interpreter prints. Not empty.
        missed: bytes that were printed before, and were dropped.
    """

    def __init__(self, fd: int, limit: int, spill_path: str, mark: bytes, missed: int) -> None:
        super().__init__(fd, limit, spill_path)
        self.missed = missed
        self.mark = mark
        self.waits = True
        """Whether the mark has not come yet."""
        self.held = b""
        """What was printed meanwhile."""

    def add(self, data: bytes, live: bool) -> None:
        """Add printed bytes."""
        if self.waits:
            before, mark, data = (self.held + data).partition(self.mark)
            if not mark:
                self.missed += max(0, len(before) - _MOST_HELD)
                self.held = before[-_MOST_HELD:]
                return
            self.missed += len(before)
            self.held = b""
            self.show_held(live)
        super().add(data, live)

    def note(self, text: bytes) -> None:
        """Add a note, which may come before the mark."""
        super().add(text, True)

    def show_held(self, live: bool = True) -> None:
        """Begin the output, with a note about what was missed and with what is still held back.

        Called when the mark has come, or when none can come any more.
        """
        if self.waits:
            self.waits = False
            if self.missed:
                self.note(_MISSED.format(self.missed).encode())
            super().add(self.held, live)
