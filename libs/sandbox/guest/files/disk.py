"""Opens, creates and replaces regular files, without blocking or half files (standard library only)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from libs.sandbox.guest.workers.frame_pipes import write_all

__all__ = ["NotRegular", "new_file", "open_regular", "refuse_existing", "write_all"]


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


@contextlib.contextmanager
def new_file(path: str, *, replace: bool) -> Iterator[int]:
    """Open a new file for writing. At the end of the block the complete file appears as `path`.

    Missing folders are made. A link is followed and its target replaced. A replaced file keeps its mode.
    A writer that is killed leaves nothing behind if the file system has O_TMPFILE: see open(2). But the
    kernel needs two calls to replace a file by one without a name. A writer that is killed between them
    leaves the complete new file beside the old one, as `.<16 digits>.part`.

    Args:
        replace: whether an existing file may be replaced.

    Raises:
        FileExistsError: the file exists and may not be replaced.
        OSError: the file cannot be made.
    """
    if replace:
        target = os.path.realpath(path)
    else:
        # Do not follow the last part: a link with that name exists.
        target = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path) from None
    mode = 0o644
    there = os.path.lexists(target)
    if replace and there:
        found = os.stat(target).st_mode
        _refuse_irregular(found, path)
        mode = stat.S_IMODE(found)
        if not os.access(target, os.W_OK):
            number = errno.EROFS if os.statvfs(target).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(number, os.strerror(number), path)
    draft = f"{os.path.dirname(target)}/.{os.urandom(8).hex()}.part"
    try:
        # Without a name, so that the file vanishes if the writer is killed.
        file = os.open(os.path.dirname(target), os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode)
        named = False
    except OSError:  # not every file system has O_TMPFILE
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        named = True
    try:
        try:
            yield file
            os.fchmod(file, mode)
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
    """Name an open file without a name. `draft`: a free name, to replace `target`. `there`: it existed."""

    # A src_dir_fd makes Python call linkat(2), which can follow links. The absolute path ignores it.
    def link(path: str) -> None:
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=file, follow_symlinks=True)

    if draft is None:
        link(target)
        return
    if not there:
        with contextlib.suppress(FileExistsError):  # another program has made the file meanwhile
            link(target)
            return
    link(draft)
    os.replace(draft, target)


def _publish(draft: str, target: str) -> None:
    """Give the draft its final name, if that is free."""
    try:
        os.link(draft, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # A file system without hard links, such as some shared folders of virtual machines.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "File exists", target) from None
        os.rename(draft, target)
    else:
        os.unlink(draft)
