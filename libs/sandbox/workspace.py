"""The folder on the host that is the sandbox's disk, and who it belongs to."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from pathlib import Path

__all__ = [
    "FOLDERS",
    "how_to_mend",
    "is_root",
    "owner_of",
    "prepare_workspace",
    "refuse_as_workspace",
    "thread_folder",
]

FOLDERS = ("data", "scripts", "results")
"""Folders of a workspace. In the sandbox each is also reachable as `/data`, `/scripts`, `/results`."""

_SANDBOX_ID = 1000
"""Uid and gid inside where the workspace belongs to root: a sandbox is never root."""

_PLAIN = re.compile(r"[a-z0-9_-]{1,100}")  # no capitals: there are disks to which they are small letters

_SYSTEM = (
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "var",
)


def refuse_as_workspace(root: Path) -> None:
    """Refuse a folder that holds more than a workspace: what is in one belongs to the sandbox.

    Raises:
        ValueError: it is the root folder, one of the system's, a home folder or what holds it.
    """
    place = root.resolve()
    system = {Path("/", name) for name in ("", *_SYSTEM)}
    if place in system or Path.home().is_relative_to(place):
        raise ValueError("is not a folder of its own: choose one that holds the agent's files alone")


def prepare_workspace(root: Path) -> tuple[int, int]:
    """Make what is missing.

    Returns:
        Uid and gid that the sandbox runs as: the owner of `root`, or 1000 where that is root.

    Raises:
        OSError: a folder cannot be made, or `root` is no folder.
        ValueError: it must not be one; see `refuse_as_workspace`.
    """
    refuse_as_workspace(root)
    root.mkdir(parents=True, exist_ok=True)
    owner = root.stat()
    for name in FOLDERS:
        # What lies there under this name, perhaps a link or a file that a command made, is the agent's.
        if not os.path.lexists(root / name):
            (root / name).mkdir()
            if is_root():
                # By now a sandbox that works here too may have put a link in its place.
                os.chown(root / name, owner.st_uid, owner.st_gid, follow_symlinks=False)
    return owner_of(root)


def owner_of(root: Path) -> tuple[int, int]:
    """Uid and gid of a sandbox for the owner of a folder, or of where it would be made; never root's."""
    place = next(path for path in (root, *root.parents) if path.exists())
    found = place.stat()
    if found.st_uid == 0:
        return _SANDBOX_ID, _SANDBOX_ID
    return found.st_uid, found.st_gid or found.st_uid


def how_to_mend(root: Path, error: Exception) -> str:
    """What to do where `prepare_workspace`, or handing the folder over, has failed."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return f"Its disk is full: see with `df -h {root}`, and free some space there."
    if number in (errno.EMFILE, errno.ENFILE):
        return (
            "Too much is open: raise a limit, `ulimit -n` for this program or "
            "`sudo sysctl fs.inotify.max_user_instances=1024`."
        )
    return "Make it a folder that you may write to, or set WORKSPACE_DIR to another."


def thread_folder(thread: str) -> str:
    """The name of a thread's folder: its id where that can be a name, else `~` and its SHA-256.

    No other thread has it, whatever ids are chosen.
    """
    if _PLAIN.fullmatch(thread):
        return thread
    return "~" + hashlib.sha256(thread.encode("utf-8", "surrogatepass")).hexdigest()


def is_root() -> bool:
    """Whether this process may give files away."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
