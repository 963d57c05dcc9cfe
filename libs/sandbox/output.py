"""The first and the last part of an output, the whole of it in a spill file (standard library only)."""

from __future__ import annotations

import codecs
import posix as os

from libs.sandbox.spill import SPILL_LIMIT, make_room

__all__ = ["Output"]


class Output:
    """One output of at most `limit` characters to be shown, however much is added.

    Memory holds the first and the last `4 * limit / 2` bytes: UTF-8 needs at most four for a character, so
    both halves of the shown text are in there. Where more was added, or where the text turns out longer
    than `limit`, everything from the first byte goes to a spill file, up to SPILL_LIMIT.
    """

    def __init__(self, limit: int, spill_path: str) -> None:
        self._limit = limit
        self._half = 2 * limit
        self._path = spill_path
        self._head: list[bytes] = []
        self._head_size = 0
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._file: int | None = None
        self._tried = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ascii = True
        self.chars = 0
        """Characters added. The text has to be cut where it is over the limit."""
        self.total = 0
        """Bytes added."""
        self.spilled = 0
        """Bytes in the spill file."""
        self.spill_path: str | None = None
        """The spill file, once there is one."""

    def add(self, data: bytes) -> int:
        """Add bytes; return how many of them belong to the first half."""
        self.total += len(data)
        # Decoding costs three times as much as looking whether there is anything to decode.
        self._ascii = self._ascii and data.isascii()
        self.chars += len(data) if self._ascii else len(self._decoder.decode(data))
        room = min(self._half - self._head_size, len(data))
        if room:
            self._head.append(data[:room])
            self._head_size += room
        if room < len(data):
            self._tail.append(data[room:])
            self._tail_size += len(data) - room
        if self.total > 2 * self._half:
            if self._tried:
                self._write(data)
            else:
                self._spill_all()
            while self._tail_size - len(self._tail[0]) >= self._half:
                self._tail_size -= len(self._tail.pop(0))
        return room

    def finish(self) -> bytes:
        """Close the spill file.

        Returns:
            What follows the first half; where the middle is missing, the last half.
        """
        self.chars += len(self._decoder.decode(b"", final=True))
        tail = b"".join(self._tail)
        if self.total > 2 * self._half:
            tail = tail[-self._half :]
        elif self.chars > self._limit:
            self._spill_all()
        self._close()
        return tail

    def _spill_all(self) -> None:
        self._tried = True
        try:
            from os import makedirs

            folder = self._path.rpartition("/")[0]
            makedirs(folder, exist_ok=True)
            make_room(folder)
        except OSError:
            pass  # such as a folder that cannot be listed: it may take this file all the same
        try:
            # The folder is the agent's own: whatever lies there under this name may be a trap.
            self._file = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
            )
        except OSError:
            return
        self.spill_path = self._path
        for piece in (*self._head, *self._tail):
            self._write(piece)

    def _write(self, data: bytes) -> None:
        data = data[: SPILL_LIMIT - self.spilled]
        try:
            while data and self._file is not None:
                written = os.write(self._file, data)
                self.spilled += written
                data = data[written:]
        except OSError:
            # The disk is full: what is there is still worth naming, and the command goes on.
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
