"""The cache of package sets without a sandbox: lookup, refusal and removal."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from libs.exec_tool import Dependencies
from libs.exec_tool import package_sets as module
from libs.exec_tool.package_sets import MOUNT, NotInstalled
from libs.sandbox import Sandbox
from libs.sandbox.protocol import RunResult


def made(cache: Path, *packages: str, basis: str = "", size: int = 1, age: float = 0) -> Path:
    """Create an installed set."""
    folder = cache / Dependencies(cache, None, basis=lambda: basis)._name(packages)
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "x").write_bytes(bytes(size))
    then = time.time() - age
    os.utime(folder, (then, then))
    return folder


async def test_installed_set_is_found(tmp_path: Path) -> None:
    folder = made(tmp_path, "a", "b<2")
    ready = await Dependencies(tmp_path, None).ready(["b<2", "a"], 1)
    assert (ready.path, ready.cache_hit) == (f"{MOUNT}/{folder.name}", True)


@pytest.mark.parametrize("packages", [["a"], ["a", "b<2", "c"], ["of another image"]])
async def test_other_set_is_not_found(tmp_path: Path, packages: list[str]) -> None:
    made(tmp_path, "a", "b<2")
    made(tmp_path, "of another image", basis="other")
    with pytest.raises(NotInstalled, match="EGRESS_PACKAGES is 0") as refused:
        await Dependencies(tmp_path, None).ready(packages, 1)
    assert "EGRESS_PACKAGES=1" in refused.value.hint


async def test_least_recently_used_sets_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    await cache.ready(["b"], 1)
    monkeypatch.setattr(module, "_MOST_ALL", 50)
    cache._prune()
    assert (older.exists(), new.exists()) == (True, True), "a program may be using them"


class Installed:
    """A sandbox whose installation succeeds."""

    async def arun(self, command: str, *, timeout: float) -> RunResult:
        return RunResult("", "", 0, truncated=False, timed_out=False, spill_path=None, seconds=0.1)

    async def aclose(self) -> None: ...


SKIPPED = (
    "WARNING: Skipping page http://pip.gateway/simple/a/ because the GET request got Content-Type: "
    'text/plain; error="http://index answers 500". The only supported Content-Types are text/html\n'
)
UNKNOWN = "ERROR: Could not find a version that satisfies a\nERROR: No matching distribution found for a\n"
NO_ROOM = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    ("output", "said", "hint"),
    [
        (UNKNOWN, "No matching distribution found for a", "Check the name"),
        (SKIPPED + UNKNOWN, "An index failed: http://index answers 500.", "The name may be right"),
        (NO_ROOM, "No space left on device", "The name may be right"),
        ("Killed\n[the kernel killed a process]\n", "the kernel killed a process", "The name may be right"),
    ],
)
async def test_cause_of_a_failed_installation_is_told(
    tmp_path: Path, output: str, said: str, hint: str
) -> None:
    class Failing(Installed):
        async def arun(self, command: str, *, timeout: float) -> RunResult:
            return replace(await super().arun(command, timeout=timeout), output=output, exit_code=1)

    with pytest.raises(NotInstalled, match=re.escape(said)) as refused:
        await Dependencies(tmp_path, lambda _: cast("Sandbox", Failing())).ready(["a"], 30)
    assert refused.value.hint.startswith(hint)


def full(folder: Path) -> Sandbox:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def vanishing(_: Path) -> Sandbox:
    """An installation without a folder to move into the cache."""
    return cast("Sandbox", Installed())


@pytest.mark.parametrize(
    ("cache", "installer", "why"),
    [
        ("file/cache", full, "Not a directory"),
        ("cache", full, "No space left"),
        ("cache", vanishing, "No such"),
    ],
)
async def test_unwritable_cache_is_an_error_with_a_hint(
    tmp_path: Path, cache: str, installer: Callable[[Path], Sandbox], why: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotInstalled, match=f"a: cannot be kept: {why}") as refused:
        await Dependencies(tmp_path / cache, installer).ready(["a"], 30)
    assert str(tmp_path / cache) in refused.value.hint


async def test_set_is_found_on_a_read_only_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    made(tmp_path, "a")
    monkeypatch.setattr(os, "utime", refused)
    assert (await Dependencies(tmp_path, None).ready(["a"], 1)).cache_hit
