"""Opens, creates and replaces regular files, without blocking or half files (standard library only)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from typing import Final

from libs.sandbox.guest.workers.frame_pipes import write_all

__all__ = [
    "LOCK_SECONDS",
    "InUse",
    "NotRegular",
    "draft",
    "lock",
    "locked",
    "new_file",
    "open_folder",
    "open_regular",
    "refuse_existing",
    "refuse_lost_parents",
    "refuse_unwritable",
    "write_all",
]

LOCK_SECONDS: Final = 20.0
"""Longest wait for other changes of the same file. A request has 30 s."""
_POLL: Final = 0.005
_NO_LOCKS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
"""Errors of file systems without flock(2), or with one for files that are open for writing only, as NFS."""


class InUse(OSError):
    """Another program uses the file. The message says how, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EBUSY, message)


class NotRegular(ValueError):
    """The path names a FIFO, a socket or a device, whose reading could block for ever."""


def _refuse_irregular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
    if not stat.S_ISREG(mode):
        raise NotRegular("not a regular file")


def refuse_existing(path: str) -> None:
    """Raise an error that says what has the name: FileExistsError for a regular file.

    Raises:
        OSError: something has the name.
        NotRegular: it is a FIFO, a socket or a device.
    """
    if not os.path.lexists(path):
        return
    if not os.path.exists(path):
        raise OSError(errno.ELOOP, "a link with this name leads to no file that can be reached", path)
    _refuse_irregular(os.stat(path).st_mode, path)
    raise FileExistsError(errno.EEXIST, "File exists", path)


def refuse_lost_parents(path: str) -> None:
    """Raise the kernel's error for a path through, or to the inside of, what is no folder.

    `os.path.realpath` takes such a path for another one: `missing/../file` for `file`, and so `file/`.
    """
    parts = path.split("/")
    if ".." in parts:
        os.stat("/".join(parts[: len(parts) - parts[::-1].index("..")]))
    if parts[-1] in ("", "."):
        os.stat(path)


def refuse_unwritable(path: str) -> None:
    """Raise an error if a file cannot be written. A folder that can be written would let it be replaced."""
    if not os.access(path, os.W_OK):
        number = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(number, os.strerror(number), path)


@contextlib.contextmanager
def open_regular(path: str) -> Iterator[int]:
    """Open a regular file for reading.

    Raises:
        IsADirectoryError, NotRegular: the path is not a regular file.
        OSError: the file cannot be opened.
    """
    # Without O_NONBLOCK, open() of a FIFO without a writer would block.
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise NotRegular("not a regular file") from None
        raise
    try:
        _refuse_irregular(os.fstat(file).st_mode, path)
        yield file
    finally:
        os.close(file)


