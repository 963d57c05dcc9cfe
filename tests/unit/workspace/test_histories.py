"""Random histories: after a restore, the workspace is as it was at the capture, but for what is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as given_by

from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Restored, WorkspaceStore
from tests.support.snapshots.trees import Tree, tree

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


def apply(root: Path, changes: list[tuple[Callable[..., None], str, str, bytes, int]]) -> None:
    """Make changes. A change that the present state does not allow is left out."""
    for change, first, second, content, mode in changes:
        try:
            change(root / first, root / second, content, mode)
        except OSError:
            continue


COMMANDS = [
    "rm -rf a; printf one > a",
    "mv b data/x || mv data/x b",
    "cp -a a data/ ; chmod 600 data/*",
    "[ -p b/x ] || printf more >> b/x; ln -sfn ../data a/x",
    "rm -rf data; ln -s a data",
    "touch -d @1 a/x b; find . -name x -delete",
]
step = given_by.one_of(given_by.lists(change, max_size=6), given_by.sampled_from(COMMANDS))
history = given_by.lists(step, min_size=1, max_size=4)


def test_restore_brings_back_any_state_of_a_random_history(
    sandbox: LocalSandbox, store: WorkspaceStore
) -> None:
    """Changes come from commands and from the host; captures and restores from two threads in one folder."""
    with LocalSandbox(sandbox.root) as other:

        @settings(max_examples=80)
        @given(history, given_by.randoms())
        def check(steps: list[Any], random: Any) -> None:
            for place in sandbox.root.iterdir():
                remove(place, place, b"", 0)
            states: list[tuple[str, Tree]] = []
            for step in steps:
                make(sandbox, step)
                captured = store.capture(random.choice((sandbox, other)))
                states.append((captured.id, tree(sandbox.root)))
            present = states[-1]
            to, wanted = random.choice(states)
            restored = store.restore(random.choice((sandbox, other)), to)
            compare(tree(sandbox.root), wanted, present[1], restored)
            store.restore(sandbox, present[0])

        check()


def test_restore_keeps_what_a_person_has_changed_since(sandbox: LocalSandbox, store: WorkspaceStore) -> None:
    @settings(max_examples=60)
    @given(step, step, given_by.lists(change, max_size=3))
    def check(first: Any, of_agent: Any, of_person: Any) -> None:
        for place in sandbox.root.iterdir():
            remove(place, place, b"", 0)
        make(sandbox, first)
        to, wanted = store.capture(sandbox).id, tree(sandbox.root)
        make(sandbox, of_agent)
        expect, left = store.capture(sandbox).id, tree(sandbox.root)
        make(sandbox, of_person)
        present = tree(sandbox.root)
        restored = store.restore(sandbox, to, expect=expect)
        found = tree(sandbox.root)
        compare(found, wanted, present, restored)
        for path in present.keys() | left.keys():
            if present.get(path) != left.get(path) and present.get(path) != wanted.get(path):
                assert found.get(path) == present.get(path)
                assert path in restored.kept

    check()


def make(sandbox: LocalSandbox, step: Any) -> None:
    if isinstance(step, str):
        sandbox.run(step)
    else:
        apply(sandbox.root, step)


def compare(found: Tree, wanted: Tree, present: Tree, restored: Restored) -> None:
    """Check that each path holds what is wanted, or is named and holds what it held before the restore."""
    for path in found.keys() | wanted.keys() | present.keys():
        if path in restored.kept:
            assert found.get(path) == present.get(path), (path, restored.kept[path])
        else:
            assert found.get(path) == wanted.get(path), path
    changed = {path for path in found.keys() | present.keys() if found.get(path) != present.get(path)}
    assert changed == set(restored.difference)
