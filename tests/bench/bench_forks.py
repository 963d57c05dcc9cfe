"""Forks of a long thread, beside a copy of its checkpoints alone."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import yaml

from agent.run import open_runtime
from tests.bench.bench_sandboxes import image
from tests.bench.measure import MOST_ROUNDS, Figure, Times

TURNS = 100
ROUNDS = 20
SETTLED = 1.5
"""Seconds between two forks, in which a spare sandbox starts."""
COPY, FORK = "copy of the checkpoints", "sandbox"


def figures(root: Path) -> Iterator[Figure]:
    """Measure a fork at the turn in the middle, conversation and files, with a spare sandbox."""
    root.mkdir(parents=True)
    turns = [
        reply
        for turn in range(TURNS)
        for reply in (
            {"tool_calls": [{"name": "execute", "args": {"command": f"echo {turn} > /results/{turn}"}}]},
            {"text": "Done."},
        )
    ]
    with chdir(root):
        Path("script.yaml").write_text(yaml.safe_dump(turns))
        os.environ["MODEL"] = "scripted:script.yaml"
        times = asyncio.run(_measured())
    yield times.figure(f"fork of a thread of {TURNS} turns", "at most 200 ms", times.median(FORK) <= 0.2)


async def _measured() -> Times:
    samples: dict[str, list[float]] = {COPY: [], FORK: []}
    async with open_runtime(sandbox_scope="thread", approvals="auto", sandbox_image=image()) as runtime:
        for turn in range(TURNS):
            run = await runtime.run("t", "deep")
            async for _ in run.begin(f"turn {turn}"):
                pass
        names = (f"copy-{number}" for number in itertools.count())
        for _ in range(MOST_ROUNDS or ROUNDS):
            await asyncio.sleep(SETTLED)
            begun = time.perf_counter()
            await runtime.threads.acopy_thread("t", next(names))
            samples[COPY].append(time.perf_counter() - begun)
            begun = time.perf_counter()
            await runtime.fork("t", TURNS // 2, copy=next(names))
            samples[FORK].append(time.perf_counter() - begun)
    return Times(samples)
