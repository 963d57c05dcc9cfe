"""Whole programs, each in a fresh sandbox: what that costs over the program's time; what packages cost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from libs.exec_tool import CodeRunner, Dependencies, ExecResult, Metrics
from libs.exec_tool.alone import fresh_sandboxes
from libs.exec_tool.dependencies import MOUNT
from libs.gateway.addresses import resolve_public
from libs.gateway.gateway import Gateway
from libs.gateway.packages.host_settings import Index, PipSettings
from libs.gateway.packages.pip_index import PipIndex
from libs.gateway.packages.variables import PIP_HOST, VARIABLES
from libs.gateway.proxy import Proxy
from libs.gateway.rules import Rules
from libs.sandbox.container import DockerSandbox
from libs.sandbox.engine import connect
from tests.bench.measure import MOST_ROUNDS, Figure, Times, timed
from tests.bench.sandboxes import image
from tests.package_servers import html_page, served, wheel

__all__ = ["figures"]

PROGRAM = "import json\nprint(json.dumps({'ok': True}))"
ROUNDS = 100
ONE_IN = 10
"""Rounds of which one measures a bare container, too."""
SETS = 5
"""Sets of packages that are installed; each is then asked for ten times."""


def figures(root: Path) -> Iterator[Figure]:
    """A spare ready and without one; packages for the first time and again."""
    with ExitStack() as stack:
        runner = _runner(stack, root)
        yield from _fresh(runner, MOST_ROUNDS or ROUNDS)
        yield from _packages(runner)


def _runner(stack: ExitStack, root: Path) -> CodeRunner:
    index = stack.enter_context(served())
    for number in range(SETS):
        name, content = wheel(f"thing{number}")
        index.add(f"/simple/thing{number}/", html_page({name: content}))
        index.add(f"/simple/thing{number}/{name}", content)
    settings = PipSettings((Index(f"{index.url}/simple"),))
    service = PipIndex(settings=lambda: settings, resolve=resolve_public, writable=[])
    gateway = Gateway(lambda: Proxy(rules=Rules(), services={PIP_HOST: service}), variables=VARIABLES)
    stack.callback(gateway.close)

    def installer(folder: Path) -> DockerSandbox:
        return DockerSandbox(folder, image=image(), name="bench-install", egress=gateway.door)

    packages = Dependencies(root / "packages", installer)
    sandboxes = fresh_sandboxes(
        image=image(), name="bench-programs", home=root, mounts=lambda: {MOUNT: packages.make_folder()}
    )
    runner = CodeRunner(sandboxes, seconds=120, dependencies=packages)
    stack.callback(runner.close)
    return runner


def _fresh(runner: CodeRunner, rounds: int) -> Iterator[Figure]:
    client = connect()
    samples: dict[str, list[float]] = {
        name: [] for name in ("host subprocess", "bare container", "sandbox", "of that the program")
    }
    over: list[float] = []
    _good(runner.run(PROGRAM))
    for number in range(rounds):
        _wait_for_spare(runner)
        begun = time.perf_counter()
        result = _good(runner.run(PROGRAM))
        took = time.perf_counter() - begun
        samples["sandbox"].append(took)
        samples["of that the program"].append(result.metrics.run)
        over.append(took - result.metrics.run)
        _wait_for_spare(runner)
        command = [sys.executable, "-c", PROGRAM]
        samples["host subprocess"].append(
            timed(partial(subprocess.run, command, check=True, capture_output=True))
        )
        if number % ONE_IN == 0:
            options = {"entrypoint": "python3", "remove": True}
            samples["bare container"].append(
                timed(partial(client.containers.run, image(), ["-c", PROGRAM], **options))
            )
    client.close()
    overhead = median(over)
    yield Times(samples).figure(
        "a program in a fresh sandbox, a spare ready",
        "at most 30 ms over the program's own time",
        overhead <= 0.030,
        note=f"{overhead * 1000:.1f} ms over the program's own time",
    )
    alone = CodeRunner(fresh_sandboxes(image=image(), name="bench-programs", home=Path.cwd(), warm=0))
    cold = [_good(alone.run(PROGRAM)).metrics for _ in range(5)]
    alone.close()
    yield Figure("the same without a spare", "ms", _parts_of(cold), "none", True)


def _packages(runner: CodeRunner) -> Iterator[Figure]:
    first: list[Metrics] = []
    again: list[Metrics] = []
    for number in range(SETS):
        code, packages = f"import thing{number}\n{PROGRAM}", [f"thing{number}"]
        for times in (first, *[again] * 10):
            _wait_for_spare(runner)
            times.append(_good(runner.run(code, dependencies=packages)).metrics)
    added = _parts_of(again)["install"]
    yield Figure("a program with packages, the first time", "ms", _parts_of(first), "none", True)
    yield Figure("the same packages again", "ms", _parts_of(again), "install at most 10 ms", added <= 10)


def _parts_of(executions: Sequence[Metrics]) -> dict[str, float]:
    """The median of each part, in milliseconds."""
    named = {"creation": "sandbox", "install": "install", "run": "run", "total": "total"}
    return {part: median(getattr(each, name) for each in executions) * 1000 for part, name in named.items()}


def _good(result: ExecResult) -> ExecResult:
    assert result.error is None, result.error
    return result


def _wait_for_spare(runner: CodeRunner) -> None:
    """At most a minute."""
    deadline = time.monotonic() + 60
    while not runner._sandboxes._ready:
        assert time.monotonic() < deadline, "no spare could be started"
        time.sleep(0.02)
