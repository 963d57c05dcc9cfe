"""Why threads cannot be kept."""

from __future__ import annotations

import sqlite3
import sys

__all__ = ["CheckpointerUnavailable", "database_errors"]


def database_errors() -> tuple[type[Exception], ...]:
    """What the databases in use raise: a full disk, a lock that is held too long, no connection."""
    errors: list[type[Exception]] = [sqlite3.Error]
    # Imported with a saver for Postgres; PoolTimeout is one of these.
    if psycopg := sys.modules.get("psycopg"):
        errors.append(psycopg.Error)
    return tuple(errors)


class CheckpointerUnavailable(Exception):
    """What keeps the threads cannot be used. `str(error)` says why, `hint` what mends it."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
        self.add_note(hint)  # for the traceback of a server that does not start
