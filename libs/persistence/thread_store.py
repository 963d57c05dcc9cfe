"""Stores values and files for the programs of a thread."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from libs.persistence.file_content import DEFAULT_MODE, FileContent, mode_of
from libs.persistence.thread_database import Database, Do

__all__ = ["ThreadStore", "TooMuch"]

MOST_PATH = 1_000
"""Characters of the path of a file."""
MOST_KEY = 200
"""Characters of a key."""
MOST_VALUE = 1024 * 1024
"""Bytes of a value as JSON."""
MOST_KEYS = 1_000
"""Keys of a thread."""
MOST_FILES = 1_000
"""Files of a thread."""
MOST_FILE_BYTES = 64 * 1024 * 1024
"""Bytes of all files of a thread."""


class TooMuch(ValueError):
    """A limit is exceeded; the message names the limit."""


class ThreadStore:
    """Stores both in a database. Threads cannot see each other's data.

    All methods raise CheckpointerUnavailable if the database cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        binary = "BYTEA" if database.kind == "postgres" else "BLOB"
        database.needs(
            "CREATE TABLE IF NOT EXISTS thread_values (thread TEXT NOT NULL, name TEXT NOT NULL, "
            "value TEXT NOT NULL, PRIMARY KEY (thread, name))",
            "CREATE TABLE IF NOT EXISTS thread_files (thread TEXT NOT NULL, path TEXT NOT NULL, "
            f"content {binary} NOT NULL, PRIMARY KEY (thread, path))",
            # Of files whose mode is not DEFAULT_MODE. Older databases have files without modes.
            "CREATE TABLE IF NOT EXISTS thread_file_modes (thread TEXT NOT NULL, path TEXT NOT NULL, "
            "mode INTEGER NOT NULL, PRIMARY KEY (thread, path))",
        )

    # -- values

    async def get(self, thread: str, name: str) -> str | None:
        """Return the JSON under a key; None if the key is missing."""

        def work(do: Do) -> str | None:
            sql = "SELECT value FROM thread_values WHERE thread = ? AND name = ?"
            rows = do(sql, thread, name) if _is_name(name, MOST_KEY) else []
            return str(rows[0][0]) if rows else None

        return await self._database.awaited(work)

    async def put(self, thread: str, name: str, value: str) -> None:
        """Store JSON under a key; the value is committed when this returns.

        Raises:
            TooMuch: the key, the value or the number of keys is over its limit.
            ValueError: the value is not JSON.
        """
        _check_name("key", name, MOST_KEY)
        if len(value.encode()) > MOST_VALUE:
            raise TooMuch(f"a value has at most {MOST_VALUE:,} bytes as JSON")
        _check_json(value)

        def work(do: Do) -> None:
            _set(do, _VALUES, thread, {name: value})
            [(count,)] = do("SELECT count(*) FROM thread_values WHERE thread = ?", thread)
            if count > MOST_KEYS:
                raise TooMuch(f"a thread has at most {MOST_KEYS:,} keys: delete some")

        await self._database.awaited(work)

    async def delete(self, thread: str, name: str) -> bool:
        """Remove a key; return whether the key existed."""

        def work(do: Do) -> bool:
            sql = "DELETE FROM thread_values WHERE thread = ? AND name = ? RETURNING name"
            return _is_name(name, MOST_KEY) and bool(do(sql, thread, name))

        return await self._database.awaited(work)

    async def names(self, thread: str) -> list[str]:
        """Return all keys, sorted."""

        def work(do: Do) -> list[str]:
            rows = do("SELECT name FROM thread_values WHERE thread = ?", thread)
            return sorted(str(row[0]) for row in rows)

        return await self._database.awaited(work)

    async def values(self, thread: str) -> Mapping[str, str]:
        """Return key -> JSON."""

        def work(do: Do) -> dict[str, str]:
            rows = do("SELECT name, value FROM thread_values WHERE thread = ?", thread)
            return {str(name): str(value) for name, value in rows}

        return await self._database.awaited(work)

    # -- files

    async def files(self, thread: str) -> Mapping[str, bytes]:
        """Return relative path -> content, with its mode: see `mode_of`."""

        def work(do: Do) -> dict[str, bytes]:
            rows = do(
                "SELECT files.path, content, mode FROM thread_files files LEFT JOIN thread_file_modes modes "
                "ON modes.thread = files.thread AND modes.path = files.path WHERE files.thread = ?",
                thread,
            )
            return {
                str(path): FileContent(content, DEFAULT_MODE if mode is None else mode)
                for path, content, mode in rows
            }

        return await self._database.awaited(work)

    async def parts(self, thread: str, parts: Sequence[tuple[str, int, int]]) -> list[bytes]:
        """Return parts of files. Each is given by path, offset and length; empty if the file is gone."""

        def work(do: Do) -> list[bytes]:
            found = []
            for path, offset, length in parts:
                rows = do(
                    "SELECT substr(content, ?, ?) FROM thread_files WHERE thread = ? AND path = ?",
                    *(offset + 1, length, thread, path),
                )
                found.append(bytes(rows[0][0] or b"") if rows else b"")
            return found

        return await self._database.awaited(work)

    async def keep(self, thread: str, changed: Mapping[str, bytes], removed: tuple[str, ...]) -> None:
        """Store and remove files, in one transaction.

        Raises:
            TooMuch: the thread would have more than MOST_FILES or MOST_FILE_BYTES, or a path is too long.
        """
        for path in (*changed, *removed):
            _check_name("path", path, MOST_PATH)

        def work(do: Do) -> None:
            _set_files(do, thread, {**dict.fromkeys(removed), **changed})
            [(count, size)] = do(
                "SELECT count(*), coalesce(sum(length(content)), 0) FROM thread_files WHERE thread = ?",
                thread,
            )
            if count > MOST_FILES:
                raise TooMuch(f"the thread has {count:,} files, at most {MOST_FILES:,} are kept")
            if size > MOST_FILE_BYTES:
                raise TooMuch(
                    f"the files of the thread have {size:,} bytes, at most {MOST_FILE_BYTES:,} are kept"
                )

        await self._database.awaited(work)

    # -- both

    async def bring(
        self, thread: str, files: Mapping[str, bytes | None], values: Mapping[str, str | None]
    ) -> None:
        """Bring back earlier files and values, in one transaction; None removes. No limit is checked."""

        def work(do: Do) -> None:
            _set_files(do, thread, files)
            _set(do, _VALUES, thread, values)

        await self._database.awaited(work)

    async def copy(self, source: str, target: str) -> None:
        """Copy values and files to a copy of the thread; existing ones there stay."""

        def work(do: Do) -> None:
            do(
                "INSERT INTO thread_file_modes SELECT ?, path, mode FROM thread_file_modes modes "
                "WHERE thread = ? AND NOT EXISTS "
                "(SELECT 1 FROM thread_files WHERE thread = ? AND path = modes.path)",
                *(target, source, target),
            )
            for table, name, content in (_VALUES, _FILES):
                do(
                    f"INSERT INTO {table} (thread, {name}, {content}) "  # noqa: S608
                    f"SELECT ?, {name}, {content} FROM {table} "
                    "WHERE thread = ? ON CONFLICT DO NOTHING",
                    *(target, source),
                )

        await self._database.awaited(work)

    async def forget(self, thread: str) -> None:
        """Remove all values and files of a deleted thread."""

        def work(do: Do) -> None:
            do("DELETE FROM thread_values WHERE thread = ?", thread)
            do("DELETE FROM thread_files WHERE thread = ?", thread)
            do("DELETE FROM thread_file_modes WHERE thread = ?", thread)

        await self._database.awaited(work)


