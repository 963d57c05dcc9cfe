"""A thread of one owner, and its workspace on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.files.calls import new_thread
from tests.servers.served import Served


@pytest.fixture(scope="module")
def thread(alice: httpx.Client) -> str:
    """A thread of alice with a started sandbox."""
    thread = new_thread(alice)
    alice.get(f"/files/{thread}/list").raise_for_status()
    return thread


@pytest.fixture(scope="module")
def workspace(server: Served, thread: str) -> Path:
    """The thread's workspace on the host, in which tests put files of an agent."""
    return server.folder / "workspace" / "threads" / thread


@pytest.fixture
def get(alice: httpx.Client, thread: str) -> Any:
    """Return a function that calls a file route of the thread: `get("content", path="…", view="text")`."""

    def get(part: str, **query: Any) -> httpx.Response:
        return alice.get(f"/files/{thread}/{part}", params=query)

    return get
