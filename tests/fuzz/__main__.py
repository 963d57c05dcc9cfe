"""Fuzz the protocol: `python -m tests.fuzz [decoder|channel|messages|supervisor …] [--seconds N]`.

Hypothesis makes the input. `supervisor` sends it to a real supervisor, which runs as a process without a
container.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from tests.fuzz import fuzz_supervisor as supervisor
from tests.fuzz.targets import TARGETS, frames_from


def fuzz(check: Callable[[bytes], None], seconds: float) -> int:
    """Check for some seconds; return the number of inputs. Raises the check's error for a minimal input."""
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    names = [*TARGETS, "supervisor"]
    parser.add_argument("targets", nargs="*", metavar="target", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="how long each is fuzzed (60)")
    asked = parser.parse_args()
    if unknown := set(asked.targets) - set(names):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    with TemporaryDirectory() as folder, supervisor.checked(Path(folder)) as check_supervisor:
        for name in asked.targets or names:
            print(f"{name}: {fuzz(TARGETS.get(name, check_supervisor), asked.seconds)} inputs", flush=True)


if __name__ == "__main__":
    main()
