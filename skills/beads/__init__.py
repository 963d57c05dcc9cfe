"""A small issue tracker in one SQLite file: what is to be done, in which order, and what waits for what.

Safe with several processes at once. The file is /workspace/.beads.db unless `db` names another.

    from skills.beads import close, create, ready

    clean = create("Clean the data", priority=1)
    create("Plot revenue by month", blocked_by=[clean.id])
    close(clean.id, "no duplicates left")
    print([issue.title for issue in ready()])   # ['Plot revenue by month']
"""

from __future__ import annotations

import builtins
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["Issue", "close", "create", "get", "list", "ready", "update"]

Type = Literal["bug", "feature", "task", "epic", "chore"]
Status = Literal["open", "in_progress", "blocked", "closed"]

DATABASE = "/workspace/.beads.db"
MAX_TITLE_CHARS = 500
_BUSY_SECONDS = 30
_VERSION = 1
# AUTOINCREMENT: the number of a deleted issue is never used again.
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS issues (
        id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, description TEXT NOT NULL,
        type TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'open', priority INTEGER NOT NULL,
        reason TEXT NOT NULL DEFAULT '',
        created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ')),
        updated TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ')))""",
    """CREATE TABLE IF NOT EXISTS blockers (
        issue INTEGER NOT NULL REFERENCES issues (id), blocker INTEGER NOT NULL REFERENCES issues (id),
        PRIMARY KEY (issue, blocker)) WITHOUT ROWID""",
    f"PRAGMA user_version = {_VERSION}",
)


@dataclass(frozen=True)
class Issue:
    """One issue: `priority` 0 (highest) to 4, `reason` why it was closed, times as ISO 8601 in UTC."""

    id: int
    title: str
    description: str
    type: Type
    status: Status
    priority: int
    reason: str
    created: str
    updated: str
    blocked_by: tuple[int, ...]


def create(
    title: str,
    *,
    description: str = "",
    type: Type = "task",
    priority: int = 2,
    blocked_by: Iterable[int] = (),
    db: str = DATABASE,
) -> Issue:
    """Add an open issue: type bug, feature, task, epic or chore; priority 0 (highest) to 4.

    Example:
        issue = create("Totals differ by 3 cents", type="bug", priority=0)

    Raises:
        ValueError: the title is empty or over 500 characters, or a value is not among those allowed.
        LookupError: a blocker does not exist.
    """
    _check(title=title, type=type, priority=priority)
    with _transaction(db) as connection:
        values = (title, description, type, priority)
        sql = "INSERT INTO issues (title, description, type, priority) VALUES (?, ?, ?, ?)"
        number = connection.execute(sql, values).lastrowid
        assert number is not None  # an INSERT has one
        _block(connection, number, blocked_by)
        return _one(connection, number)


def update(
    id: int,
    *,
    title: str | None = None,
    description: str | None = None,
    type: Type | None = None,
    status: Status | None = None,
    priority: int | None = None,
    blocked_by: Iterable[int] | None = None,
    db: str = DATABASE,
) -> Issue:
    """Change what is given of an issue: status open, in_progress, blocked or closed; `blocked_by` as a whole.

    Example:
        update(3, status="in_progress", blocked_by=[1, 2])

    Raises:
        ValueError: a value is not among those allowed, or the blockers would wait for each other in a circle.
        LookupError: the issue or a blocker does not exist.
    """
    given = {"title": title, "description": description, "type": type, "status": status, "priority": priority}
    changes = {column: value for column, value in given.items() if value is not None}
    _check(**changes)
    with _transaction(db) as connection:
        _one(connection, id)
        for column, value in changes.items():  # column names are fixed; values are parameters
            connection.execute(f"UPDATE issues SET {column} = ? WHERE id = ?", (value, id))
        if status is not None and status != "closed":
            connection.execute("UPDATE issues SET reason = '' WHERE id = ?", (id,))
        if blocked_by is not None:
            connection.execute("DELETE FROM blockers WHERE issue = ?", (id,))
            _block(connection, id, blocked_by)
        connection.execute("UPDATE issues SET updated = strftime('%Y-%m-%dT%H:%M:%SZ') WHERE id = ?", (id,))
        return _one(connection, id)


