"""Walks the workspace and finds what has changed since an earlier walk (standard library only).

Every folder is opened below its parent, and no link is followed. So a walk never leaves the workspace, even
if a command puts a link in the place of a folder meanwhile.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any, Final

from libs.sandbox.guest.files.mapped_files import mapped_to_write
from libs.sandbox.guest.files.tree_folders import Changing, Folders, read_steady

__all__ = ["Known", "walk"]

_MOST_DEPTH: Final = 500
"""Nested folders that are walked. Each is one open descriptor."""
_FRESH: Final = 1_000_000_000
"""Nanoseconds. A file that was changed so shortly before the walk is read again by the next walk: another
change may get the same time, because a kernel's clock for files ticks only every 1 to 10 ms."""
_FARTHEST: Final = 2**66 - 1
"""Time in nanoseconds that a manifest can hold. A program can set any time, and a tmpfs keeps it."""
_LARGE: Final = 1024 * 1024
"""Bytes from which a file is read after the small ones."""
_MOUNTED: Final = "something else is mounted there"
_LATE: Final = "the time was used up before it was read"
_ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_WALKED: Final = ".output"
_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

Stamp = tuple[int, ...]
"""Mode, and inode of a folder; of anything else: mode, time of change, time of status change, size and inode.
What has not changed has the same stamp, also after a folder above was moved."""
Known = dict[str, tuple[Stamp, "str | None", bool]]
"""Path -> stamp, SHA-256 or link target, and whether an equal stamp means an equal content."""