def lock(file: int) -> bool:
    """Take an exclusive flock(2), if the file system has locks. Return False if another program holds one."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextlib.contextmanager
def locked(path: str, end: float) -> Iterator[int]:
    """Open a regular file for reading, with an exclusive flock(2), while the path names it.

    Args:
        end: time of `time.monotonic` until which to wait for the lock.

    Raises:
        InUse: the time is over.
        OSError, NotRegular: as for `open_regular`.
    """
    while True:
        with open_regular(path) as file:
            while not lock(file):
                if time.monotonic() > end:
                    raise InUse(
                        "a program holds a lock (flock) on the file: end the program, or try again later"
                    )
                time.sleep(_POLL)
            if os.path.samestat(os.fstat(file), os.stat(path)):
                yield file
                return


@contextlib.contextmanager
def open_folder(path: str) -> Iterator[int]:
    """Open the folder of a path, to change what is in it."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def new_file(path: str, *, replace: bool) -> Iterator[int]:
    """Open a new file for writing. At the end of the block the complete file appears as `path`.

    Missing folders are made. A link is followed and its target replaced. A replaced file keeps its mode. An
    edit of the same file ends first, or begins with the new content: see `rewrite.py`.

    A writer that is killed leaves nothing behind if the file system has O_TMPFILE: see open(2). But the
    kernel needs two calls to replace a file by one without a name. A writer that is killed between them
    leaves the complete new file beside the old one, as `.<16 digits>.part`.

    Args:
        replace: whether an existing file may be replaced.

    Raises:
        FileExistsError: the file exists and may not be replaced.
        InUse: another program holds a lock on the file.
        OSError: the file cannot be made.
    """
    refuse_lost_parents(path)
    if replace:
        with contextlib.suppress(FileNotFoundError):
            os.stat(path)  # a link may lead to `file/`
        target = os.path.realpath(path)
    else:
        # Do not follow the last part: a link with that name exists.
        target = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    _make_folders(os.path.dirname(target))
    mode = 0o644
    there = os.path.lexists(target)
    if replace and there:
        with contextlib.suppress(FileNotFoundError):  # another program has deleted the file meanwhile
            found = os.stat(target).st_mode
            _refuse_irregular(found, path)
            mode = stat.S_IMODE(found)
            refuse_unwritable(target)
    with (
        contextlib.ExitStack() as held,
        open_folder(target) as folder,
        draft(folder, os.path.basename(target), mode, replace=replace, there=there, keeps_mode=True) as file,
    ):
        yield file
        if replace:
            # Not before, as the content may take long to arrive. A file that is gone or cannot be read has no
            # edit.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                held.enter_context(locked(target, time.monotonic() + LOCK_SECONDS))
            # Its mode may have changed meanwhile. A link to a missing file is replaced.
            with contextlib.suppress(FileNotFoundError):
                refuse_unwritable(target)


def _make_folders(path: str) -> None:
    """Make a folder and the missing folders above it.

    Not `os.makedirs`, which recurses: folders can be nested deeper than Python's stack.
    """
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):  # else another program has made the folder meanwhile
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", folder) from None


@contextlib.contextmanager
def draft(
    folder: int, name: str, mode: int, *, there: bool, replace: bool = True, keeps_mode: bool = False
) -> Iterator[int]:
    """Open a new file for writing. At the end of the block the complete file appears as `name`.

    See `new_file`. A link with this name is replaced, not followed.

    Args:
        folder: the open folder.
        there: whether the name is taken now.
        keeps_mode: whether a file that is replaced keeps the mode that it has at the end.

    Raises:
        FileExistsError: the name is taken and may not be replaced.
        OSError: the file cannot be made.
    """
    beside = f".{os.urandom(8).hex()}.part"
    try:
        # Without a name, so that the file vanishes if the writer is killed.
        file = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=folder)
        named = False
    except OSError:
        # Not every file system has O_TMPFILE. In a deleted folder, ext4 refuses it as not permitted.
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
        named = True
    try:
        try:
            yield file
            os.fchmod(file, _mode_now(folder, name, mode) if keeps_mode else mode)
            if not named:
                _name(file, folder, name, beside if replace else None, there=there)
        finally:
            os.close(file)
        if named and replace:
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        elif named:
            _publish(folder, beside, name)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise


def _mode_now(folder: int, name: str, otherwise: int) -> int:
    """Return the mode of a file. It may have changed while the new content came."""
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        return stat.S_IMODE(found) if stat.S_ISREG(found) else otherwise
    return otherwise


def _name(file: int, folder: int, name: str, beside: str | None, *, there: bool) -> None:
    """Name an open file without a name. `beside`: a free name, to replace `name`. `there`: it existed."""

    # With follow_symlinks Python calls linkat(2), which follows this link to the open file.
    def link(free: str) -> None:
        os.link(f"/proc/self/fd/{file}", free, dst_dir_fd=folder, follow_symlinks=True)

    if beside is None:
        link(name)
        return
    if not there:
        with contextlib.suppress(FileExistsError):  # another program has made the file meanwhile
            link(name)
            return
    link(beside)
    os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _publish(folder: int, beside: str, name: str) -> None:
    """Give the draft its final name, if that is free."""
    try:
        os.link(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # A file system without hard links, such as some shared folders of virtual machines.
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            raise FileExistsError(errno.EEXIST, "File exists", name) from None
    else:
        os.unlink(beside, dir_fd=folder)
