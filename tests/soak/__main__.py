"""Use sandboxes for a long time and check that nothing grows: `python -m tests.soak --seconds 3600`.

One sandbox works all the time without an error; another is reset again and again under load. Exits with 1
and a message if a result is wrong, a value grows by more than its limit, or anything is left at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.docker.engine import connect
from tests.load.breaks import IMAGE, LIMITS, SEED, of_thread
from tests.load.crowd import Crowd, Place
from tests.load.left import Held, eventually_gone
from tests.soak import figures

NAME = f"soak-{os.getpid()}"
EVERY = 2.0
"""Seconds of load between readings. Readings are taken in pauses, because running calls are not growth."""
RESET_EVERY = 5
"""Readings between resets of the second sandbox."""


def soak(seconds: float, root: Path) -> tuple[figures.Series, list[Crowd]]:
    steady = DockerExecutionBackend(root / "steady", name=NAME, image=IMAGE, limits=LIMITS)
    threads = DockerExecutionBackend(
        root / "threads", name=NAME, image=IMAGE, limits=LIMITS, scope="thread", warm=1
    )
    series = figures.Series()
    client = connect()
    with steady, threads:
        assert isinstance(steady.sandbox, DockerSandbox)
        steady.execute("true")
        container = steady.sandbox.container_name
        assert container
        changing = Place(of_thread(threads, "one"), root / "threads" / "threads" / "one")
        places = {"steady": Place(steady.sandbox, root / "steady")}
        with (
            Crowd(places, seed=SEED, harsh=False) as calm,
            Crowd({"changing": changing}, seed=SEED, tasks=2) as shaken,
        ):
            while time.monotonic() - series.begun < seconds:
                calm.go()
                shaken.go()
                time.sleep(EVERY)
                if len(series.times) % RESET_EVERY == 0:
                    changing.sandbox.reset()
                for crowd in (calm, shaken):
                    crowd.pause()
                    crowd.check()
                series.add(figures.read(client, container))
        assert steady.sandbox.container_name == container, "the steady sandbox was replaced"
    client.close()
    return series, [calm, shaken]


def show(series: figures.Series, crowds: list[Crowd]) -> list[str]:
    """Print the table and return the values that grow."""
    calm, shaken = crowds
    title = (
        f"{series.times[-1]:.0f} s, {calm.done + shaken.done:,} calls, {shaken.refused} of them ended by a "
        f"reset; the longest took {max(calm.longest, shaken.longest):.1f} s"
    )
    table = Table(title=title)
    for column in ("what", "median", "lowest", "highest", "growth", "limit", "holds"):
        table.add_column(column, justify="left" if column == "what" else "right")
    growing: list[str] = []
    for name, limit in figures.LIMITS.items():
        values = sorted(value for _, value in series.settled(name))
        growth = series.growth(name)
        holds = growth <= limit
        row = [f"{value:.1f}" for value in (values[len(values) // 2], values[0], values[-1])]
        table.add_row(name, *row, f"{growth:+.1f}", f"{limit:+.1f}", "yes" if holds else "NO")
        if not holds:
            growing.append(f"{name} grew by {growth:.1f} where {limit:g} is allowed")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return growing


def _return_freed_memory() -> None:
    """Restart with settings that make the C library return large free blocks to the system.

    By default the library keeps freed blocks of megabytes in a heap for each thread (M_MMAP_THRESHOLD in
    mallopt(3)). The process then grows by tens of megabytes of free memory.
    """
    fixed = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "2"}
    if not fixed.items() <= os.environ.items():
        command = [sys.executable, "-m", "tests.soak", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **fixed})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long (default: %(default)s)")
    seconds = parser.parse_args().seconds
    _return_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        with DockerExecutionBackend(Path(folder, "first"), name=NAME, image=IMAGE) as backend:
            backend.execute("true")
        before = Held()
        series, crowds = soak(seconds, Path(folder))
        growing = show(series, crowds)
        eventually_gone(NAME)
        before.assert_released()
    if growing:
        sys.exit("\n".join([f"Something grows (BREAK_SEED={SEED}):", *growing]))


if __name__ == "__main__":
    main()
