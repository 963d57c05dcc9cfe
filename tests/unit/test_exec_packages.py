"""The cache of packages, without a sandbox: what is found, what is refused, what is removed (X5)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from libs.exec_tool import Dependencies
from libs.exec_tool import dependencies as module
from libs.exec_tool.dependencies import MOUNT, NotInstalled


def made(cache: Path, *packages: str, basis: str = "", size: int = 1, age: float = 0) -> Path:
    """A set as it is after its installation."""
    folder = cache / Dependencies(cache, None, basis=basis)._name(packages)
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "x").write_bytes(bytes(size))
    then = time.time() - age
    os.utime(folder, (then, then))
    return folder


def test_a_set_that_is_there_is_found_whatever_may_be_installed(tmp_path: Path) -> None:
    folder = made(tmp_path, "a", "b<2")
    ready = Dependencies(tmp_path, None).ready(["b<2", "a"], 1)
    assert (ready.path, ready.cache_hit) == (f"{MOUNT}/{folder.name}", True)


@pytest.mark.parametrize("packages", [["a"], ["a", "b"], ["a", "b<2", "c"]])
def test_another_set_is_not(tmp_path: Path, packages: list[str]) -> None:
    made(tmp_path, "a", "b<2")
    with pytest.raises(NotInstalled, match="EGRESS_PACKAGES is 0") as refused:
        Dependencies(tmp_path, None).ready(packages, 1)
    assert "EGRESS_PACKAGES=1" in refused.value.hint


def test_nor_is_that_of_another_image(tmp_path: Path) -> None:
    made(tmp_path, "a", basis="one")
    with pytest.raises(NotInstalled):
        Dependencies(tmp_path, None, basis="other").ready(["a"], 1)


def test_those_used_longest_ago_go_where_all_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_ALL", 250)
    oldest = made(tmp_path, "a", size=100, age=9_000)
    older = made(tmp_path, "b", size=100, age=8_000)
    new = made(tmp_path, "c", size=100)
    left = tmp_path / ".staging-dead"
    left.mkdir()
    os.utime(left, (0, 0))
    cache = Dependencies(tmp_path, None)
    cache._prune()
    assert [folder.exists() for folder in (oldest, older, new, left)] == [False, True, True, False]
    cache.ready(["b"], 1)
    monkeypatch.setattr(module, "_MOST_ALL", 50)
    cache._prune()
    assert (older.exists(), new.exists()) == (True, True), "a program may be using them"
