"""Shows the progress of a long task: a bar at a terminal, a line for each step elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from agent.secrets import KNOWN
from agent.terminal.harmless_text import harmless

__all__ = ["steps"]

Report = Callable[[str], None]

# Counts in the steps of a Docker build, and in reports of fetched packages.
_COUNTED = re.compile(r"^Step (\d+)/(\d+) : |: (\d+) of (\d+)\b")
_ONE_OF_MANY = "debootstrap: "


@contextmanager
def steps() -> Iterator[Report]:
    """Yield a function that reports a step, one line a call.

    At a terminal a bar shows count, time and the latest step; lines without a count stay above the bar. In a
    pipe and at a dumb terminal every line is printed.
    """
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda line: typer.echo(f"  {_shown(line)}")
        return
    bar = Progress(
        SpinnerColumn("line"),
        BarColumn(20),
        TextColumn("{task.fields[count]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
        console=console,
        transient=True,
        expand=True,
    )
    counting = False
    with bar:
        task = bar.add_task("", total=None, count="")

        def report(line: str) -> None:
            nonlocal counting
            line = _shown(line)
            if found := _COUNTED.search(line):
                done, total = (int(number) for number in found.groups() if number)
                bar.update(task, completed=done - 1, total=total, count=f"{done}/{total}")
                counting = line.startswith("Step ")
            elif not counting and not line.startswith(_ONE_OF_MANY):
                bar.console.print(f"  {line}", markup=False, soft_wrap=True)
                bar.update(task, completed=0, total=None, count="")
            bar.update(task, description=line, refresh=bool(found))

        yield report


def _shown(line: str) -> str:
    return KNOWN(harmless(line.replace("\n", " ")))
