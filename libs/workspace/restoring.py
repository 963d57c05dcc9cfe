"""Decides which paths a restore changes, and which paths are changed back after a restore that failed."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from libs.workspace.contents import SnapshotsUnavailable
from libs.workspace.manifest import Difference, Manifest, folders_above

__all__ = ["HalfRestored", "difference_at", "to_touch", "to_undo"]


class HalfRestored(SnapshotsUnavailable):
    """A restore failed half-way and could not be undone. A later restore completes it."""


def to_touch(
    now: Manifest, target: Manifest, only: Collection[str] | None, expected: Manifest | None
) -> tuple[list[str], dict[str, str]]:
    """Return the paths to bring from `now` to `target`, and those that are kept, each with the reason.

    A folder can be both: its permissions are brought back, and its content, which is not known, is kept.
    """
    paths: list[str] = []
    kept: dict[str, str] = {}
    foreign: set[str] = set()
    for path in sorted(_differing(now, target)):
        old, new = now.entries.get(path), target.entries.get(path)
        # A FIFO, a socket or a device is in no manifest: it stays, whoever made it.
        if only is not None and path not in only and (old or new):
            if expected is not None and expected.unread(path) and not now.unread(path):
                kept[path] = "its folder could not be read, so nobody knows who has changed it"
                foreign.add(path)
            continue
        # The permissions of a folder are known, even if its content is not.
        folders = old is not None and new is not None and old.kind == new.kind == "dir"
        if expected is not None and _left_unkept(now, target, expected, path):
            paths.append(path)
        elif why := now.unread(path) if folders else now.reason(path):
            kept[path] = f"its present content is not kept: {why}"
        elif why := target.unread(path) if folders else target.reason(path):
            kept[path] = f"its earlier content was not kept: {why}"
        elif expected is not None and expected.entries.get(path) != old and not expected.unread(path):
            kept[path] = "it was changed by somebody else"
            foreign.add(path)
        else:
            paths.append(path)
    differing, opened = set(paths), set[str]()
    for path in sorted(now.skipped.keys() | target.skipped.keys()):
        if not (now.is_folder(path) and target.is_folder(path)) or (only is not None and path not in only):
            continue
        # The content of a folder that one of them could not read may differ. If only the present could not be
        # read, and the permissions differ, the restore changes them first. A folder that can then be read is
        # compared again.
        if path in target.skipped or now.entries[path] == target.entries[path]:
            why = now.skipped.get(path)
            said = "its present content is not kept" if why else "its earlier content was not kept"
            kept.setdefault(path, f"{said}: {why or target.skipped[path]}")
            if why is None and path in differing:
                opened.add(path)
    # A folder stands for all below it. Names from there may be of an earlier reading.
    unread = {path for each in (now, target) for path in each.skipped if each.is_folder(path)}
    if named := (unread & kept.keys()) - foreign:
        kept = {path: why for path, why in kept.items() if named.isdisjoint(folders_above(path))}
    kept |= _prevented(now, target, paths)
    return [path for path in paths if path not in kept or path in opened], kept


def to_undo(now: Manifest, before: Manifest, target: Manifest, paths: Collection[str]) -> list[str]:
    """Return the paths to bring back to `before`, after `paths` were partly brought to `target`.

    What somebody else has changed meanwhile is not among them.
    """
    # A restore makes folders writable for a moment, in which it changes something.
    touched = {*paths, *(path.rpartition("/")[0] for path in paths)}
    return [
        path
        for path in _differing(now, before)
        if path in touched
        # The permissions of a folder are known, even if its content is not.
        and (now.unread(path) if now.is_folder(path) and before.is_folder(path) else now.reason(path)) is None
        and (path not in before.skipped or before.is_folder(path))
        and ((old := now.entries.get(path)) is None or old.kind == "dir" or now.holds_as(target, path))
    ]


def difference_at(now: Manifest, target: Manifest, paths: Collection[str]) -> Difference:
    """Return the difference of two manifests at some paths."""
    whole = now.difference(target)
    wanted = set(paths)
    return Difference(*(tuple(path for path in part if path in wanted) for part in whole.parts))


def _left_unkept(now: Manifest, target: Manifest, expected: Manifest, path: str) -> bool:
    """Return whether a path whose content is not kept is as expected, in the place of content that is kept.

    Then nothing but what is to be undone is lost: a large or unreadable file, a FIFO or a socket.
    """
    why, old = now.skipped.get(path), now.entries.get(path)
    return (
        why is not None
        and (old is None or old.kind == "file")
        and (old, why) == (expected.entries.get(path), expected.skipped.get(path))
        and now.unread(path) is None
        and path in target.entries
        and target.reason(path) is None
    )


def _prevented(now: Manifest, target: Manifest, paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the paths that cannot be touched because others stay as they are, each with the reason."""
    touched = set(paths)
    # What lies in a folder that goes is not in the target: it goes, too, or it stays.
    going = {path for path in paths if now.is_folder(path) and not target.is_folder(path)}
    for path in (now.entries.keys() | now.skipped.keys()) - touched if going else ():
        yield from ((folder, "something in it stays") for folder in folders_above(path) if folder in going)
    for path in touched & target.entries.keys():
        for folder in folders_above(path):
            if folder not in touched and target.is_folder(folder) and not now.is_folder(folder):
                yield path, "its folder is not brought back"


def _differing(now: Manifest, target: Manifest) -> Iterator[str]:
    """Yield all paths at which two manifests differ, skipped ones too."""
    for path, entry in target.entries.items():
        if (old := now.entries.get(path)) is not entry and old != entry:
            yield path
    for path in now.entries:
        if path not in target.entries:
            yield path
    for path in now.skipped.keys() ^ target.skipped.keys():  # such as a FIFO on one side
        if path not in now.entries and path not in target.entries:
            yield path
