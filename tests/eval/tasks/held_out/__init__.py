"""Two more tasks of each kind, as hard as the forty, that no prompt or example was tried on: `held-out`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.eval.task import Task
from tests.eval.tasks.held_out import documents, files, output, tables, texts

__all__ = ["HELD_OUT"]

HELD_OUT: Mapping[str, Sequence[Task]] = {
    "tables": tables.TABLES,
    "dates": tables.DATES,
    "joins": tables.JOINS,
    "dirty": texts.DIRTY,
    "json": texts.JSON,
    "logs": texts.LOGS,
    "programs": output.PROGRAMS,
    "pdf": documents.PDF,
    "plots": output.PLOTS,
    "files": files.FILES,
}
"""Kind -> its held-out tasks."""
