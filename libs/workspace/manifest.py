"""The workspace as a value: what every path holds, and the difference of two such values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from json.encoder import encode_basestring
from typing import Any, Final, Literal

from libs.sandbox import FOLDERS

__all__ = ["Change", "Difference", "Entry", "Manifest", "Row", "folders_above", "inside", "is_path", "shown"]

Row = list[Any]
"""An entry as JSON: path inside, kind, mode, mtime_ns, size, SHA-256 or link target."""

_HOME: Final = "/workspace"
_MOST_NUMBER: Final = 2**66
"""Size in bytes, or a time in nanoseconds. File systems have times far after 2262, which is 2**63."""
_DIGEST: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one path holds."""

    kind: Literal["file", "dir", "link"]
    mode: int
    """Permission bits. 0o777 for a link."""
    mtime_ns: int
    """Time of the last change of a file, in nanoseconds. 0 for a folder and a link."""
    size: int
    """Bytes of a file. 0 for a folder and a link."""
    sha256: str | None
    """Of a file's content. None for a folder and a link, and for a file whose content is not kept."""
    target: str | None
    """Of a link."""

    @classmethod
    def of(cls, row: Row) -> tuple[str, Entry]:
        """Return path inside and entry of a row.

        Raises:
            ValueError: the row is not valid. The sandbox that sent the row may be hostile.
        """
        try:
            path, kind, mode, mtime, size, value = row
            good = (
                is_path(path)
                and all(type(number) is int for number in (mode, mtime, size))
                and 0 <= mode <= 0o7777
                and abs(mtime) < _MOST_NUMBER
                and 0 <= size < _MOST_NUMBER
                and _VALUES[kind](value)
            )
        except (KeyError, TypeError, ValueError):
            good = False
        if not good:
            raise ValueError(f"not an entry of a workspace: {row!a:.200}")
        digest, target = (value, None) if kind == "file" else (None, value)
        return path, cls(kind, mode, mtime, size, digest, target)

    def row(self, path: str) -> Row:
        value = self.sha256 if self.kind == "file" else self.target
        return [path, self.kind, self.mode, self.mtime_ns, self.size, value]

    def text(self, path: str) -> str:
        """Return the row as JSON, faster than the JSON encoder does."""
        value = self.sha256 if self.kind == "file" else self.target
        last = "null" if value is None else encode_basestring(value)
        return f'[{encode_basestring(path)},"{self.kind}",{self.mode},{self.mtime_ns},{self.size},{last}]'


