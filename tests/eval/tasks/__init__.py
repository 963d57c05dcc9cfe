"""The tasks, one file for each kind; the first of a kind belongs to `dev`.

Beside them those for practice and the held-out ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.eval.task import Task
from tests.eval.tasks import dates, dirty, documents, joins, logs, output, plots, programs, tables, trees
from tests.eval.tasks.held_out import HELD_OUT
from tests.eval.tasks.practice import PRACTICE

__all__ = ["HELD_OUT", "KINDS", "PRACTICE", "choose"]

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
    """The tasks of `all`, `dev`, `practice`, `held-out`, a kind, or one by its name.

    Raises:
        KeyError: there is nothing of that name.
    """
    forty, practice, held_out = (
        [task for tasks in each.values() for task in tasks] for each in (KINDS, PRACTICE, HELD_OUT)
    )
    subsets = {
        "all": forty,
        "dev": [tasks[0] for tasks in KINDS.values()],
        "practice": practice,
        "held-out": held_out,
        **{kind: list(tasks) for kind, tasks in KINDS.items()},
    }
    if subset in subsets:
        return subsets[subset]
    named = [task for task in (*forty, *practice, *held_out) if task.name == subset]
    if not named:
        raise KeyError(subset)
    return named
