"""Which sandbox is whose, without one that runs: nothing here needs Docker."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

from libs.sandbox.container import DockerSandbox
from libs.sandbox.pool import SandboxPool


def make(root: Path, thread: str | None, **more: Any) -> DockerSandbox:
    return DockerSandbox(root, image="none", name=f"pool-{thread}", **more)


def test_a_thread_has_one_however_many_others_come(tmp_path: Path) -> None:
    pool = SandboxPool(tmp_path, make, warm=0)
    held = pool.sandbox_for("held")
    for number in range(3_000):
        pool.sandbox_for(f"t{number}")
    assert pool.sandbox_for("held") is held
    assert pool.sandbox_for("t2999") is pool.sandbox_for("t2999")


def test_those_that_rest_are_not_kept_without_end(tmp_path: Path) -> None:
    """A program may see any number of threads in its life."""
    pool = SandboxPool(tmp_path, make, warm=0)
    made = [weakref.ref(pool.sandbox_for(f"t{number}")) for number in range(3_000)]
    gc.collect()
    assert sum(sandbox() is not None for sandbox in made) <= 1_000
    assert made[-1]() is not None
