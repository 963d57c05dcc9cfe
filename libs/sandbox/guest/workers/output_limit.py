"""Keeps the first and the last part of an output, and the whole in a spill file (standard library only)."""

from __future__ import annotations

import codecs
import os

from libs.sandbox.guest.workers.spill import SPILL_LIMIT, make_room

__all__ = ["Output"]


class Output:
    """One output, of which at most `limit` characters are shown.

    Memory holds the first and the last `4 * limit / 2` bytes. UTF-8 needs at most four bytes for a character,
    so they contain both halves of the shown text. If more is added, or the text is longer than `limit`, the
    whole output goes to a spill file, up to SPILL_LIMIT, if there is a `spill_path`.
    """

    def __init__(self, limit: int, spill_path: str | None) -> None:
        self._limit = limit
        self._half = 2 * limit
        self._path = spill_path
        self._head: list[bytes] = []
        self._head_size = 0
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._file: int | None = None
        self._opened: os.stat_result | None = None
        self._tried = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ascii = True
        self.chars = 0
        """Characters added. Over the limit, the text is cut."""
        self.total = 0
        """Bytes added."""
        self.spilled = 0
        """Bytes in the spill file. After the end 0 if a program has removed or changed the file."""
        self.spill_path: str | None = None
        """Path of the spill file, if anything was written to it."""

    def add(self, data: bytes) -> int:
        """Add bytes. Return how many of them belong to the first half."""
        self.total += len(data)
        # Decoding takes three times as long as a check for ASCII.
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
            The bytes after the first half, or the last half if the middle is missing.
        """
        self.chars += len(self._decoder.decode(b"", final=True))
        tail = b"".join(self._tail)
        if self.total > 2 * self._half:
            tail = tail[-self._half :]
        elif self.chars > self._limit:
            self._spill_all()
        self._close()
        if not self.spilled:
            self.spill_path = None
        elif not self._is_kept():
            self.spilled = 0
        return tail

    def _is_kept(self) -> bool:
        """Return whether the spill file is still what was written."""
        try:
            found = os.stat(self.spill_path or "", follow_symlinks=False)
        except OSError:
            return False
        assert self._opened is not None
        return os.path.samestat(found, self._opened) and found.st_size == self.spilled

    def _spill_all(self) -> None:
        self._tried = True
        if self._path is None:
            return
        try:
            folder = self._path.rpartition("/")[0]
            os.makedirs(folder, exist_ok=True)
            make_room(folder)
        except OSError:
            pass  # the folder may still take this file
        try:
            # A command can write to this folder and may have put a trap under this name. O_APPEND: if the
            # command truncates the file, its size tells.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o644)
        except OSError:
            return
        self._opened = os.fstat(self._file)
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
            # The disk is full. Keep the written part and let the command go on.
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
