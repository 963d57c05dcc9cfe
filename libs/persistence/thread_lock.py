"""One program at a time in a thread: two that answered the same question would both run what it asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["ThreadInUse", "thread_lock"]


class ThreadInUse(Exception):
    """Another program carries out a run in this thread."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"Thread {thread_id!r} is in use by another program: wait until that has ended.")


@contextmanager
def thread_lock(folder: Path, thread_id: str) -> Iterator[None]:
    """Hold a thread for the length of the block; the kernel lets go of it when this process dies.

    Where the system has no flock(2), nothing is held.

    Args:
        folder: where the lock file lies; made where missing.

    Raises:
        ThreadInUse: another process holds it.
        OSError: the file cannot be made.
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
            os.close(file)
            raise ThreadInUse(thread_id) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # whoever held it has removed it since it was opened: it keeps nobody out
    try:
        yield
    finally:
        # Removed while it is held: what others have opened by now is this one, and they see that it is gone.
        with suppress(OSError):
            path.unlink()
        os.close(file)
