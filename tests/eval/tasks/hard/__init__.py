"""Two more tasks of each kind, harder than the forty on purpose; in no subset but `hard`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.eval.task import Task
from tests.eval.tasks.hard import documents, output, tables, texts

__all__ = ["HARD"]

HARD: Mapping[str, Sequence[Task]] = {
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
"""Kind -> its hard tasks."""