def close(id: int, reason: str = "", *, db: str = DATABASE) -> Issue:
    """Close an issue; what it alone blocked becomes ready. `update(id, status="open")` opens it again.

    Example:
        close(3, "fixed in /scripts/clean.py")

    Raises:
        LookupError: the issue does not exist.
    """
    with _transaction(db) as connection:
        _one(connection, id)
        connection.execute(
            "UPDATE issues SET status = 'closed', reason = ?, updated = strftime('%Y-%m-%dT%H:%M:%SZ')"
            " WHERE id = ?",
            (reason, id),
        )
        return _one(connection, id)


def list(
    status: Status | None = None, type: Type | None = None, *, db: str = DATABASE
) -> builtins.list[Issue]:
    """Return the issues, closed ones too, by priority and age; only those of a status or type where given.

    Example:
        bugs = list(status="open", type="bug")

    Raises:
        ValueError: no such status or type.
    """
    given = {column: value for column, value in (("status", status), ("type", type)) if value is not None}
    _check(**given)
    where = " AND ".join(["TRUE", *(f"{column} = ?" for column in given)])
    with _transaction(db) as connection:
        return _issues(connection, where, tuple(given.values()))


def get(id: int, *, db: str = DATABASE) -> Issue:
    """Return one issue.

    Example:
        print(get(3).status)

    Raises:
        LookupError: the issue does not exist.
    """
    with _transaction(db) as connection:
        return _one(connection, id)


def ready(*, db: str = DATABASE) -> builtins.list[Issue]:
    """Return what can be begun: open issues all of whose blockers are closed, highest priority first.

    Example:
        for issue in ready():
            print(issue.id, issue.priority, issue.title)
    """
    waits = (
        "SELECT 1 FROM blockers JOIN issues AS other ON other.id = blocker"
        " WHERE issue = issues.id AND other.status != 'closed'"
    )
    with _transaction(db) as connection:
        return _issues(connection, f"status = 'open' AND NOT EXISTS ({waits})", ())


@contextmanager
def _transaction(db: str) -> Iterator[sqlite3.Connection]:
    """Open a write transaction; other writers wait from the start, so none fails in the middle.

    The journal mode is not WAL, which needs shared memory that a mounted folder may lack.
    """
    with closing(sqlite3.connect(db, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                for statement in _SCHEMA:
                    connection.execute(statement)
            yield connection


def _check(**values: object) -> None:
    title, priority = values.get("title", "-"), values.get("priority", 0)
    if not isinstance(title, str) or not 0 < len(title.strip()) <= MAX_TITLE_CHARS:
        raise ValueError(f"a title has 1 to {MAX_TITLE_CHARS} characters")
    if type(priority) is not int or not 0 <= priority <= 4:
        raise ValueError(f"priority is 0 (highest) to 4, not {priority!r}")
    for name, kind in (("type", Type), ("status", Status)):
        if name in values and values[name] not in get_args(kind):
            raise ValueError(f"no {name} {values[name]!r}; there are {', '.join(get_args(kind))}")


def _block(connection: sqlite3.Connection, issue: int, blockers: Iterable[int]) -> None:
    for blocker in dict.fromkeys(blockers):
        _one(connection, blocker)
        # The issue must not be among the direct and indirect blockers of its blocker.
        circle = connection.execute(
            "WITH RECURSIVE before (id) AS"
            " (VALUES (?) UNION SELECT blocker FROM blockers JOIN before ON issue = id)"
            " SELECT 1 FROM before WHERE id = ?",
            (blocker, issue),
        ).fetchone()
        if circle:
            raise ValueError(f"issue {issue} cannot wait for {blocker}, which waits for {issue} itself")
        connection.execute("INSERT INTO blockers VALUES (?, ?)", (issue, blocker))


def _one(connection: sqlite3.Connection, id: int) -> Issue:
    found = _issues(connection, "id = ?", (id,))
    if not found:
        raise LookupError(f"no issue {id!r}; list() shows those there are")
    return found[0]


def _issues(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> builtins.list[Issue]:
    columns = "id, title, description, type, status, priority, reason, created, updated"
    sql = f"SELECT {columns} FROM issues WHERE {where} ORDER BY priority, id"
    waits: dict[int, builtins.list[int]] = {}
    for issue, blocker in connection.execute("SELECT issue, blocker FROM blockers"):
        waits.setdefault(issue, []).append(blocker)
    return [Issue(*(*row, tuple(waits.get(row[0], ())))) for row in connection.execute(sql, values)]