class _Walk:
    def __init__(self, known: Known, most: int, seconds: float, own_mounts: Collection[str]) -> None:
        self._known = known
        self._most = most
        self._deadline = time.monotonic() + seconds
        self._large: list[tuple[int, str, os.stat_result]] = []
        """Size, path and state of the new and changed files that are read last, the smallest first."""
        self._fresh = time.time_ns() - _FRESH
        root = os.getcwd() + "/"
        self._left_out = {path.removeprefix(root) for path in own_mounts} | {_NOT_WALKED}
        self._mounts = _mounts_below(root) - self._left_out
        """Where something else is mounted: a file system, a folder or a file. A walk does not look at it."""
        self._folders = {"": 0}
        """Folder -> time of its last change."""
        self.found: Known = {}
        self.skipped: dict[str, str] = {}

    def run(self) -> None:
        try:
            root = os.open("/proc/self/cwd", _ROOT)
        except OSError as error:
            self.skipped[""] = _why(error)
            return
        here = os.fstat(root)
        self._folders[""] = here.st_ctime_ns
        open_folders = [(root, "", iter(self._listed(root, "")))]
        try:
            while open_folders:
                above, prefix, names = open_folders[-1]
                name = next(names, None)
                if name is None:
                    os.close(above)
                    open_folders.pop()
                    continue
                path = prefix + name
                if len(open_folders) >= _MOST_DEPTH:
                    self.skipped[path] = f"over {_MOST_DEPTH} folders deep"
                    continue
                try:
                    folder = os.open(name, _FOLDER, dir_fd=above)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self.skipped[path] = _why(error)
                    continue
                if os.fstat(folder).st_dev != here.st_dev:
                    self.skipped[path] = _MOUNTED
                    os.close(folder)
                    continue
                open_folders.append((folder, path + "/", iter(self._listed(folder, path + "/"))))
        finally:
            for folder, _, _ in open_folders:
                os.close(folder)
        self._read_large()

    def _read_large(self) -> None:
        with Folders() as folders:
            for _, path, found in sorted(self._large):
                try:
                    self._file(*folders.parent(path), path, found)
                except FileNotFoundError:
                    continue  # removed meanwhile
                except OSError as error:  # a folder above was closed or replaced meanwhile
                    self._unknown(path, found, _why(error))

    def _listed(self, folder: int, prefix: str) -> list[str]:
        """Record the entries of a folder. Return the names of its folders."""
        folders: list[str] = []
        known, left_out = self._known, self._left_out
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    if path in left_out:
                        continue
                    try:
                        found = entry.stat(follow_symlinks=False)
                        before = known.get(path)
                        # A short way for a file that has not changed, because most files have not.
                        if before and before[1] and before[2] and before[0] == _stamp(found):
                            self.found[path] = before
                        else:
                            self._entry(folder, path, entry.name, found, folders)
                    except FileNotFoundError:
                        continue  # removed meanwhile
        except OSError as error:
            self.skipped[prefix[:-1]] = _why(error)
        return folders

    def _entry(self, folder: int, path: str, name: str, found: os.stat_result, folders: list[str]) -> None:
        mode = found.st_mode
        if path in self._mounts:
            self._mount(path, found)
        elif stat.S_ISDIR(mode):
            folders.append(name)
            self._folders[path] = found.st_ctime_ns
            self.found[path] = ((mode, found.st_ino), None, True)
        elif stat.S_ISREG(mode) and _LARGE < found.st_size <= self._most:
            self._large.append((found.st_size, path, found))
        elif stat.S_ISREG(mode):
            self._file(folder, name, path, found)
        elif stat.S_ISLNK(mode):
            self.found[path] = (_stamp(found), os.readlink(name, dir_fd=folder), True)
        else:
            self.skipped[path] = _KINDS.get(stat.S_IFMT(mode), "no regular file")

    def _mount(self, path: str, found: os.stat_result) -> None:
        """Record a mount point. The permissions of a mounted folder are not those of the folder below."""
        if stat.S_ISDIR(found.st_mode):
            before = self._known.get(path)
            known = before if before and stat.S_ISDIR(before[0][0]) else None
            self._folders[path] = found.st_ctime_ns
            self.found[path] = known or ((found.st_mode, found.st_ino), None, True)
            self.skipped[path] = _MOUNTED
        elif stat.S_ISREG(found.st_mode):
            self._unknown(path, found, _MOUNTED)
        else:
            self.skipped[path] = _MOUNTED

    def _file(self, folder: int, name: str, path: str, found: os.stat_result) -> None:
        """Record a new or changed file."""
        if found.st_size > self._most:
            self._unknown(path, found, self._too_large(), sure=True)
        elif time.monotonic() > self._deadline:
            self._unknown(path, found, _LATE)
        else:
            try:
                # Asked before the file is read: a change by a later mapping sets the times.
                steady = found.st_ino not in self._mapped
                found, digest = read_steady(folder, name)
            except FileNotFoundError:
                raise
            except OSError as error:
                self._unknown(path, found, _why(error))
            except Changing:
                self._unknown(path, found, "it changes while it is read")
            else:
                self.found[path] = (_stamp(found), digest, steady and self._is_old(found))

    @cached_property
    def _mapped(self) -> set[int]:
        return mapped_to_write()

    def _unknown(self, path: str, found: os.stat_result, why: str, *, sure: bool = False) -> None:
        """Record a file without its content. `sure`: a walk finds the same until the file changes."""
        self.skipped[path] = why
        self.found[path] = (_stamp(found), None, sure and self._is_old(found))

    def _is_old(self, found: os.stat_result) -> bool:
        return found.st_ctime_ns < self._fresh

    def changed_at(self, path: str) -> int:
        """Return when a path was changed last, or the folder in which it was."""
        known = self.found.get(path)
        if known and not stat.S_ISDIR(known[0][0]):
            times = [known[0][2]]
        else:
            times = [next(self._folders[at] for at in (path, *_above(path)) if at in self._folders)]
        moved = [above for above in _above(path) if self._is_other(above)] if known else []
        if moved and known and known[0] in self._stamps:
            # It came here with a folder above, whose move has not changed the times below.
            times += [self._folders[above] for above in moved]
        return max(times)

    @cached_property
    def _stamps(self) -> set[Stamp]:
        """The stamps that the earlier walk has found."""
        return {stamp for stamp, _, _ in self._known.values()}

    def _is_other(self, folder: str) -> bool:
        """Return whether the earlier walk has found no such folder, or another one in its place."""
        now, before = self.found.get(folder), self._known.get(folder)
        return now is not None and (before is None or before[0] != now[0])

    def _too_large(self) -> str:
        return f"larger than {self._most:,} bytes"


