"""Waiting for what comes about by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["eventually"]


def eventually(holds: Callable[[], object], seconds: float = 30) -> None:
    """Wait until it holds; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.02)
