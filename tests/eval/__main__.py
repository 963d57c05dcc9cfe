"""Run the tasks with the configured model, print the results, write a report: see the package's docstring."""

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

from agent.config import build_model
from agent.settings import ROOT, Settings, SettingsError, load_settings
from libs.models.deferred_model import DeferredChatModel, ModelUnavailable
from libs.models.scripted_model import ScriptError
from libs.sandbox import SandboxError
from tests.eval.run import Score, run_task
from tests.eval.task import Task
from tests.eval.tasks import SUBSETS, choose

REPORTS = ROOT / "tests" / "artifacts" / "eval"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.eval", description=__doc__)
    parser.add_argument("subset", nargs="?", default="dev", help=f"{', '.join(SUBSETS)}, or a task (dev)")
    parser.add_argument("--seconds", type=float, default=300, help="wall time of one task (300)")
    parser.add_argument("--model", help="instead of the configured one, as MODEL names it")
    asked = parser.parse_args(arguments)
    try:
        tasks = choose(asked.subset)
    except KeyError:
        parser.error(f"there is no subset or task {asked.subset!r}")
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
    """Run the tasks one after the other, and print each result. An interrupted run is reported too."""
    model = build_model(settings)
    # Build the model before the clock and a sandbox start: the model may be missing.
    real = await asyncio.to_thread(model.build) if isinstance(model, DeferredChatModel) else model
    name = getattr(real, "model_name", None) or getattr(real, "model", None) or settings.model or "local"
    folder = REPORTS / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    scores: list[Score] = []
    begun = time.monotonic()
    try:
        for task in tasks:
            score = await run_task(task, model, settings, seconds=asked.seconds, transcripts=folder)
            scores.append(score)
            verdict = "solved" if score.solved else f"failed: {score.why}"
            print(
                f"{len(scores)}/{len(tasks)} {score.task}, {score.steps} steps, {score.seconds} s, {verdict}"
            )
    finally:
        if scores:
            report = {
                "taken": datetime.now(UTC).isoformat(timespec="seconds"),
                "revision": _revision(),
                "machine": f"{platform.machine()}, {os.cpu_count()} cores",
                "model": str(name),
                "subset": asked.subset,
                "seconds_allowed": asked.seconds,
                "solved": sum(score.solved for score in scores),
                "total": len(tasks),
                "run": len(scores),
                "steps": sum(score.steps for score in scores),
                "tokens": sum(score.tokens for score in scores),
                "seconds": round(time.monotonic() - begun),
                "tasks": [asdict(score) for score in scores],
            }
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "report.json").write_text(json.dumps(report, indent=1))
            print(
                "{model}: {solved} of {total} solved, {steps} steps, {tokens:,} tokens, {seconds} s".format(
                    **report
                )
            )
            print(f"Report and transcripts: {folder.relative_to(ROOT)}")


def _revision() -> str:
    """Return the commit, with a plus if files differ from it; "" outside a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--match="]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
