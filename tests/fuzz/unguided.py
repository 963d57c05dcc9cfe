"""One target with input made up by hypothesis: started by `python -m tests.fuzz`, in a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from tests.fuzz import supervisor
from tests.fuzz.targets import TARGETS, frames_from


def fuzz(check: Callable[[bytes], None], seconds: float) -> int:
    """Check until the time is up; how often. Raises what the check raises, for the smallest input found."""
    end = time.monotonic() + seconds
    count = 0

    @settings(max_examples=1_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.binary(max_size=600))
    def some(data: bytes) -> None:
        nonlocal count
        if time.monotonic() < end:
            count += 1
            target(float(len(frames_from(data))))
            check(data)

    while time.monotonic() < end:
        some()
    return count


if __name__ == "__main__":
    name, seconds = sys.argv[1:3]
    if name == "supervisor":
        with TemporaryDirectory() as folder, supervisor.checked(Path(folder)) as check:
            print(f"{fuzz(check, float(seconds))} inputs")
    else:
        print(f"{fuzz(TARGETS[name], float(seconds))} inputs")
