"""The tasks by subset: `dev`, `practice` and `held-out`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.eval.task import Task
from tests.eval.tasks.dev_tasks import TASKS
from tests.eval.tasks.held_out import (
    held_out_documents,
    held_out_files,
    held_out_output,
    held_out_tables,
    held_out_texts,
)
from tests.eval.tasks.practice import practice_documents, practice_output, practice_tables, practice_texts

__all__ = ["SUBSETS", "choose"]

SUBSETS: Mapping[str, Sequence[Task]] = {
    "dev": TASKS,
    "practice": [
        *practice_tables.TASKS,
        *practice_texts.TASKS,
        *practice_documents.TASKS,
        *practice_output.TASKS,
    ],
    "held-out": [
        *held_out_tables.TASKS,
        *held_out_texts.TASKS,
        *held_out_documents.TASKS,
        *held_out_output.TASKS,
        *held_out_files.TASKS,
    ],
}


def choose(name: str) -> Sequence[Task]:
    """Return the tasks of a subset, or the task of this name.

    Raises:
        KeyError: No subset and no task has this name.
    """
    if name in SUBSETS:
        return SUBSETS[name]
    return [{task.name: task for tasks in SUBSETS.values() for task in tasks}[name]]
