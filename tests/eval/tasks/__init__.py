"""The tasks, one file for each kind; the first of a kind belongs to `dev`.

Beside them those for practice, the held-out and the hard ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.eval.task import Task
from tests.eval.tasks import dates, dirty, documents, joins, logs, output, plots, programs, tables, trees
from tests.eval.tasks.hard import HARD
from tests.eval.tasks.held_out import HELD_OUT
from tests.eval.tasks.practice import PRACTICE

__all__ = ["HARD", "HELD_OUT", "KINDS", "PRACTICE", "choose"]

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
    """The tasks of `all`, `dev`, `practice`, `held-out`, `hard`, a kind, or one by its name.

    Raises:
        KeyError: there is nothing of that name.
    """
    forty, practice, held_out, hard = (
        [task for tasks in each.values() for task in tasks] for each in (KINDS, PRACTICE, HELD_OUT, HARD)
    )
    subsets = {
        "all": forty,
        "dev": [tasks[0] for tasks in KINDS.values()],
        "practice": practice,
        "held-out": held_out,
        "hard": hard,
        **{kind: list(tasks) for kind, tasks in KINDS.items()},
    }
    if subset in subsets:
        return subsets[subset]
    named = [task for task in (*forty, *practice, *held_out, *hard) if task.name == subset]
    if not named:
        raise KeyError(subset)
    return named
