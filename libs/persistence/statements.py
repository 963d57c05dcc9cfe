"""The statements that LangGraph's savers lack, for SQLite and Postgres alike: one text, two spellings.

What both databases call differently is named by `Spelling`. Parameters are written `?`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["COLUMNS", "POSTGRES", "SQLITE", "Do", "Spelling", "tables"]

Do = Callable[..., Awaitable[list[tuple[Any, ...]]]]
"""Runs a statement with its parameters inside a transaction, and returns the rows."""

COLUMNS: Sequence[str] = (
    "thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "task_path", "idx", "channel", "type",
)  # fmt: skip
"""Those of a write that both savers call alike; the value comes behind them."""


@dataclass(frozen=True)
class Spelling:
    """What one database, or LangGraph's saver for it, calls a thing."""

    writes: str
    """Table of the writes of tasks."""
    value: str
    """Its column for the value."""
    bytes: str
    """Type of a column of bytes."""
    run_id: str
    """The run in a checkpoint's metadata."""
    delta: str
    """Whether a checkpoint's metadata tells of a channel that is rebuilt from writes of its ancestors."""
    moved: str
    """The metadata with another thread, which is a parameter."""
    blobs: str | None = None
    """Table of the values of channels, where checkpoints do not hold them."""


SQLITE = Spelling(
    writes="writes",
    value="value",
    bytes="BLOB",
    run_id="json_extract(CAST(metadata AS TEXT), '$.run_id')",
    delta="json_extract(CAST(metadata AS TEXT), '$.counters_since_delta_snapshot') IS NOT NULL",
    moved="CAST(json_replace(CAST(metadata AS TEXT), '$.thread_id', ?) AS BLOB)",
)
POSTGRES = Spelling(
    writes="checkpoint_writes",
    value="blob",
    bytes="BYTEA",
    run_id="metadata ->> 'run_id'",
    delta="metadata -> 'counters_since_delta_snapshot' IS NOT NULL",
    moved="jsonb_set(metadata, '{thread_id}', to_jsonb(?::text), false)",
    blobs="checkpoint_blobs",
)


def tables(spelling: Spelling) -> Sequence[str]:
    """What makes the tables beside LangGraph's own, where they are missing.

    `run_marks`: the checkpoints that a run wrote to first, which are those it began on. `writes_before`: what
    was written to them until then. `server_rows`: what a server knows besides checkpoints.
    """
    return (
        """CREATE TABLE IF NOT EXISTS run_marks (
            run_id TEXT NOT NULL, thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL,
            checkpoint_id TEXT NOT NULL, marked_at BIGINT NOT NULL,
            PRIMARY KEY (run_id, thread_id, checkpoint_ns, checkpoint_id))""",
        "CREATE INDEX IF NOT EXISTS run_marks_of_thread ON run_marks (thread_id)",
        f"""CREATE TABLE IF NOT EXISTS writes_before (
            run_id TEXT NOT NULL, thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL,
            checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, task_path TEXT NOT NULL, idx INTEGER NOT NULL,
            channel TEXT NOT NULL, type TEXT, value {spelling.bytes},
            PRIMARY KEY (run_id, thread_id, checkpoint_ns, checkpoint_id, task_id, idx))""",
        "CREATE INDEX IF NOT EXISTS writes_before_of_thread ON writes_before (thread_id)",
        """CREATE TABLE IF NOT EXISTS server_rows (
            kind TEXT NOT NULL, id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, id))""",
    )
