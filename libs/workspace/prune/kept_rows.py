"""Says which captures of the ledger are needed, and removes others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from libs.persistence.thread_database import Do
from libs.workspace import in_parts
from libs.workspace.ledger import packed, thread_workspace, unpacked

__all__ = ["TURNS", "KeptRow", "forget_tickets", "kept_rows", "remove_rows"]


@dataclass(frozen=True, slots=True)
class KeptRow:
    """A capture of the ledger."""

    number: int
    workspace: str
    manifest: str
    named: bool
    """Whether a ticket names it, or it is the latest capture of a workspace that still exists."""
    needed: bool
    """Whether the latest state of a thread or an undo needs it, or it is the latest of a workspace."""


def kept_rows(do: Do) -> list[KeptRow]:
    """Return all captures, the oldest first."""
    rows = do("SELECT number, workspace, manifest FROM workspace_captures ORDER BY number")
    alive = {thread_workspace(str(row[0])) for row in do("SELECT DISTINCT thread FROM workspace_tickets")}
    latest = {
        number
        for workspace, number in do(
            "SELECT workspace, max(number) FROM workspace_captures GROUP BY workspace"
        )
        if workspace in alive or not workspace.startswith(thread_workspace(""))
    }
    named = {row[0] for row in do("SELECT DISTINCT number FROM workspace_tickets")} | latest
    needed = {row[0] for row in do(_NEEDED)} | latest
    return [
        KeptRow(number, workspace, manifest, named=number in named, needed=number in needed)
        for number, workspace, manifest in rows
    ]


def remove_rows(do: Do, numbers: Collection[int]) -> None:
    """Remove captures. What they changed counts as changed by the next capture of the same workspace."""
    gone = set(numbers)
    places = {str(row[0]) for row in in_parts(do, _WORKSPACES, gone)}
    for workspace in sorted(places):
        carried: dict[str, set[str]] = {}
        is_first = True
        for (number,) in do(_NUMBERS, workspace):
            if number in gone:
                # Nobody can go back to before the first capture.
                if not is_first:
                    _merge(carried, do, number)
                continue
            is_first = False
            if carried:
                _merge(carried, do, number)
                changes = packed({who: sorted(paths) for who, paths in carried.items()})
                do("UPDATE workspace_captures SET changes = ? WHERE number = ?", changes, number)
                carried = {}
    in_parts(do, "DELETE FROM workspace_captures WHERE number IN ({})", gone)


def forget_tickets(do: Do, thread: str) -> set[int]:
    """Remove the tickets of a deleted thread. Return the captures that they named."""
    numbers = {
        row[0]
        for row in do("SELECT number FROM workspace_tickets WHERE thread = ?", thread)
        if row[0] is not None
    }
    for table in _OF_THREAD:
        do(f"DELETE FROM {table} WHERE thread = ?", thread)  # noqa: S608
    own = do("SELECT number FROM workspace_captures WHERE workspace = ?", thread_workspace(thread))
    return numbers | {row[0] for row in own}


def _merge(into: dict[str, set[str]], do: Do, number: int) -> None:
    ((changes,),) = do("SELECT changes FROM workspace_captures WHERE number = ?", number)
    for who, paths in unpacked(changes).items():
        into.setdefault(who, set()).update(paths)


_OF_THREAD = (
    *("workspace_tickets", "workspace_heads", "workspace_ways_back", "workspace_moves", "workspace_restores"),
    *("workspace_news", "workspace_claims"),
)
_NUMBERS = "SELECT number FROM workspace_captures WHERE workspace = ? ORDER BY number"
_WORKSPACES = "SELECT DISTINCT workspace FROM workspace_captures WHERE number IN ({})"
_UP_TO = (
    "(SELECT t.number FROM workspace_tickets t WHERE t.thread = w.thread AND t.id <= w.{} "
    "AND t.number IS NOT NULL ORDER BY t.id DESC LIMIT 1)"
)
_NEEDED = (
    "SELECT number FROM workspace_tickets WHERE (thread, id) IN "  # noqa: S608
    "(SELECT thread, max(id) FROM workspace_tickets WHERE number IS NOT NULL GROUP BY thread) "
    f"UNION SELECT {_UP_TO.format('before')} FROM workspace_tickets w WHERE (w.thread, w.id) IN "
    "(SELECT thread, max(id) FROM workspace_tickets GROUP BY thread) AND w.turn = 2 "
    f"UNION SELECT {_UP_TO.format('wanted')} FROM workspace_heads w "
    f"UNION SELECT {_UP_TO.format('ticket')} FROM workspace_ways_back w "
    f"UNION SELECT {_UP_TO.format('before')} FROM workspace_moves w"
)
"""Captures of the newest ticket of each thread, of the ticket before it if a question may wait about what was
changed between both, of its latest checkpoint, of its undo and of its unfinished move."""
TURNS = (
    "SELECT w.thread, count(*) FROM workspace_tickets w WHERE w.turn = 1 "  # noqa: S608
    f"AND {_UP_TO.format('id')} IN (SELECT number FROM workspace_captures) GROUP BY w.thread"
)
"""Number of turns of each thread that can be gone back to."""
