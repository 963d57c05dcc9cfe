"""Runners of programs in real containers, for the tests of the one-tool agent."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from libs.exec_tool.alone import fresh_sandboxes
from libs.exec_tool.runner import CodeRunner
from libs.persistence.database import SqliteDatabase
from libs.persistence.thread_store import ThreadStore
from libs.sandbox import SandboxLimits
from libs.sandbox.engine import shared_client
from libs.sandbox.strays import NAME_LABEL

__all__ = ["IMAGE", "SMALL", "containers", "runner"]

IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")

SMALL = SandboxLimits(memory=256 << 20, tmp=16 << 20, pids=64)
"""Limits that are soon reached."""


@contextmanager
def runner(
    folder: Path, *, name: str = "", seconds: float = 60, keep: bool = True, **options: Any
) -> Iterator[CodeRunner]:
    """A runner that keeps the files of threads in a folder.

    Args:
        name: of the sandboxes; a new one where none is given.
        keep: whether files are kept.
        options: of the sandboxes; those of the runner begin with `runner_`.
    """
    ours = {
        key.removeprefix("runner_"): options.pop(key) for key in list(options) if key.startswith("runner_")
    }
    name = name or f"test-exec-{secrets.token_hex(3)}"
    database = SqliteDatabase(folder / "memory.sqlite")
    sandboxes = fresh_sandboxes(image=IMAGE, name=name, home=folder, **{"limits": SandboxLimits(), **options})
    made = CodeRunner(sandboxes, seconds=seconds, files=ThreadStore(database) if keep else None, **ours)
    try:
        yield made
    finally:
        made.close()
        database.close()
        assert containers(name) == []


def containers(name: str) -> list[str]:
    """Ids of the containers that there are of this name, whatever their state."""
    found = shared_client().api.containers(all=True, filters={"label": f"{NAME_LABEL}={name}"})
    return [each["Id"] for each in found]


def eventually(holds: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
