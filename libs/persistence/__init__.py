"""Keeps threads in SQLite or Postgres: checkpoints, values, files, memory, and a lock for each thread.

In: a path or a database URL. Out: savers and stores that several processes may use at once.
"""

from __future__ import annotations

from libs.persistence.file_content import DEFAULT_MODE, FileContent, mode_of
from libs.persistence.locked_thread import ThreadInUse, thread_lock
from libs.persistence.persistence_errors import CheckpointerUnavailable, database_errors

__all__ = [
    "DEFAULT_MODE",
    "CheckpointerUnavailable",
    "FileContent",
    "ThreadInUse",
    "database_errors",
    "mode_of",
    "thread_lock",
]