@dataclass(frozen=True, slots=True)
class Difference:
    """The paths that differ between two manifests, sorted, as shown to people."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        return self.created, self.changed, self.deleted

    def and_then(self, later: Difference) -> Difference:
        """Return the paths of both differences."""
        return Difference(
            *(tuple(sorted({*old, *new})) for old, new in zip(self.parts, later.parts, strict=True))
        )

    def __bool__(self) -> bool:
        return any(self.parts)

    def __iter__(self) -> Iterator[str]:
        return chain(*self.parts)


@dataclass(frozen=True, slots=True)
class Change:
    """What differs from an earlier manifest, as stored."""

    rows: list[Row]
    """New and changed entries."""
    deleted: list[str]
    """Paths inside."""
    skipped: dict[str, str]
    """All paths that are not kept, each with the reason."""

    def encode(self) -> bytes:
        return _json([self.rows, self.deleted, self.skipped])

    @classmethod
    def decode(cls, data: bytes) -> Change:
        return cls(*json.loads(data.decode("utf-8", "surrogatepass")))


class Manifest:
    """Every file, folder and link of a workspace at one moment.

    Paths are as shown to people: `/data/x`, `/scripts/x`, `/results/x`, and `/workspace/x` for the rest.
    Bytes that are not UTF-8 are surrogates, as with `os.fsdecode`.
    """

    def __init__(self, entries: Mapping[str, Entry], skipped: Mapping[str, str] = {}) -> None:
        self.entries = entries
        self.skipped = skipped
        """What is not kept, each with the reason. A folder that cannot be read stands for all below it."""

    @cached_property
    def id(self) -> str:
        """SHA-256 over the entries and over what is skipped."""
        rows = ",".join([self._texts[path] for path in sorted(self._texts)]).encode("utf-8", "surrogatepass")
        return hashlib.sha256(b"[[%b],%b]" % (rows, _json(sorted(self.skipped.items())))).hexdigest()

    @cached_property
    def _texts(self) -> dict[str, str]:
        """Path -> text of the entry."""
        return {path: entry.text(path) for path, entry in self.entries.items()}

    @cached_property
    def digests(self) -> frozenset[str]:
        """SHA-256 of every content."""
        return frozenset(entry.sha256 for entry in self.entries.values() if entry.sha256)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries.values())

    def with_change(self, change: Change) -> Manifest:
        """Return the manifest after a change.

        Raises:
            ValueError: a row of the change is not valid.
        """
        skipped = {shown(path): why for path, why in change.skipped.items()}
        rows = ((shown(path), entry) for path, entry in map(Entry.of, change.rows))
        # A walk reads a file again that was changed shortly before the walk before.
        changed = {path: entry for path, entry in rows if self.entries.get(path) != entry}
        if not changed and not change.deleted and skipped == self.skipped:
            return self
        gone = [shown(path) for path in change.deleted]
        after = Manifest(_replaced(self.entries, gone, changed), skipped)
        if "_texts" in self.__dict__:  # most texts stay
            texts = {path: entry.text(path) for path, entry in changed.items()}
            after._texts = _replaced(self._texts, gone, texts)
        return after

    def without_contents(self, paths: Collection[str], why: str) -> Manifest:
        """Return the manifest with some files listed by size and time only."""
        entries = {path: replace(self.entries[path], sha256=None) for path in paths}
        return Manifest({**self.entries, **entries}, {**self.skipped, **dict.fromkeys(paths, why)})

    def holds_as(self, other: Manifest, path: str) -> bool:
        """Return whether a path holds the same in another manifest, whatever its permissions and time."""
        here, there = self.entries.get(path), other.entries.get(path)
        if here is None or there is None:
            return here is there
        return (here.kind, here.sha256, here.target) == (there.kind, there.sha256, there.target)

    def reason(self, path: str) -> str | None:
        """Return why a path is not kept; None if it is kept."""
        return self.skipped.get(path) or self.unread(path)

    def unread(self, path: str) -> str | None:
        """Return why a folder above a path could not be read; None if all were read."""
        if self.skipped:
            for place in folders_above(path):
                if (why := self.skipped.get(place)) and (place == _HOME or self.is_folder(place)):
                    return why
        return None

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder."""
        entry = self.entries.get(path)
        return entry is not None and entry.kind == "dir"

    def change_to(self, later: Manifest) -> Change:
        """Return the change that leads from this manifest to a later one."""
        rows = [
            entry.row(inside(path))
            for path, entry in later.entries.items()
            # Unchanged entries are mostly the same object.
            if (old := self.entries.get(path)) is not entry and old != entry
        ]
        deleted = [inside(path) for path in self.entries if path not in later.entries]
        return Change(rows, deleted, {inside(path): why for path, why in later.skipped.items()})

    def difference(self, later: Manifest) -> Difference:
        """Return what was created, changed and deleted until `later`.

        What lies below a folder that could not be read counts as unchanged. A file in whose place a FIFO, a
        socket or a device is now counts as deleted.
        """
        before, after = self.entries, later.entries
        return Difference(
            tuple(sorted(path for path in after if path not in before and not self.unread(path))),
            tuple(
                sorted(
                    path
                    for path, entry in after.items()
                    if (old := before.get(path, entry)) is not entry and old != entry
                )
            ),
            tuple(sorted(path for path in before if path not in after and not later.unread(path))),
        )


def shown(path: str) -> str:
    """Return a path inside the workspace as people see it. The empty path is the workspace."""
    if not path:
        return _HOME
    return f"/{path}" if path.split("/", 1)[0] in FOLDERS else f"{_HOME}/{path}"


def inside(path: str) -> str:
    """Return the path inside the workspace of a path that people see. The workspace itself is empty.

    Raises:
        ValueError: the path is not in the workspace.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") and parts and ".." not in parts:
        if parts[0] in FOLDERS:
            return "/".join(parts)
        if parts[0] == _HOME[1:]:
            return "/".join(parts[1:])
    raise ValueError(
        f"{path!r} is not in the workspace: paths begin with "
        + ", ".join(f"/{folder}" for folder in (*FOLDERS, _HOME[1:]))
    )


def is_path(path: Any) -> bool:
    """Return whether a value of the sandbox is the path of something inside the workspace."""
    return _is_text(path) and not any(part in ("", ".", "..") for part in path.split("/"))


def folders_above(path: str) -> Iterator[str]:
    """Yield all folders that a shown path lies in, the workspace last."""
    while (path := path.rpartition("/")[0]) not in ("", _HOME):
        yield path
    yield _HOME


def _is_text(value: Any) -> bool:
    """Return whether a value can be a name of the file system, or a link's target."""
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


_VALUES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "file": lambda value: value is None or _DIGEST.fullmatch(value) is not None,
    "dir": lambda value: value is None,
    "link": _is_text,
}
"""Kind of an entry -> whether a value is valid as its last column."""


def _json(value: Iterable[Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _replaced(old: Mapping[str, Any], gone: Iterable[str], new: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(old)
    for path in gone:
        values.pop(path, None)
    return {**values, **new}
