"""Locks a thread for one program: two programs that answered the same question would both run the command."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["ThreadInUse", "thread_lock"]


class ThreadInUse(Exception):
    """Another program carries out a run in this thread.

    Args:
        pid: the program's process id; None if it is unknown.
    """

    def __init__(self, thread_id: str, pid: int | None = None) -> None:
        super().__init__(f"Thread {thread_id!r} is in use by another program: wait until that has ended.")
        self.pid = pid


@contextmanager
def thread_lock(folder: Path, thread_id: str) -> Iterator[None]:
    """Lock a thread inside the block; the kernel releases the lock when this process dies.

    Does nothing on a system without flock(2).

    Args:
        folder: holds the lock file; created if missing.

    Raises:
        ThreadInUse: another process holds the lock.
        OSError: the file cannot be created.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(thread_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    path = folder / f"{name}.lock"
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_nlink:
                break
        except BlockingIOError:
            holder = os.pread(file, 20, 0)
            os.close(file)
            raise ThreadInUse(thread_id, int(holder) if holder.isdigit() else None) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its last holder has removed this file: a lock on it would keep nobody out
    try:
        with suppress(OSError):  # on a full disk the process id stays unknown
            os.ftruncate(file, 0)  # a killed process has left its id
            os.write(file, b"%d" % os.getpid())
        yield
    finally:
        # Removed under the lock: a process that has this file open sees st_nlink 0 and tries again.
        with suppress(OSError):
            path.unlink()
        os.close(file)
