"""Changes the content of a file beside other edits and programs, and loses nothing (standard library only).

The changed file is a new file that takes the name in one step. To write over the old content instead would
keep hard links and the owner, but a writer that is killed, or a reader in between, would meet a mixture of
both contents. Nor would it help a program that has the file open: the program's next output would land in
the middle of the changed text. So such a file is not changed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import Final

from libs.sandbox.guest.files.disk import (
    LOCK_SECONDS,
    InUse,
    draft,
    lock,
    locked,
    open_folder,
    refuse_unwritable,
    write_all,
)

__all__ = ["rewrite"]

_WRITER_SECONDS: Final = 3.0
"""Longest wait for programs that have the file open for writing."""
_POLL: Final = 0.005
_SIGURG: Final = 23
"""Ignored by default. The signal of a lease is SIGIO otherwise, which ends the process."""


class _Changed(Exception):
    """The file is not what was read any more."""


def rewrite(path: str, change: Callable[[int], bytes | None]) -> None:
    """Replace the content of a regular file.

    Mode, access list and `user.*` attributes are kept. Other hard links keep the old content, and the file
    belongs to the sandbox's user. If another edit, upload or program changes the file meanwhile, `change` is
    called again with the changed file.

    Args:
        change: gets the open file, and returns the new content, or None to change nothing.

    Raises:
        InUse: a program keeps the file locked, open for writing, or changes it all the time.
        OSError, NotRegular: the file cannot be opened or replaced.
    """
    os.stat(path)  # the kernel's error for a path, or a link, that `os.path.realpath` takes for another one
    end = time.monotonic() + LOCK_SECONDS
    while True:
        target = os.path.realpath(path)
        with locked(target, end) as file:
            leased = _lease(file)
            found = os.fstat(file)
            content = change(file)
            if content is None:
                return
            refuse_unwritable(target)
            with contextlib.suppress(_Changed), open_folder(target) as folder:
                _replace(folder, os.path.basename(target), file, (found, leased), content)
                return
        if time.monotonic() > end:
            raise InUse("a program changes the file all the time: end the program, or try again later")


def _lease(file: int) -> bool:
    """Wait until no program has the file open for writing. Return False if this cannot be known.

    The lease delays programs that open the file for writing: see fcntl(2). It ends when the file is closed.
    """
    end = time.monotonic() + _WRITER_SECONDS
    while True:
        try:
            fcntl.fcntl(file, fcntl.F_SETSIG, _SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                return False  # another user's file, or a file system without leases
            if time.monotonic() > end:
                raise InUse(
                    "a program has the file open for writing, and its next output would be lost: close the "
                    "file there, or end the program. Or change the file with a command"
                ) from None
            time.sleep(_POLL)
        else:
            return True


def _replace(folder: int, name: str, file: int, before: tuple[os.stat_result, bool], content: bytes) -> None:
    """Replace the file, but only if it is still what was read.

    A program may open the old file just before its name is taken. So the old file keeps a second name until
    it is sure that nobody did, and gets its name back otherwise. A worker that is killed in between leaves
    the complete old file beside the new one, as `.<16 digits>.part`.

    Args:
        before: the file's state when it was read, and whether it has a lease.

    Raises:
        _Changed: the file is not what was read.
    """
    beside = f".{os.urandom(8).hex()}.part"
    found, leased = before

    def check(named: str) -> None:
        now = os.fstat(file)
        same = (now.st_size, now.st_mtime_ns) == (found.st_size, found.st_mtime_ns)
        # A lease that a program waits for is called F_UNLCK.
        same = same and (not leased or fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_RDLCK)
        with contextlib.suppress(FileNotFoundError):
            if same and os.path.samestat(os.stat(named, dir_fd=folder, follow_symlinks=False), now):
                return
        raise _Changed

    with contextlib.ExitStack() as last:
        with draft(folder, name, stat.S_IMODE(found.st_mode), there=True, keeps_mode=True) as new:
            write_all(new, content)
            for key, value in _attributes(file):
                os.setxattr(new, key, value)
            try:
                os.link(name, beside, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                last.callback(_unlink, beside, folder)
            except OSError:  # not every file system has hard links
                beside = ""
            # Other changes of the new file wait, too, as it may lose its name again.
            held = os.dup(new)
            last.callback(os.close, held)
            lock(held)
            check(name)
        if beside:
            try:
                check(beside)
            except _Changed:
                os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
                raise


def _unlink(name: str, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _attributes(file: int) -> Iterator[tuple[str, bytes]]:
    try:
        names = os.listxattr(file)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return
    for name in names:
        if name.startswith("user.") or name == "system.posix_acl_access":
            yield name, os.getxattr(file, name)
