"""Lets one set of SQL statements serve SQLite and Postgres.

`Spelling` names what differs between both databases. Parameters are written `?`.
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
"""Columns of a write that have the same name in both savers; the value's column follows them."""


@dataclass(frozen=True)
class Spelling:
    """Names and expressions of one database, or of LangGraph's saver for it."""

    writes: str
    """Table of the writes of tasks."""
    value: str
    """Its column for the value."""
    bytes: str
    """Type of a column of bytes."""
    run_id: str
    """Expression for the run in a checkpoint's metadata."""
    source: str
    """Expression for the source in a checkpoint's metadata."""
    moved: str
    """Expression for the metadata with another thread, which is a parameter."""
    blobs: str | None = None
    """Table of the channels' values, if checkpoints do not hold them."""


SQLITE = Spelling(
    writes="writes",
    value="value",
    bytes="BLOB",
    run_id="json_extract(CAST(metadata AS TEXT), '$.run_id')",
    source="json_extract(CAST(metadata AS TEXT), '$.source')",
    moved="CAST(json_replace(CAST(metadata AS TEXT), '$.thread_id', ?) AS BLOB)",
)
POSTGRES = Spelling(
    writes="checkpoint_writes",
    value="blob",
    bytes="BYTEA",
    run_id="metadata ->> 'run_id'",
    source="metadata ->> 'source'",
    moved="jsonb_set(metadata, '{thread_id}', to_jsonb(?::text), false)",
    blobs="checkpoint_blobs",
)


def tables(spelling: Spelling) -> Sequence[str]:
    """Return the statements that create our tables beside LangGraph's own.

    `run_marks`: the checkpoint that a run began on, in each namespace. `writes_before`: the writes of that
    checkpoint before the run. `server_rows`: what a server knows besides checkpoints.
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
