"""Open, make and replace regular files, never blocking, never leaving half a file (standard library only)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

__all__ = ["NotRegular", "new_file", "open_regular", "write_all"]


class NotRegular(ValueError):
    """The path names a FIFO, a socket or a device: reading it could block for ever."""


@contextlib.contextmanager
def open_regular(path: str) -> Iterator[int]:
    """A descriptor for reading a regular file.

    Raises:
        IsADirectoryError, NotRegular: it is none.
        OSError: it cannot be opened.
    """
    # Without O_NONBLOCK the open itself waits where a FIFO has no writer.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if not stat.S_ISREG(mode):
            raise NotRegular("not a regular file")
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def new_file(path: str, *, replace: bool, replaced: list[int] | None = None) -> Iterator[int]:
    """A descriptor for writing; at the end of the block the file appears under `path`, whole or not at all.

    Missing folders are made. A link is followed, its target replaced. The mode of a replaced file stays.
    Whoever is killed while it writes leaves nothing behind, where the file system has O_TMPFILE: see open(2).
    But no call of the kernel replaces a file by one without a name: killed between the two that do, it leaves
    the new one, whole, beside the old one, as `.<16 digits>.part`.

    Args:
        replace: whether a file that is there may be replaced.
        replaced: gets a descriptor of the file that was replaced, for the caller to close. With its last
            one the kernel frees what the file held, and waits for what the disk is still writing of it: a
            millisecond, where it was replaced a moment ago, too.

    Raises:
        FileExistsError: there is one, and it may not be replaced.
        OSError: it cannot be made.
    """
    if replace:
        target = os.path.realpath(path)
    else:
        # The last part is not followed: a link of that name is something that exists.
        target = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path) from None
    mode = 0o644
    there = os.path.lexists(target)
    if replace and there:
        found = os.stat(target).st_mode
        if stat.S_ISDIR(found):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if not stat.S_ISREG(found):
            raise NotRegular("not a regular file")
        mode = stat.S_IMODE(found)
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied", path)
    draft = f"{os.path.dirname(target)}/.{os.urandom(8).hex()}.part"
    try:
        # Without a name, so that it is gone with whoever writes it, however that one ends.
        file = os.open(os.path.dirname(target), os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode)
        named = False
    except OSError:  # not every file system has this
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        named = True
    try:
        try:
            yield file
            os.fchmod(file, mode)
            if replace and replaced is not None:
                with contextlib.suppress(OSError):  # none there, or none that may be read
                    replaced.append(os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            if not named:
                _name(file, target, draft if replace else None, there=there)
        finally:
            os.close(file)
        if named and replace:
            os.replace(draft, target)
        elif named:
            _publish(draft, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def _name(file: int, target: str, draft: str | None, *, there: bool) -> None:
    """Give an open file without a name this one. With a draft's name it may be taken; `there`: it was."""

    # A folder's descriptor makes this linkat(2), which alone follows links; an absolute path does not use it.
    def link(path: str) -> None:
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=file, follow_symlinks=True)

    if draft is None:
        link(target)
        return
    if not there:
        with contextlib.suppress(FileExistsError):  # it has come meanwhile
            link(target)
            return
    link(draft)
    os.replace(draft, target)


def _publish(draft: str, target: str) -> None:
    """Give the draft its name, if that is free."""
    try:
        os.link(draft, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # A file system without hard links, as some shared folders of virtual machines are.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "File exists", target) from None
        os.rename(draft, target)
    else:
        os.unlink(draft)


def write_all(file: int, data: bytes) -> None:
    """Write every byte, however many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