_VALUES = "thread_values", "name", "value"
_FILES = "thread_files", "path", "content"
"""A table, and its columns besides `thread`."""


def _set_files(do: Do, thread: str, contents: Mapping[str, bytes | None]) -> None:
    """Set files of a thread with their modes; None removes."""
    for path, content in contents.items():
        do("DELETE FROM thread_file_modes WHERE thread = ? AND path = ?", thread, path)
        if content is not None and (mode := mode_of(content)) != DEFAULT_MODE:
            do("INSERT INTO thread_file_modes VALUES (?, ?, ?)", thread, path, mode)
    _set(do, _FILES, thread, contents)


def _set(
    do: Do, columns: tuple[str, str, str], thread: str, contents: Mapping[str, bytes | str | None]
) -> None:
    """Set rows of a thread; None removes."""
    table, name, content = columns
    for key, value in contents.items():
        if value is None:
            do(f"DELETE FROM {table} WHERE thread = ? AND {name} = ?", thread, key)  # noqa: S608
        else:
            do(
                f"INSERT INTO {table} VALUES (?, ?, ?) "  # noqa: S608
                f"ON CONFLICT (thread, {name}) DO UPDATE SET {content} = excluded.{content}",
                *(thread, key, value),
            )


def _check_name(what: str, name: str, most: int) -> None:
    if not _is_name(name, most):
        raise TooMuch(f"a {what} has 1 to {most:,} characters, and none of them is NUL")


def _is_name(name: str, most: int) -> bool:
    """Return whether both databases can store a name; half of a surrogate pair is not a character."""
    halves = any("\ud800" <= char <= "\udfff" for char in name)
    return 1 <= len(name) <= most and "\0" not in name and not halves


def _check_json(value: str) -> None:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    try:
        json.loads(value, parse_constant=refuse)
    except RecursionError:
        raise TooMuch("the value is nested too deeply") from None
