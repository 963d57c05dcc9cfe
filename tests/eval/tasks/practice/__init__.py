"""Two more tasks of each kind, as hard as the forty, that were held out once: in no subset but `practice`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.eval.task import Task
from tests.eval.tasks.practice import documents, output, tables, texts

__all__ = ["PRACTICE"]

PRACTICE: Mapping[str, Sequence[Task]] = {
    "tables": tables.TABLES,
    "dates": tables.DATES,
    "joins": tables.JOINS,
    "dirty": texts.DIRTY,
    "json": texts.JSON,
    "logs": texts.LOGS,
    "programs": output.PROGRAMS,
    "pdf": documents.PDF,
    "plots": output.PLOTS,
    "files": output.FILES,
}
"""Kind -> its tasks for practice."""
