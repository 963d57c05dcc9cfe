"""The folder on the host that is the sandbox's disk: who owns it, and that both sides may change it."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

__all__ = ["FOLDERS", "prepare_workspace"]

FOLDERS = ("data", "scripts", "results")
"""Folders of a workspace. In the sandbox each is also reachable as `/data`, `/scripts`, `/results`."""

_SANDBOX_ID = 1000
"""Uid and gid inside where the workspace belongs to root: a sandbox is never root."""


def prepare_workspace(root: Path) -> tuple[int, int]:
    """Make what is missing, and see to it that the sandbox's user may change what is there.

    Returns:
        Uid and gid that the sandbox runs as: the owner of `root`, or 1000 where that is root.

    Raises:
        OSError: a folder cannot be made, or `root` is no folder.
    """
    root.mkdir(parents=True, exist_ok=True)
    owner = root.stat()
    privileged = hasattr(os, "geteuid") and os.geteuid() == 0
    for name in FOLDERS:
        if not (root / name).is_dir():
            (root / name).mkdir()
            if privileged:
                os.chown(root / name, owner.st_uid, owner.st_gid)
    if owner.st_uid != 0:
        return owner.st_uid, owner.st_gid or owner.st_uid
    if privileged:
        _hand_over(root, _SANDBOX_ID)
    return _SANDBOX_ID, _SANDBOX_ID


def _hand_over(root: Path, uid: int) -> None:
    """Give everything below a root-owned workspace to the sandbox's user, never following a link.

    What root puts there later is writable inside through a default ACL of the folders: the folder itself
    stays root's, so that each start finds it the same.
    """
    acl = _default_acl(uid)
    for _, folders, files, descriptor in os.fwalk(root, follow_symlinks=False):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                if os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_uid == 0:
                    os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)
        # A file system without ACLs: files of root are then read-only inside until the next start.
        with contextlib.suppress(OSError):
            os.setxattr(descriptor, "system.posix_acl_default", acl)
    os.chown(root, 0, uid)
    root.chmod(0o775)


def _default_acl(uid: int) -> bytes:
    """`u::rwx u:<uid>:rwx g::r-x m::rwx o::r-x` as Linux keeps it: posix_acl_xattr.h, acl(5)."""
    nobody = 0xFFFFFFFF
    entries = [(0x01, 7, nobody), (0x02, 7, uid), (0x04, 5, nobody), (0x10, 7, nobody), (0x20, 5, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
