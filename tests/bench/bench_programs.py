"""Whole programs, each in a fresh sandbox: the overhead of the sandbox."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

from libs.exec_tool import CodeRunner, ExecResult
from libs.exec_tool.standalone_tool import fresh_sandboxes
from libs.sandbox.docker.engine import connect
from tests.bench.bench_sandboxes import image, wait_until
from tests.bench.measure import MOST_ROUNDS, Figure, Times, timed

PROGRAM = "import json\nprint(json.dumps({'ok': True}))"
ROUNDS = 100
ONE_IN = 10
"""One of so many rounds also measures a bare container."""


def figures(root: Path) -> Iterator[Figure]:
    """Measure programs with and without a spare."""
    client = connect()
    runner = CodeRunner(fresh_sandboxes(image=image(), name="bench-programs", home=root), seconds=120)
    samples: dict[str, list[float]] = {
        name: [] for name in ("host subprocess", "bare container", "sandbox", "of that the program")
    }
    over: list[float] = []
    _good(runner.run(PROGRAM))
    for number in range(MOST_ROUNDS or ROUNDS):
        wait_until(lambda: runner._sandboxes._ready)
        begun = time.perf_counter()
        result = _good(runner.run(PROGRAM))
        took = time.perf_counter() - begun
        samples["sandbox"].append(took)
        samples["of that the program"].append(result.metrics.run)
        over.append(took - result.metrics.run)
        wait_until(lambda: runner._sandboxes._ready)
        command = [sys.executable, "-c", PROGRAM]
        samples["host subprocess"].append(
            timed(partial(subprocess.run, command, check=True, capture_output=True))
        )
        if number % ONE_IN == 0:
            options = {"entrypoint": "python3", "remove": True}
            samples["bare container"].append(
                timed(partial(client.containers.run, image(), ["-c", PROGRAM], **options))
            )
    runner.close()
    client.close()
    overhead = median(over)
    yield Times(samples).figure(
        "a program in a fresh sandbox, a spare ready",
        "at most 30 ms over the program's own time",
        overhead <= 0.030,
        note=f"{overhead * 1000:.1f} ms over the program's own time",
    )
    alone = CodeRunner(fresh_sandboxes(image=image(), name="bench-programs", home=root, warm=0))
    cold = [_good(alone.run(PROGRAM)).metrics for _ in range(5)]
    alone.close()
    named = {"creation": "sandbox", "run": "run", "total": "total"}
    parts = {part: median(getattr(each, name) for each in cold) * 1000 for part, name in named.items()}
    yield Figure("the same without a spare", "ms", parts, "none", True)


def _good(result: ExecResult) -> ExecResult:
    assert result.error is None, result.error
    return result
