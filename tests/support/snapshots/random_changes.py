"""Random changes of a workspace, from commands and from the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as given_by

from libs.workspace import Restored
from tests.support.snapshots.trees import Tree

__all__ = ["COMMANDS", "Change", "apply", "change", "check_restored", "emptied"]

Change = tuple[Callable[..., None], str, str, bytes, int]

PATHS = [
    "a",
    "b",
    "data",
    *(f"{folder}/{name}" for folder in ("a", "b", "data") for name in ("x", "a\nb", "\udcff")),
    "a/x/deep",
]
"""Few paths, so that a history puts files, folders and links in each other's places."""
CONTENTS = [b"", b"one", b"two", b"x" * 20_000]
"""The last content is larger than the largest content that is kept."""
MODES = [0o600, 0o644, 0o755, 0o500, 0o400, 0o700]

path = given_by.sampled_from(PATHS)
content = given_by.sampled_from(CONTENTS)


def write(place: Path, other: Path, content: bytes, mode: int) -> None:
    if not place.is_fifo():  # which would block
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def replace(place: Path, other: Path, content: bytes, mode: int) -> None:
    remove(place, other, content, mode)
    write(place, other, content, mode)


def remove(place: Path, other: Path, content: bytes, mode: int) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def rename(place: Path, other: Path, content: bytes, mode: int) -> None:
    place.rename(other)


def hard_link(place: Path, other: Path, content: bytes, mode: int) -> None:
    os.link(place, other, follow_symlinks=False)


def link(place: Path, other: Path, content: bytes, mode: int) -> None:
    remove(place, other, content, mode)
    place.symlink_to(os.path.relpath(other, place.parent))


def folder(place: Path, other: Path, content: bytes, mode: int) -> None:
    if not place.is_dir():
        remove(place, other, content, mode)
        place.mkdir(parents=True)


def permissions(place: Path, other: Path, content: bytes, mode: int) -> None:
    place.chmod(mode)


def touch(place: Path, other: Path, content: bytes, mode: int) -> None:
    os.utime(place, ns=(0, 10**18 + mode), follow_symlinks=False)


def fifo(place: Path, other: Path, content: bytes, mode: int) -> None:
    os.mkfifo(place)


CHANGES = [write, replace, remove, rename, hard_link, link, folder, permissions, touch, fifo]
change = given_by.tuples(given_by.sampled_from(CHANGES), path, path, content, given_by.sampled_from(MODES))


def apply(root: Path, changes: list[Change]) -> None:
    """Make changes. A change that the present state does not allow is left out."""
    for change, first, second, content, mode in changes:
        try:
            change(root / first, root / second, content, mode)
        except OSError:
            continue


COMMANDS = [
    "rm -rf a; printf one > a",
    "mv b data/x || mv data/x b",
    "rm -rf b; mv data b && mv a data",
    "cp -a a data/ ; chmod 600 data/*",
    "[ -p b/x ] || printf more >> b/x; ln -sfn ../data a/x",
    "rm -rf data; ln -s a data",
    "touch -d @1 a/x b; find . -name x -delete",
]


def emptied(root: Path) -> None:
    """Remove all that a workspace holds."""
    for place in root.iterdir():
        remove(place, place, b"", 0)


def check_restored(found: Tree, wanted: Tree, present: Tree, restored: Restored) -> None:
    """Check that each path holds what is wanted, or is named and holds what it held before the restore."""
    for path in found.keys() | wanted.keys() | present.keys():
        if path in restored.kept:
            assert found.get(path) == present.get(path), (path, restored.kept[path])
        else:
            assert found.get(path) == wanted.get(path), path
    changed = {path for path in found.keys() | present.keys() if found.get(path) != present.get(path)}
    assert changed == set(restored.difference)
