"""Prepares the workspace, the host folder that is the sandbox's disk, and finds its owner."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "FOLDERS",
    "Folders",
    "folder_at",
    "how_to_mend",
    "in_one_line",
    "is_read_only",
    "mounts_below",
    "owner_of",
    "prepare_workspace",
    "refuse_as_workspace",
    "refuse_unwritable",
    "replaced",
    "thread_folder",
]

FOLDERS = ("data", "scripts", "results")
"""Folders of a workspace. In the sandbox each is also reachable as `/data`, `/scripts`, `/results`."""

_BROKEN_LINE = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
"""Line ends, see `str.splitlines`, and surrogates, which stand for bytes that are not UTF-8."""


def in_one_line(path: str) -> str:
    """Return a path for a line of text.

    A path that holds a line end, or bytes that are not UTF-8, is written out in quotation marks.
    """
    return repr(path) if _BROKEN_LINE.search(path) else path


_SANDBOX_ID = 1000
"""Uid and gid of the sandbox's user in a workspace of root. A sandbox is never root."""

_MOUNTS = Path("/proc/self/mountinfo")
_PLAIN = re.compile(r"[a-z0-9_-]{1,100}")  # no capitals: some file systems ignore case

_SYSTEM = "bin boot dev etc home lib lib64 proc root run sbin sys tmp usr var"


def refuse_as_workspace(root: Path) -> None:
    """Refuse a path that cannot be a folder, and the folders of the system and of the user's home.

    The sandbox may change everything in its workspace.

    Raises:
        ValueError: the path or a parent is a file, the path is too long or leads in a circle, or the folder
            is `/`, a system folder, the home folder or a parent of the home folder.
    """
    try:
        place = root.resolve()
        with suppress(PermissionError):
            place.exists()  # raises an error if the path is too long
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        why = getattr(error, "strerror", None) or "its links lead in a circle"
        raise ValueError(f"cannot be used ({why}): choose another path") from None
    system = {Path("/", name) for name in ("", *_SYSTEM.split())}
    if place in system or Path.home().is_relative_to(place):
        raise ValueError("is not a folder of its own: choose one that holds the agent's files alone")
    with suppress(PermissionError):
        nearest = next(path for path in (place, *place.parents) if path.exists())
        if not nearest.is_dir():
            raise ValueError(f"cannot be used, because {nearest} is not a folder: choose another path")


def refuse_unwritable(root: Path) -> None:
    """Refuse a workspace that this process cannot create or write to.

    Raises:
        ValueError: `root`, or the nearest path above it that exists, cannot be written.
    """
    root = root.absolute()
    place = next(path for path in (root, *root.parents) if os.access(path, os.F_OK))
    if not os.access(place, os.W_OK | os.X_OK):
        hint = f"run `sudo chown $USER {place}`, or choose another path"
        raise ValueError(f"cannot be used, because this user may not write to {place}: {hint}")
    if place != root:
        # Root may write everywhere, but some file systems, such as /proc, take no new files.
        try:
            tempfile.TemporaryFile(dir=place).close()
        except OSError as error:
            raise ValueError(f"cannot be made in {place} ({error.strerror}): choose another path") from error


def prepare_workspace(root: Path) -> tuple[int, int]:
    """Create the missing folders of a workspace.

    Returns:
        Uid and gid of the sandbox's user: the owner of `root`, or 1000 instead of root.

    Raises:
        OSError: a folder cannot be made, or `root` is not a folder.
        ValueError: see `refuse_as_workspace`.
    """
    refuse_as_workspace(root)
    root.mkdir(parents=True, exist_ok=True)
    owner = root.stat()
    for name in FOLDERS:
        # A command may have made a link or a file with this name: leave it alone.
        with suppress(FileExistsError):
            (root / name).mkdir()
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                # Another sandbox in this workspace may have put a link in its place by now.
                os.chown(root / name, owner.st_uid, owner.st_gid, follow_symlinks=False)
    return owner_of(root)


def folder_at(root: Path) -> tuple[int, int] | None:
    """Return device and inode of the folder at a path, or None if there is no folder.

    Raises:
        OSError: this user may not look, or the file system fails.
    """
    try:
        found = root.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders that a sandbox uses, as they are on this machine."""

    places: tuple[tuple[int, int] | None, ...]
    """`folder_at` of each folder, the workspace first."""
    mounts: frozenset[bytes] = frozenset()
    """See `mounts_below`."""
    workspace: bool = True
    """Whether the workspace is a folder of this machine. False: the first of `places` is None."""
    read_only: bool = False
    """Whether the workspace is on a disk that can only be read. A container that starts then cannot write to
    the workspace later either."""


def is_read_only(root: Path) -> bool:
    """Return whether a folder is on a disk that can only be read. False: there is no folder, or no answer."""
    try:
        return bool(os.statvfs(root).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def mounts_below(folders: Iterable[Path]) -> frozenset[bytes]:
    """Return what is mounted below the folders: id, device, root and place of each mount.

    The kernel gives the id of a mount that is gone to the next one, and the device too, unless a container
    still has it. A container that runs does not see later mounts. Systems other than Linux do not tell.
    """
    # The kernel writes these characters as octal numbers: proc(5).
    roots = [
        re.sub(rb"[\\ \t\n]", lambda found: b"\\%03o" % ord(found[0]), os.fsencode(folder)) + b"/"
        for folder in folders
    ]
    try:
        mounts = [line.split(b" ", 5)[:5] for line in _MOUNTS.read_bytes().split(b"\n") if line]
    except FileNotFoundError:
        return frozenset()
    return frozenset(
        b" ".join((number, device, root, place))
        for number, _, device, root, place in mounts
        if place.startswith(tuple(roots))
    )


def replaced(before: Folders | None, now: Folders | None) -> bool:
    """Return whether the workspace is gone, another folder is at a path, other file systems are mounted
    below, or the workspace could only be read and can be written now. The other folders may be gone.

    None: the sandbox uses no folder, or the folders are not known.
    """
    if not before or not now:
        return False
    old, new = before.places, now.places
    gone = now.workspace and new[0] is None
    other = any(there not in (earlier, None) for earlier, there in zip(old, new, strict=True))
    return gone or other or before.mounts != now.mounts or (before.read_only and not now.read_only)


def owner_of(root: Path) -> tuple[int, int]:
    """Return the owner of a folder, or of its nearest existing parent, as uid and gid. 1000 for root."""
    place = next(path for path in (root, *root.parents) if path.exists())
    found = place.stat()
    if found.st_uid == 0:
        return _SANDBOX_ID, _SANDBOX_ID
    return found.st_uid, found.st_gid or found.st_uid


def how_to_mend(root: Path, error: Exception) -> str:
    """Return a hint for a failure of `prepare_workspace` or `give_to_sandbox`."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return f"Its disk is full: see with `df -h {root}`, and free some space there."
    if number in (errno.EMFILE, errno.ENFILE):
        return "Too many files are open: raise the limit of this program with `ulimit -n`."
    return "Make it a folder that you may write to, or choose another (WORKSPACE_DIR; in Python `root_dir`)."


def thread_folder(thread: str) -> str:
    """Return the folder name of a thread: its id if that is a plain name, else `~` and its SHA-256.

    No two threads share a folder name.
    """
    if _PLAIN.fullmatch(thread):
        return thread
    return "~" + hashlib.sha256(thread.encode("utf-8", "surrogatepass")).hexdigest()
