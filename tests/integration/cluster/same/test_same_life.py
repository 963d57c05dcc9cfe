"""Sandboxes start, die and are attacked on a node of a cluster as on the host. Their files are restored."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.host import ChannelTree
from tests.integration.life.test_life import TestDeath, TestSabotage, TestStart, backend

__all__ = ["TestDeath", "TestSabotage", "TestStart", "backend"]


KEPT = b"kept\n"
STEP = {
    **{"do": "file", "path": "kept", "old": None, "mode": 0o644, "mtime": 0},
    **{"size": len(KEPT), "sha256": sha256(KEPT).hexdigest()},
}


async def restore(tree: ChannelTree) -> None:
    """Bring the file of earlier commands into a sandbox that starts empty, as a server does."""
    await tree.atree("apply", steps=[STEP], room=len(KEPT), content=KEPT)


@pytest.fixture
def make_backend(
    make_backend: Callable[..., DockerExecutionBackend],
) -> Callable[..., DockerExecutionBackend]:
    def make(**options: Any) -> DockerExecutionBackend:
        made = make_backend(**options)
        made.sandbox.fill = restore
        return made

    return make


@pytest.fixture
def new_sandbox() -> str:
    return (
        "[a new sandbox runs this: the workspace is as after the latest step whose files were kept; files "
        "outside of it and programs in the background are gone]\n"
    )
