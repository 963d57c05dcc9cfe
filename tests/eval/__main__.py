"""Run the tasks with the configured model, print a table, write a report: see the package's docstring."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent.config import ROOT, Settings, SettingsError, build_model, load_settings
from libs.models.deferred import DeferredChatModel, ModelUnavailable
from libs.models.scripted import ScriptError
from libs.sandbox import SandboxError
from tests.eval.run import Score, run_task
from tests.eval.task import Task
from tests.eval.tasks import HELD_OUT, KINDS, PRACTICE, choose

REPORTS = ROOT / "tests" / "artifacts" / "eval"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.eval", description=__doc__)
    parser.add_argument(
        "subset",
        nargs="?",
        default="all",
        help=f"all, dev, {', '.join(KINDS)}, a task, practice (20 tasks that were held out once), "
        "or held-out (20 that no prompt or example was tried on)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="tasks at once (1; more only where the model is elsewhere)"
    )
    parser.add_argument("--seconds", type=float, default=300, help="wall time of one task (300)")
    parser.add_argument("--model", help="instead of the configured one, as MODEL names it")
    asked = parser.parse_args(arguments)
    try:
        tasks = choose(asked.subset)
    except KeyError:
        parser.error(f"there is no subset, kind or task {asked.subset!r}")
    try:
        settings = load_settings(**({"model": asked.model} if asked.model else {}))
        asyncio.run(_run(tasks, settings, asked))
    except (SettingsError, ScriptError, ModelUnavailable) as error:
        print(error, file=sys.stderr)
        return 2
    except SandboxError as error:
        print(error, error.hint, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


async def _run(tasks: Sequence[Task], settings: Settings, asked: argparse.Namespace) -> None:
    """Run the tasks, `jobs` at once, and show each as it ends. A run that is broken off is reported too."""
    model = build_model(settings)
    # Before the clock runs, and before a sandbox starts for a model that is not there.
    real = await asyncio.to_thread(model.build) if isinstance(model, DeferredChatModel) else model
    name = getattr(real, "model_name", None) or getattr(real, "model", None) or settings.model or "local"
    folder = REPORTS / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    console = Console(width=150 if not sys.stdout.isatty() else None)
    free = asyncio.Semaphore(max(1, asked.jobs))
    scores: list[Score] = []
    begun = time.monotonic()

    async def one(task: Task) -> None:
        async with free:
            score = await run_task(task, model, settings, seconds=asked.seconds, transcripts=folder)
        scores.append(score)
        sign = "[green]solved[/]" if score.solved else "[red]failed[/]"
        console.print(
            f"{len(scores):3}/{len(tasks)} {sign} {score.task}: {score.steps} steps, {score.seconds:,.0f} s "
            f"[dim]{escape(score.why)}[/]",
            highlight=False,
        )

    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(one(task))
    except ExceptionGroup as errors:  # the first has cancelled the others
        raise errors.exceptions[0] from None
    finally:
        if scores:
            report = _report(scores, tasks, str(name), asked, time.monotonic() - begun)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "report.json").write_text(json.dumps(report, indent=1))
            console.print(_table(scores, report))
            console.print(f"Report and transcripts: {folder.relative_to(ROOT)}")


def _report(
    scores: Sequence[Score],
    tasks: Sequence[Task],
    model: str,
    asked: argparse.Namespace,
    seconds: float,
) -> dict[str, Any]:
    return {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": _revision(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "model": model,
        "subset": asked.subset,
        "jobs": asked.jobs,
        "seconds_allowed": asked.seconds,
        "solved": sum(score.solved for score in scores),
        "total": len(tasks),
        "run": len(scores),
        "steps": sum(score.steps for score in scores),
        "tokens": sum(score.tokens for score in scores),
        "seconds": round(seconds),
        "tasks": [asdict(score) for score in scores],
    }


def _revision() -> str:
    """The commit, with a plus where files differ from it; "" outside a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--match="]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _table(scores: Sequence[Score], report: dict[str, Any]) -> Table:
    """One line a kind, the tasks beside the forty among their kinds, the sum below, and what failed."""
    table = Table(
        title=f"{report['model']}: {report['solved']} of {report['total']} solved", show_footer=True
    )
    whole = (
        *("all" if report["run"] == report["total"] else f"broken off after {report['run']}",),
        *(f"{report['solved']}/{report['total']}", f"{report['steps']:,}", f"{report['tokens']:,}"),
        *(f"{report['seconds']:,}", ""),
    )
    columns = ("kind", "solved", "steps", "tokens", "seconds", "failed")
    for column, footer in zip(columns, whole, strict=True):
        table.add_column(
            column,
            footer=footer,
            justify="left" if column in ("kind", "failed") else "right",
            overflow="fold",
        )
    for kind, tasks in KINDS.items():
        names = {task.name for task in (*tasks, *PRACTICE[kind], *HELD_OUT[kind])}
        own = [score for score in scores if score.task in names]
        if own:
            table.add_row(
                kind,
                f"{sum(score.solved for score in own)}/{len(own)}",
                f"{sum(score.steps for score in own):,}",
                f"{sum(score.tokens for score in own):,}",
                f"{sum(score.seconds for score in own):,.0f}",
                escape("\n".join(f"{score.task}: {score.why}" for score in own if not score.solved)),
            )
    return table


if __name__ == "__main__":
    sys.exit(main())
