"""The cache of packages, without a sandbox: what is found, what is refused, what is removed (X5)."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest

from libs.exec_tool import Dependencies
from libs.exec_tool import dependencies as module
from libs.exec_tool.dependencies import MOUNT, NotInstalled
from libs.sandbox import Sandbox
from libs.sandbox.protocol import RunResult


def made(cache: Path, *packages: str, basis: str = "", size: int = 1, age: float = 0) -> Path:
    """A set as it is after its installation."""
    folder = cache / Dependencies(cache, None, basis=lambda: basis)._name(packages)
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
        Dependencies(tmp_path, None, basis=lambda: "other").ready(["a"], 1)


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


class Installed:
    """An installation that ended well."""

    def run(self, command: str, *, timeout: float) -> RunResult:
        return RunResult("", "", 0, truncated=False, timed_out=False, spill_path=None, seconds=0.1)

    def close(self) -> None: ...


def full(folder: Path) -> Sandbox:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def vanishing(_: Path) -> Sandbox:
    """What it has installed cannot be put where sets are."""
    return cast("Sandbox", nullcontext(Installed()))


@pytest.mark.parametrize(
    ("cache", "installer", "why"),
    [
        ("file/cache", full, "Not a directory"),
        ("cache", full, "No space left"),
        ("cache", vanishing, "No such"),
    ],
)
def test_a_cache_that_cannot_be_written_to_is_told(
    tmp_path: Path, cache: str, installer: Callable[[Path], Sandbox], why: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotInstalled, match=f"a: cannot be kept: {why}") as refused:
        Dependencies(tmp_path / cache, installer).ready(["a"], 30)
    assert str(tmp_path / cache) in refused.value.hint


def test_a_set_is_found_where_its_last_use_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    made(tmp_path, "a")
    monkeypatch.setattr(os, "utime", refused)
    assert Dependencies(tmp_path, None).ready(["a"], 1).cache_hit
