"""The tasks, one file for each kind, and the held-out ones. The first of a kind belongs to `dev`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.eval.task import Task
from tests.eval.tasks import dates, dirty, documents, joins, logs, output, plots, programs, tables, trees
from tests.eval.tasks.held_out import HELD_OUT

__all__ = ["HELD_OUT", "KINDS", "choose"]

KINDS: Mapping[str, Sequence[Task]] = {
    "tables": tables.TASKS,
    "dates": dates.TASKS,
    "joins": joins.TASKS,
    "dirty": dirty.TASKS,
    "json": trees.TASKS,
    "logs": logs.TASKS,
    "programs": programs.TASKS,
    "pdf": documents.TASKS,
    "plots": plots.TASKS,
    "files": output.TASKS,
}


def choose(subset: str) -> list[Task]:
    """The tasks of `all`, `dev`, `held-out`, a kind, or one by its name.

    Raises:
        KeyError: there is nothing of that name.
    """
    everything = [task for tasks in KINDS.values() for task in tasks]
    held_out = [task for tasks in HELD_OUT.values() for task in tasks]
    if subset == "all":
        return everything
    if subset == "dev":
        return [tasks[0] for tasks in KINDS.values()]
    if subset == "held-out":
        return held_out
    if subset in KINDS:
        return list(KINDS[subset])
    named = [task for task in (*everything, *held_out) if task.name == subset]
    if not named:
        raise KeyError(subset)
    return named
