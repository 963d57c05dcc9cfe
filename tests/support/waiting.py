"""Wait for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["eventually"]


def eventually(holds: Callable[[], object], seconds: float = 30) -> None:
    """Wait until `holds` returns true. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)
