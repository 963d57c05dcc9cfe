"""The errors of databases of threads, and what a person can do about them."""

from __future__ import annotations

import sqlite3
import sys

__all__ = ["CheckpointerUnavailable", "database_errors"]


def database_errors() -> tuple[type[Exception], ...]:
    """Return the errors that the databases in use raise: a full disk, a lock time-out, no connection."""
    errors: list[type[Exception]] = [sqlite3.Error]
    # psycopg is imported with the saver for Postgres. Its PoolTimeout is a psycopg.Error.
    if psycopg := sys.modules.get("psycopg"):
        errors.append(psycopg.Error)
    return tuple(errors)


class CheckpointerUnavailable(Exception):
    """The database of threads cannot be used. `str(error)` says why, `hint` what to do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
        self.add_note(hint)  # for the traceback of a server that does not start
