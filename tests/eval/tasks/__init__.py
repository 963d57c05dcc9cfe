"""The tasks, one file for each kind; beside them the held-out and the hard ones. The first of a kind belongs to `dev`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.eval.task import Task
from tests.eval.tasks import dates, dirty, documents, joins, logs, output, plots, programs, tables, trees
from tests.eval.tasks.fresh import HELD_OUT
from tests.eval.tasks.hard import HARD

__all__ = ["HARD", "HELD_OUT", "KINDS", "choose"]

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
    """The tasks of `all`, `dev`, `held-out`, `hard`, a kind, or one by its name.

    Raises:
        KeyError: there is nothing of that name.
    """
    forty, held_out, hard = (
        [task for tasks in each.values() for task in tasks] for each in (KINDS, HELD_OUT, HARD)
    )
    subsets = {
        "all": forty,
        "dev": [tasks[0] for tasks in KINDS.values()],
        "held-out": held_out,
        "hard": hard,
        **{kind: list(tasks) for kind, tasks in KINDS.items()},
    }
    if subset in subsets:
        return subsets[subset]
    named = [task for task in (*forty, *held_out, *hard) if task.name == subset]
    if not named:
        raise KeyError(subset)
    return named
