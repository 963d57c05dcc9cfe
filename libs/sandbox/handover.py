"""A workspace that belongs to root on the host: what root puts there is the sandbox's user's to change.

The sandbox is never root, and a copied file is root's, its mode that of the source. So what is there is
handed over at the start, and what comes later before the next command: inotify(7) tells what that is
without looking through the folders again.

What a command does there must not cost the host more than a moment. So a look ends in its time; what it has
not reached waits for the next one, and so does a look at everything where the kernel has lost count.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from libs.sandbox.inotify import Inotify, allowed

__all__ = ["Handover"]

logger = logging.getLogger(__name__)

_DEEPEST: Final = 64
"""Folders below the root that are looked into, one in the other."""
_MOST_WATCHED: Final = 16_384
"""Folders that one watches. All together watch half of what the kernel lets a user: others want some too."""
_MOST_AWAKE: Final = 32
"""Those that are awake at once, or a quarter of the inotify instances that the kernel lets a user have."""
_MOST_NAMES: Final = 50_000
"""Names that are kept of what is new. Where there are more, everything is looked at."""
_MOST_WAITING: Final = 100_000
"""Folders that wait to be looked into. Where there are more, a folder is looked into when it is found."""
_MOST_HELD: Final = 8
"""Folders that are open then, one in the other; each holds two descriptors."""
_SECONDS: Final = 2.0
"""Seconds that one look may take: about 300,000 files."""
_awake: WeakValueDictionary[int, Handover] = WeakValueDictionary()

_Parts = tuple[str, ...]
"""A path below the root, part by part."""


class Handover:
    """Gives everything below a root-owned folder to a user, and goes on doing so until it is closed.

    No link is ever followed: the sandbox could have put one there in that moment. The folder itself stays
    root's, so that each start finds it the same. Linux only, and only for root. Thread-safe.
    """

    def __init__(
        self,
        root: Path,
        uid: int,
        *,
        below: _Parts = (),
        but: frozenset[str] = frozenset(),
        besides: Handover | None = None,
    ) -> None:
        """Hand over what is there.

        Args:
            below: what is handed over is the folder at this path below `root`; it becomes the user's itself.
            but: folders in it that are not looked into.
            besides: another one, whose news are this one's too.

        Raises:
            OSError: the folder cannot be opened.
        """
        self._lock = threading.Lock()
        self._closed = True
        self._path = root
        self._below = below
        self._but = but
        self._besides = besides
        self._uid = uid
        self._acl = _default_acl(uid)
        self._root = -1
        self._events: Inotify | None = None
        """None while it rests, or where the kernel gives no more of them: each look is at everything then."""
        self._watched: dict[int, _Parts] = {}
        """Where each watched folder is."""
        self._names: set[_Parts] = set()
        """The same paths."""
        self._most_watched = 0
        self._waiting: deque[tuple[_Parts, bool]] = deque()
        """Folders that are to be looked into, and whether the known ones in them are, too."""
        self._unfinished: Iterator[None] | None = None
        """The look into a folder at which the time was up."""
        self._missed = False
        """Whether all of it is to be looked at once more."""
        self._asked_at = self._looked_at = time.monotonic()
        with self._lock:
            self._wake()
            self._closed = False
            if not below:
                os.chown(self._root, 0, uid)
                os.fchmod(self._root, 0o775)
            elif os.fstat(self._root).st_uid == 0:
                os.chown(self._root, uid, uid)
            self._look(time.monotonic() + _SECONDS)

    def news(self) -> bool:
        """Whether something was made or moved in since the last `catch_up`, or is left. Never blocks."""
        self._asked_at = time.monotonic()
        events = self._events
        return not self._closed and bool(
            self._missed
            or self._waiting
            or self._unfinished
            or events is None
            or events.waiting()
            or (self._besides and self._besides.news())
        )

    def catch_up(self) -> None:
        """Hand over what has come since. One thread at a time; the others find nothing left."""
        asked = time.monotonic()
        if self._besides and self._besides.news():
            self._besides.catch_up()
        with self._lock:
            # Where a look began while this one waited, it was for this one, too.
            if not self._closed and self._looked_at <= asked:
                self._looked_at = time.monotonic()
                try:
                    self._catch_up()
                except OSError as error:
                    logger.warning("what was put into %s is not handed over: %s", self._path, error)

    def close(self) -> None:
        """Stop watching."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._rest()

    def __del__(self) -> None:
        """One of a thread's is closed when its sandbox lets go of it."""
        self.close()

    def moved(self, name: str) -> None:
        """Tell that the folder has another name now."""
        self._below = (*self._below[:-1], name)

    def _wake(self) -> None:
        """Listen to what comes from now on, and have all that is there looked at. Raises OSError."""
        _make_room()
        self._root = _reached(os.open(self._path, os.O_RDONLY | os.O_DIRECTORY), self._below)
        # Half of what is left: however many one takes, there are some for the next.
        free = allowed("max_user_watches", 8_192) // 2 - sum(len(each._watched) for each in _all_awake())
        self._most_watched = min(_MOST_WATCHED, max(1, free // 2))
        _awake[id(self)] = self
        with contextlib.suppress(OSError):  # other programs have them all
            self._events = Inotify()
        self._missed = False
        self._watch(self._root, ())
        self._waiting.append(((), True))

    def _rest(self) -> None:
        """Give back what there is little of. All is looked at once more when it wakes."""
        _awake.pop(id(self), None)
        self._missed = True
        self._unfinished = None
        self._waiting.clear()
        self._watched.clear()
        self._names.clear()
        events, self._events = self._events, None
        if events:
            events.close()
        root, self._root = self._root, -1
        if root >= 0:
            os.close(root)

    def _catch_up(self) -> None:
        """Half of the time is for what is new, half for what is left: neither keeps the other waiting."""
        if self._events is None:
            self._missed = True
        changed = self._changed()
        if not self._go_through(changed, time.monotonic() + _SECONDS / 2):
            self._missed = True
        self._look(time.monotonic() + _SECONDS / 2)

    def _go_through(self, changed: dict[_Parts, set[str]], deadline: float) -> bool:
        """Give what is new to the user; whether there was time for all of it."""
        looks = (self._take(parts, names) for parts, names in changed.items())
        return all(time.monotonic() < deadline for look in looks for _ in look)

    def _changed(self) -> dict[_Parts, set[str]]:
        """Names that are new, by the folder they are in."""
        changed: dict[_Parts, set[str]] = {}
        count = 0
        for watch, name in self._events.events() if self._events else ():
            if watch < 0 or count == _MOST_NAMES:
                self._missed = True
            elif name is None:
                self._names.discard(self._watched.pop(watch, ()))
            elif watch in self._watched:
                changed.setdefault(self._watched[watch], set()).add(name)
                count += 1
        return changed

    def _look(self, deadline: float) -> None:
        """Go on with what waits, until the time is up.

        The nearest come first: a person puts files there. A look at everything comes to its end before
        another begins: what is last would never be reached, else, where a command makes names all the time.
        """
        while time.monotonic() < deadline:
            if self._unfinished is None:
                if not self._waiting:
                    if not self._missed:
                        return
                    self._rest()
                    self._wake()
                parts, again = self._waiting.popleft()
                self._unfinished = self._take(parts, again=again)
            for _ in self._unfinished:
                if time.monotonic() >= deadline:
                    return
            self._unfinished = None

    def _take(
        self, parts: _Parts, names: Iterable[str] | None = None, *, again: bool = False, held: int = 0
    ) -> Iterator[None]:
        """Give what is in a folder to the user, and have new folders in it looked into, `again` all of them.

        It pauses after each name. While it does, folders may be made, moved and removed; a command's are its
        own already.

        Args:
            names: what is looked at; None is everything.
            held: looks that wait for the end of this one.
        """
        with contextlib.suppress(OSError):  # it may be removed meanwhile
            folder = _reached(os.dup(self._root), parts)
            try:
                device = os.fstat(folder).st_dev
                for name in _names(folder) if names is None else names:
                    if self._give(folder, name, parts, device, again=again):
                        if len(self._waiting) < _MOST_WAITING:
                            self._waiting.append(((*parts, name), again))
                        elif held < _MOST_HELD:
                            yield from self._take((*parts, name), again=again, held=held + 1)
                    yield
            finally:
                os.close(folder)

    def _give(self, folder: int, name: str, parts: _Parts, device: int, *, again: bool) -> bool:
        """Give an entry of a folder to the user; whether it is a folder that is to be looked into."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if found.st_dev != device:
                return False  # mounted there: it belongs to somebody else
            if found.st_uid == 0:
                os.chown(name, self._uid, self._uid, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode) or len(parts) >= _DEEPEST or (not parts and name in self._but):
                return False
            inner = _reached(os.dup(folder), (name,))
        except OSError:  # gone, or replaced by a link, in this moment
            return False
        try:
            return self._watch(inner, (*parts, name)) or again
        finally:
            os.close(inner)

    def _watch(self, folder: int, parts: _Parts) -> bool:
        """Watch a folder; whether it was not watched before, under this name."""
        if self._events and len(self._watched) < self._most_watched:
            watch = self._events.watch(folder)
            before = self._watched.get(watch)
            if before == parts:
                return False
            if watch >= 0:
                self._names.discard(before or ())
                self._watched[watch] = parts
                self._names.add(parts)
        elif parts in self._names:
            return False
        # Covers the moment between a file's making and the next command. Not every file system has ACLs.
        with contextlib.suppress(OSError):
            os.setxattr(folder, "system.posix_acl_default", self._acl)
        return True


def _all_awake() -> list[Handover]:
    """Without a lock: one may be closed by whatever lets go of it, in the middle of this."""
    return [each for reference in _awake.valuerefs() if (each := reference())]


def _make_room() -> None:
    """Let another wake: where too many are awake, the one that was not asked for longest rests."""
    most = min(_MOST_AWAKE, max(1, allowed("max_user_instances", 128) // 4))
    awake = sorted(_all_awake(), key=lambda each: each._asked_at)
    for each in awake if len(awake) >= most else ():
        if each._lock.acquire(blocking=False):  # else it looks at this moment, and may want room itself
            try:
                each._rest()
            finally:
                each._lock.release()
            return


def _reached(folder: int, parts: _Parts) -> int:
    """The folder at this path below an open one, which is closed. Follows no link; raises OSError."""
    for part in parts:
        try:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _names(folder: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


def _default_acl(uid: int) -> bytes:
    """`u::rwx u:<uid>:rwx g::r-x m::rwx o::r-x` as Linux keeps it: posix_acl_xattr.h, acl(5)."""
    nobody = 0xFFFFFFFF
    entries = [(0x01, 7, nobody), (0x02, 7, uid), (0x04, 5, nobody), (0x10, 7, nobody), (0x20, 5, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
