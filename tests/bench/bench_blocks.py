"""Blocks of Python in the live interpreter."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from tests.bench.bench_commands import ENVIRONMENT
from tests.bench.measure import Figure, Times, interleaved, timed
from tests.bench.peers import Peers

_PANDAS = """
import time
begun = time.perf_counter()
import pandas as pd
frame = pd.DataFrame({"region": ["a", "b"] * 500, "revenue": range(1000)})
frame.groupby("region")["revenue"].sum()
print(time.perf_counter() - begun)
"""


def figures(backend: DockerExecutionBackend, peers: Peers) -> Iterator[Figure]:
    sandbox = backend.sandbox

    def block(code: str) -> str:
        result = sandbox.run_python(code, session="bench")
        assert result.exit_code == 0, result.output
        return result.output

    small = interleaved(
        {
            "host, a fresh interpreter": lambda: subprocess.run(
                [sys.executable, "-I", "-S", "-c", "print(1)"],
                env=ENVIRONMENT,
                capture_output=True,
                check=True,
            ),
            "sandbox": lambda: block("print(1)"),
        },
        reporting=peers.reporting("run", "python3 -c 'print(1)'"),
        rounds=100,
    )
    yield small.figure("warm block `print(1)`", "at most 3 ms", small.median("sandbox") <= 0.003)
    yield _pandas(sandbox)


def _pandas(sandbox: ChannelSandbox) -> Figure:
    """Measure the overhead of a block over its own work. The peer is a new process that imports pandas."""
    over: list[float] = []
    work: list[float] = []
    for _ in range(110):
        begun = time.perf_counter()
        printed = sandbox.run_python(_PANDAS, session="bench").output
        taken = time.perf_counter() - begun
        work.append(float(printed))
        over.append(taken - work[-1])
    fresh = [timed(lambda: sandbox.run(f"python3 - <<'E'\n{_PANDAS}\nE")) for _ in range(7)]
    times = Times(
        {"its own work": work[10:], "sandbox": over[10:], "whole, in a fresh process inside": fresh[2:]}
    )
    return times.figure(
        "warm block with pandas, over its own work", "at most 5 ms", times.median("sandbox") <= 0.005
    )