def walk(
    known: Known, most: int, again: Collection[str], seconds: float, *, own_mounts: Collection[str] = ()
) -> tuple[dict[str, Any], Known, Known]:
    """Walk the workspace.

    Args:
        known: what an earlier walk has found. It is not changed.
        most: bytes of the largest file whose content is read. Others are listed without SHA-256.
        again: paths that are read again, whatever is known of them.
        seconds: time after which no file is read. The rest is listed without SHA-256 and read by later walks.
        own_mounts: paths inside of what the sandbox itself has mounted. Those in the workspace are no part of
            it. Other mount points are `skipped`.

    Returns:
        The changes since the earlier walk, what is known now, and what of that is new. The changes: new and
        changed entries (`rows`, as `libs.workspace.manifest.Row`), `deleted` paths, and `times`: when each of
        these paths, and the workspace itself, was changed, in nanoseconds, by the clock of the files (a
        deleted path: when its folder was changed last; a path that came with a folder: when the folder came).
        Besides, all `skipped` paths with the reason. What lies below a folder that cannot be read counts as
        unchanged.
    """
    unsure = {path: (*known[path][:2], False) for path in again if path in known}
    earlier = known | unsure if unsure else known
    done = _Walk(earlier, most, seconds, own_mounts)
    done.run()
    found, skipped = done.found, done.skipped
    gone = earlier.keys() - found.keys()
    unread = {path for path in skipped if not path or _is_folder(found.get(path))}
    if unread:
        found.update({path: earlier[path] for path in gone if _below(path, unread)})
    new = {path: now for path, now in found.items() if now is not known.get(path)}
    rows = []
    for path, now in new.items():
        before = earlier.get(path)
        if now is not before:
            row = _row(path, now)
            if before is None or not before[2] or row != _row(path, before):
                rows.append(row)
    deleted = sorted(gone - found.keys())
    changes = {
        "rows": rows,
        "deleted": deleted,
        "skipped": skipped,
        "times": {path: done.changed_at(path) for path in ("", *(row[0] for row in rows), *deleted)},
    }
    return changes, found, {path: now for path, now in new.items() if now != known.get(path)}


def _mounts_below(root: str) -> set[str]:
    """Return the mount points below a folder, relative to the folder. `root` ends with a slash."""
    prefix = os.fsencode(root)
    with open("/proc/self/mountinfo", "rb") as lines:
        places = [line.split(b" ", 5)[4] for line in lines]
    # The kernel writes blanks and backslashes as octal numbers: proc(5).
    named = [place.decode("unicode_escape").encode("latin-1") for place in places]
    return {os.fsdecode(place[len(prefix) :]) for place in named if place.startswith(prefix)}


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_mode, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _row(path: str, known: tuple[Stamp, str | None, bool]) -> list[Any]:
    stamp, value, _ = known
    mode = stamp[0]
    if stat.S_ISREG(mode):
        changed = max(-_FARTHEST, min(stamp[1], _FARTHEST))
        return [path, "file", stat.S_IMODE(mode), changed, stamp[3], value]
    return [path, "dir" if stat.S_ISDIR(mode) else "link", stat.S_IMODE(mode), 0, 0, value]


def _is_folder(known: tuple[Stamp, str | None, bool] | None) -> bool:
    return known is not None and stat.S_ISDIR(known[0][0])


def _below(path: str, places: set[str]) -> bool:
    """Return whether a path lies below one of the places. The empty place is the root."""
    return any(above in places for above in _above(path))


def _above(path: str) -> Iterator[str]:
    """Yield the folders that a path lies in, the workspace last."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
