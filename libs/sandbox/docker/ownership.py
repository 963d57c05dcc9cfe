"""Gives files of root in a workspace to the sandbox's user, when the sandbox starts.

The sandbox is never root, but a file that root copies into a workspace belongs to root. So each start changes
the owner of such files. Folders also get a default access list, so the sandbox can read files that root makes
later, and change them if their mode allows that. See acl(5).
"""

from __future__ import annotations

import logging
import os
import stat
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["give_to_sandbox"]

logger = logging.getLogger(__name__)

_SECONDS: Final = 5.0
"""Seconds for this work in one start. The next start continues."""
_DEEPEST: Final = 64
"""Depth of folders that are visited. A command can nest folders without limit."""

_Parts = tuple[str, ...]


def give_to_sandbox(workspace: Path, uid: int, below: _Parts = ()) -> None:
    """Give root's files in a workspace of root to a user. Does nothing for other users or without Linux.

    In a workspace of another user, only the folder `below` is given, if root owns it.

    A running sandbox may rename files meanwhile. So no link is followed, and each entry is opened before it
    is checked. Mounts, devices and hard-linked files, which may have a name outside, stay root's.

    Args:
        below: path of the folder to give. Without it, everything in the workspace is given, but not the
            workspace folder itself. So the next start finds a workspace of root again.

    Raises:
        OSError: the folder cannot be opened, or a link is in its place.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    of_root = workspace.stat().st_uid == 0
    if not of_root and not below:
        return
    top = _open_below(os.open(workspace, os.O_RDONLY | os.O_DIRECTORY), below)
    try:
        if not below:
            os.chown(top, 0, uid)
            os.fchmod(top, 0o775)
        elif os.fstat(top).st_uid == 0:
            os.chown(top, uid, uid)
        elif not of_root:
            return
        if not _give_tree(top, uid):
            logger.warning("%s holds too many files to give all of them to the sandbox now", workspace)
    finally:
        os.close(top)


def _give_tree(top: int, uid: int) -> bool:
    """Give all entries below an open folder, the nearest first. Return False if the time ran out."""
    deadline = time.monotonic() + _SECONDS
    mount, access = _mount(top), _default_acl(uid)
    waiting: deque[_Parts] = deque([()])
    while waiting:
        parts = waiting.popleft()
        with suppress(OSError):  # removed or replaced meanwhile
            folder = _open_below(os.dup(top), parts)
            try:
                if _mount(folder) != mount:
                    continue
                with suppress(OSError):  # not every file system has access lists
                    os.setxattr(folder, "system.posix_acl_default", access)
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if time.monotonic() > deadline:
                            return False
                        _give(entry, folder, mount, uid)
                        if entry.is_dir(follow_symlinks=False) and len(parts) < _DEEPEST:
                            waiting.append((*parts, entry.name))
            finally:
                os.close(folder)
    return True


def _give(entry: os.DirEntry[str], folder: int, mount: bytes, uid: int) -> None:
    """Give one entry of a folder to the user. The kernel clears its set-uid bit: see chown(2)."""
    with suppress(OSError):
        if entry.stat(follow_symlinks=False).st_uid != 0:
            return
        opened = os.open(entry.name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
        try:
            found = os.fstat(opened)
            device = stat.S_ISBLK(found.st_mode) or stat.S_ISCHR(found.st_mode)
            one_name = found.st_nlink == 1 or stat.S_ISDIR(found.st_mode)
            if found.st_uid == 0 and one_name and not device and _mount(opened) == mount:
                os.chown(f"/proc/self/fd/{opened}", uid, uid)
        finally:
            os.close(opened)


def _mount(opened: int) -> bytes:
    """Return the mount id of a descriptor. (A bind mount has the device number of its source.)"""
    fields = os.open(f"/proc/self/fdinfo/{opened}", os.O_RDONLY)
    try:
        return os.read(fields, 200).partition(b"mnt_id:")[2].split()[0]
    finally:
        os.close(fields)


def _open_below(folder: int, parts: _Parts) -> int:
    """Open the folder at a path below `folder`, and close `folder`. Follows no link; raises OSError."""
    for part in parts:
        try:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _default_acl(uid: int) -> bytes:
    """Encode `u::rwx u:<uid>:rwx g::r-x m::rwx o::r-x` for Linux: posix_acl_xattr.h, acl(5)."""
    nobody = 0xFFFFFFFF
    entries = [(0x01, 7, nobody), (0x02, 7, uid), (0x04, 5, nobody), (0x10, 7, nobody), (0x20, 5, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
