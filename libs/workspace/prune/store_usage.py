"""Says what is kept for each thread."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from libs.persistence.thread_database import Database, Do
from libs.workspace.prune.kept_rows import TURNS
from libs.workspace.prune.manifest_scan import left_out, named_contents

__all__ = ["ThreadUse", "thread_uses"]


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """What is kept for a thread."""

    thread: str
    turns: int
    """Turns that can be gone back to: the files before them are kept."""
    newest: str
    """The newest ticket: see `made_at`."""
    size: int
    """Bytes of all contents that its captures name. Several threads may name the same contents."""
    not_kept: Mapping[str, str]
    """Paths that its newest capture leaves out, each with the reason."""


async def thread_uses(database: Database) -> list[ThreadUse]:
    """Return what is kept for each thread, the thread with the newest capture first.

    Raises:
        CheckpointerUnavailable: the database cannot be used.
    """
    return await asyncio.to_thread(_uses, database)


def _uses(database: Database) -> list[ThreadUse]:
    def read(
        do: Do,
    ) -> tuple[list[tuple[Any, ...]], dict[str, str], dict[Any, int], dict[Any, int], dict[Any, str]]:
        named = do(
            "SELECT DISTINCT t.thread, c.manifest FROM workspace_tickets t "
            "JOIN workspace_captures c ON c.number = t.number"
        )
        newest = do("SELECT thread, max(id) FROM workspace_tickets GROUP BY thread")
        sizes = do("SELECT sha256, size FROM workspace_contents")
        latest = do(
            "SELECT t.thread, c.manifest FROM workspace_tickets t JOIN workspace_captures c "
            "ON c.number = t.number WHERE (t.thread, t.id) IN (SELECT thread, max(id) "
            "FROM workspace_tickets WHERE number IS NOT NULL GROUP BY thread)"
        )
        tickets = {str(name): str(ticket) for name, ticket in newest}
        return named, tickets, dict(do(TURNS)), dict(sizes), dict(latest)

    named, newest, turns, sizes, latest = database.wait(read)
    threads: defaultdict[str, list[str]] = defaultdict(list)
    for thread, manifest in named:
        threads[manifest].append(thread)
    contents: defaultdict[str, set[str]] = defaultdict(set)
    for name, _, digests in named_contents(database):
        for thread in threads[name]:
            contents[thread] |= digests
    uses = [
        ThreadUse(
            *(thread, turns.get(thread, 0), ticket),
            sum(sizes.get(each, 0) for each in contents[thread]),
            left_out(database, latest[thread]) if thread in latest else {},
        )
        for thread, ticket in newest.items()
    ]
    return sorted(uses, key=lambda use: use.newest, reverse=True)
