"""Keeps where each thread is among its tickets, and its way back after it went to another one."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from libs.persistence.thread_database import Database, Do
from libs.workspace.ledger.tickets import START

__all__ = ["Move", "News", "ThreadPlaces", "WayBack", "head_of", "set_head_of"]


@dataclass(frozen=True, slots=True)
class WayBack:
    """Where a thread was before it went back."""

    ticket: str
    """Names the files."""
    checkpoint: str
    """The latest checkpoint then."""
    since: str
    """The latest checkpoint after going back. If the thread has a later checkpoint, a turn has begun."""
    files_only: bool = False
    """Whether the conversation stayed where it was."""


@dataclass(frozen=True, slots=True)
class Move:
    """A way back that a thread has begun, and not finished."""

    wanted: str
    """The ticket in the latest checkpoint before."""
    before: str
    """Names the files before."""


@dataclass(frozen=True, slots=True)
class News:
    """A note for the model about files that were brought back."""

    id: str
    text: str


class ThreadPlaces:
    """Methods raise CheckpointerUnavailable if the database cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.needs(
            # wanted: the ticket in the latest checkpoint of the thread.
            # moves: how often the thread has gone back.
            "CREATE TABLE IF NOT EXISTS workspace_heads (thread TEXT PRIMARY KEY, ticket TEXT NOT NULL, "
            "wanted TEXT NOT NULL, moves INTEGER NOT NULL)",
            # Each return adds a row, which an undo removes.
            "CREATE TABLE IF NOT EXISTS workspace_ways_back (thread TEXT NOT NULL, number INTEGER NOT NULL, "
            "ticket TEXT NOT NULL, checkpoint TEXT NOT NULL, since TEXT NOT NULL, "
            "files_only INTEGER NOT NULL, PRIMARY KEY (thread, number))",
            "CREATE TABLE IF NOT EXISTS workspace_moves (thread TEXT PRIMARY KEY, wanted TEXT NOT NULL, "
            "before TEXT NOT NULL)",
            "CREATE TABLE IF NOT EXISTS workspace_news (thread TEXT PRIMARY KEY, id TEXT NOT NULL, "
            "text TEXT NOT NULL)",
            # What the unfinished moves write.
            "CREATE TABLE IF NOT EXISTS workspace_restores (thread TEXT PRIMARY KEY, "
            "workspace TEXT NOT NULL, manifest TEXT NOT NULL)",
        )

    async def head(self, thread: str) -> str | None:
        """Return the ticket at which the files of a thread are; START for before its first turn.

        None: the thread has no tickets.
        """
        return await self._database.awaited(lambda do: head_of(do, thread))

    async def set_head(self, thread: str, ticket: str | None, *, moved: bool = False) -> None:
        """Note the ticket to which the files of a thread belong; None: they are as before its first turn.

        Args:
            moved: the files were brought back to it. What was told of earlier moves is removed.
        """

        def work(do: Do) -> None:
            set_head_of(do, thread, ticket or START)
            if moved:
                do("UPDATE workspace_heads SET moves = moves + 1 WHERE thread = ?", thread)
                do("DELETE FROM workspace_news WHERE thread = ?", thread)

        await self._database.awaited(work)

    async def tell(self, thread: str, text: str) -> None:
        """Keep a note for the model about the latest move of a thread, in place of an earlier note."""
        await self._database.awaited(
            lambda do: do(
                "INSERT INTO workspace_news VALUES (?, ?, ?) ON CONFLICT (thread) DO UPDATE "
                "SET id = excluded.id, text = excluded.text",
                *(thread, secrets.token_hex(8), text),
            )
        )

    async def news(self, thread: str) -> News | None:
        """Return the note of `tell`, until the files of the thread are brought back again."""

        def work(do: Do) -> News | None:
            rows = do("SELECT id, text FROM workspace_news WHERE thread = ?", thread)
            return News(*map(str, rows[0])) if rows else None

        return await self._database.awaited(work, reads=True)

    async def moves(self, thread: str) -> int:
        """Return how often a thread has gone back, in any program."""

        def work(do: Do) -> int:
            rows = do("SELECT moves FROM workspace_heads WHERE thread = ?", thread)
            return int(rows[0][0]) if rows else 0

        return await self._database.awaited(work, reads=True)

    async def way_back(self, thread: str) -> WayBack | None:
        """Return the way back of a thread that has gone back; of several returns, that of the latest."""

        def work(do: Do) -> WayBack | None:
            rows = do(f"SELECT ticket, checkpoint, since, files_only {_LATEST_WAY}", thread)
            if not rows:
                return None
            ticket, checkpoint, since, files_only = rows[0]
            return WayBack(str(ticket), str(checkpoint), str(since), bool(files_only))

        return await self._database.awaited(work)

    async def add_way_back(self, thread: str, way: WayBack) -> None:
        """Keep the way back of a thread beside those of earlier returns."""

        def work(do: Do) -> None:
            rows = do(f"SELECT number {_LATEST_WAY}", thread)
            number = rows[0][0] + 1 if rows else 1
            values = (thread, number, way.ticket, way.checkpoint, way.since, int(way.files_only))
            do("INSERT INTO workspace_ways_back VALUES (?, ?, ?, ?, ?, ?)", *values)

        await self._database.awaited(work)

    async def end_way_back(self, thread: str, since: str) -> None:
        """Remove the latest way back of a thread, which it went. `since`: its latest checkpoint now."""

        def work(do: Do) -> None:
            for (number,) in do(f"SELECT number {_LATEST_WAY}", thread):
                do("DELETE FROM workspace_ways_back WHERE thread = ? AND number = ?", thread, number)
            for (number,) in do(f"SELECT number {_LATEST_WAY}", thread):
                do(
                    "UPDATE workspace_ways_back SET since = ? WHERE thread = ? AND number = ?",
                    *(since, thread, number),
                )

        await self._database.awaited(work)

    async def begin_move(self, thread: str, before: str, workspace: str, target: str) -> None:
        """Note that the files of a thread are about to be brought back. `before`: names them as they are.

        After a move that was not finished, `Move.wanted` stays that of the first.

        Args:
            target: the manifest to which they are brought.
        """

        def work(do: Do) -> None:
            rows = do("SELECT before FROM workspace_tickets WHERE thread = ? AND id = ?", thread, before)
            do(
                "INSERT INTO workspace_moves VALUES (?, ?, ?) ON CONFLICT (thread) DO NOTHING",
                *(thread, str(rows[0][0]) if rows else START, before),
            )
            do(
                "INSERT INTO workspace_restores VALUES (?, ?, ?) ON CONFLICT (thread) DO UPDATE "
                "SET workspace = excluded.workspace, manifest = excluded.manifest",
                *(thread, workspace, target),
            )

        await self._database.awaited(work)

    async def unfinished_move(self, thread: str) -> Move | None:
        """Return the move of a thread that has begun and not ended."""

        def work(do: Do) -> Move | None:
            rows = do("SELECT wanted, before FROM workspace_moves WHERE thread = ?", thread)
            return Move(*map(str, rows[0])) if rows else None

        return await self._database.awaited(work)

    async def end_move(self, thread: str) -> None:
        """Note that files and conversation of a thread fit together again."""

        def work(do: Do) -> None:
            for table in ("workspace_moves", "workspace_restores"):
                do(f"DELETE FROM {table} WHERE thread = ?", thread)  # noqa: S608

        await self._database.awaited(work)

    async def unfinished_restores(self, workspace: str) -> list[tuple[str, str]]:
        """Return threads whose files may be brought back in part, each with the manifest wanted."""

        def work(do: Do) -> list[tuple[str, str]]:
            rows = do("SELECT thread, manifest FROM workspace_restores WHERE workspace = ?", workspace)
            return [(str(thread), str(manifest)) for thread, manifest in rows]

        return await self._database.awaited(work)


_LATEST_WAY = "FROM workspace_ways_back WHERE thread = ? ORDER BY number DESC LIMIT 1"


def head_of(do: Do, thread: str) -> str | None:
    rows = do("SELECT ticket FROM workspace_heads WHERE thread = ?", thread)
    return str(rows[0][0]) if rows else None


def set_head_of(do: Do, thread: str, ticket: str) -> None:
    do(
        "INSERT INTO workspace_heads VALUES (?, ?, ?, 0) ON CONFLICT (thread) DO UPDATE "
        "SET ticket = excluded.ticket, wanted = excluded.wanted",
        *(thread, ticket, ticket),
    )
