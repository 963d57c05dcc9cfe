"""Opens folders and files of the workspace without following a link (standard library only)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from typing import Final, Self

from libs.sandbox.wire.frames import CHUNK

__all__ = ["FILE", "Changing", "Folders", "digest_of", "read_parts", "read_steady"]

FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags to open a file for reading. Without O_NONBLOCK, a FIFO without a writer would block."""
_BELOW: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE: Final = 1024 * 1024
_TRIES: Final = 3
"""Reads of a file that changes while it is read."""


class Changing(Exception):
    """The file changes while it is read."""


class Folders:
    """Opens folders of the workspace, one below the other, without following a link."""

    def __init__(self) -> None:
        self._folders = [os.open("/proc/self/cwd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        """The workspace, and the folders that were opened last, each in the one before."""
        self._names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._folders:
            os.close(folder)

    def parent(self, path: str) -> tuple[int, str]:
        """Return the open folder that a path lies in, and the path's last name. The folder stays open until
        the next call.

        Raises:
            OSError: a folder is not there, is a link, or cannot be searched.
        """
        *above, name = path.split("/")
        while self._names != above[: len(self._names)]:
            self._names.pop()
            os.close(self._folders.pop())
        for part in above[len(self._names) :]:
            self._folders.append(os.open(part, _BELOW, dir_fd=self._folders[-1]))
            self._names.append(part)
        return self._folders[-1], name


def digest_of(file: int, size: int) -> str | None:
    """Return the SHA-256 of the first `size` bytes of an open file; None if the file is shorter."""
    found = hashlib.sha256()
    at = 0
    while at < size:
        data = os.pread(file, min(size - at, _PIECE), at)
        if not data:
            return None
        found.update(data)
        at += len(data)
    return found.hexdigest()


def read_steady(folder: int, name: str) -> tuple[os.stat_result, str]:
    """Return state and SHA-256 of a file that does not change meanwhile.

    Raises:
        Changing: the file changes again and again.
        OSError: the file cannot be read.
    """
    file = os.open(name, FILE, dir_fd=folder)
    try:
        for _ in range(_TRIES):
            before = os.fstat(file)
            if not stat.S_ISREG(before.st_mode):
                break
            digest = digest_of(file, before.st_size)
            after = os.fstat(file)
            same = (before.st_size, before.st_ctime_ns) == (after.st_size, after.st_ctime_ns)
            if digest is not None and same:
                return after, digest
    finally:
        os.close(file)
    raise Changing


def read_parts(parts: list[tuple[str, int, int]], send: Callable[[bytes], None]) -> list[int]:
    """Send parts of files, each a path, an offset and a length. Return the bytes that were sent of each.

    Fewer bytes than asked for mean that the file is shorter, or gone.
    """
    sent: list[int] = []
    held = bytearray()
    with Folders() as folders:
        for path, offset, length in parts:
            done = 0
            with contextlib.suppress(OSError):
                above, name = folders.parent(path)
                file = os.open(name, FILE, dir_fd=above)
                try:
                    regular = stat.S_ISREG(os.fstat(file).st_mode)
                    while regular and (data := os.pread(file, min(length - done, CHUNK), offset + done)):
                        held += data
                        done += len(data)
                        if len(held) >= CHUNK:
                            send(bytes(held))
                            held.clear()
                finally:
                    os.close(file)
            sent.append(done)
    send(bytes(held))
    return sent
