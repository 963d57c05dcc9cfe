"""Keeps the captures of each workspace in order, with who changed what, and the tickets that name them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from libs.persistence.thread_database import Database, Do
from libs.workspace import manifest_missing
from libs.workspace.ledger.claims import Claims, check_claim
from libs.workspace.ledger.packed_changes import packed, unpacked
from libs.workspace.ledger.thread_places import ThreadPlaces, head_of, set_head_of
from libs.workspace.ledger.tickets import NOTHING_RAN, START, Ticket, made_at, new_ticket

__all__ = ["Ledger", "Row", "thread_workspace"]


@dataclass(frozen=True, slots=True)
class Row:
    """A capture in the order of its workspace."""

    number: int
    manifest: str
    changes: Mapping[str, list[str]] = field(default_factory=dict)
    """Thread -> paths that changed since the capture before, only while commands of this thread ran.
    The empty text -> all other paths that changed."""


def thread_workspace(thread: str) -> str:
    """Return the name of the workspace of one thread. The names of folders begin differently."""
    return f"thread {thread}"


class Ledger(ThreadPlaces):
    """Methods raise CheckpointerUnavailable if the database cannot be used."""

    def __init__(self, database: Database) -> None:
        """Use the database of a `Catalog`."""
        super().__init__(database)
        self.claims = Claims(database)
        postgres = database.kind == "postgres"
        number = "BIGSERIAL PRIMARY KEY" if postgres else "INTEGER PRIMARY KEY AUTOINCREMENT"
        binary = "BYTEA" if postgres else "BLOB"
        database.needs(
            f"CREATE TABLE IF NOT EXISTS workspace_captures (number {number}, workspace TEXT NOT NULL, "
            f"manifest TEXT NOT NULL, changes {binary} NOT NULL)",
            "CREATE INDEX IF NOT EXISTS workspace_captures_order ON workspace_captures (workspace, number)",
            "CREATE TABLE IF NOT EXISTS workspace_tickets (thread TEXT NOT NULL, id TEXT NOT NULL, "
            "number BIGINT, why TEXT, before TEXT NOT NULL, turn INTEGER NOT NULL, PRIMARY KEY (thread, id))",
            # A copy of a thread has the same tickets.
            "CREATE INDEX IF NOT EXISTS workspace_tickets_by_id ON workspace_tickets (id)",
        )

    async def open(
        self, thread: str, *, why: str | None = None, turn: bool = False, asks: bool = False
    ) -> str:
        """Keep a new ticket for a capture that is to be made, and return it.

        Args:
            why: why there is no capture yet.
            turn: whether a person's turn begins. Then the thread has no way back any more.
            asks: whether a question may wait about what has changed since the ticket before.
        """

        def work(do: Do) -> str:
            head = head_of(do, thread) or START
            [(latest,)] = do("SELECT max(id) FROM workspace_tickets WHERE thread = ?", thread)
            ticket = new_ticket(str(latest or START))
            do(
                "INSERT INTO workspace_tickets (thread, id, why, before, turn) VALUES (?, ?, ?, ?, ?)",
                *(thread, ticket, why, head, 1 if turn else 2 if asks else 0),
            )
            if turn:
                do("DELETE FROM workspace_ways_back WHERE thread = ?", thread)
            set_head_of(do, thread, ticket)
            return ticket

        return await self._database.awaited(work)

    async def explain(self, thread: str, tickets: Collection[str], why: str | None) -> None:
        """Note why tickets have no capture; None: it is being made."""

        def work(do: Do) -> None:
            for ticket in tickets:
                do(
                    "UPDATE workspace_tickets SET why = ? WHERE thread = ? AND id = ? AND number IS NULL",
                    *(why, thread, ticket),
                )

        await self._database.awaited(work)

    async def unused(self, thread: str, ticket: str) -> list[str]:
        """Return a ticket and those before it in its turn, if no command had run in the turn until then."""

        def work(do: Do) -> list[str]:
            found: list[str] = []
            at = ticket
            while at != START:
                rows = do(
                    "SELECT why, turn, before FROM workspace_tickets WHERE thread = ? AND id = ?", thread, at
                )
                if not rows or rows[0][0] != NOTHING_RAN:
                    return []
                found.append(at)
                at = START if rows[0][1] else str(rows[0][2])
            return found

        return await self._database.awaited(work)

    async def add(
        self,
        workspace: str,
        manifest: str,
        changes: Mapping[str, Collection[str]],
        thread: str,
        tickets: Collection[str],
        *,
        claim: int | None = None,
    ) -> int:
        """Keep a capture, and name it by tickets. An unchanged workspace gets no new row. Return its number.

        Args:
            claim: the generation of the sandbox that was captured, if it started empty: see `Claims`.

        Raises:
            ManifestMissing: the manifest was removed since it was captured, by a prune.
            ClaimLost: a later sandbox has claimed the thread. Nothing was kept.
        """

        def work(do: Do) -> int:
            self._database.serialize(do)
            if claim is not None:
                check_claim(do, thread, claim)
            if not do("SELECT 1 FROM workspace_manifests WHERE id = ? AND dropped = 0", manifest):
                raise manifest_missing(manifest)
            latest = _latest(do, workspace)
            if latest and latest[1] == manifest:
                number = latest[0]
            else:
                data = packed({who: sorted(paths) for who, paths in changes.items() if paths})
                do(
                    "INSERT INTO workspace_captures (workspace, manifest, changes) VALUES (?, ?, ?)",
                    *(workspace, manifest, data),
                )
                found = _latest(do, workspace)
                assert found is not None  # noqa: S101 - a row was added
                number = found[0]
            _name(do, number, thread, tickets)
            return number

        return await self._database.awaited(work)

    async def add_unchanged(self, workspace: str, thread: str, tickets: Collection[str]) -> Row | None:
        """Name the latest capture of a workspace by more tickets, and return it. None: there is none."""

        def work(do: Do) -> Row | None:
            self._database.serialize(do)
            latest = _latest(do, workspace)
            if latest is None:
                return None
            _name(do, latest[0], thread, tickets)
            return Row(*latest)

        return await self._database.awaited(work)

    async def captured_until(self, thread: str) -> float:
        """Return the time of the latest ticket with a capture, as `time.time`. 0: there is none."""

        def work(do: Do) -> float:
            [(latest,)] = do(
                "SELECT max(id) FROM workspace_tickets WHERE thread = ? AND number IS NOT NULL", thread
            )
            return made_at(str(latest)).timestamp() if latest else 0.0

        return await self._database.awaited(work, reads=True)

    async def knows(self, thread: str, ticket: str) -> bool:
        """Return whether a ticket of a thread is kept."""

        def work(do: Do) -> bool:
            return bool(do("SELECT 1 FROM workspace_tickets WHERE thread = ? AND id = ?", thread, ticket))

        return await self._database.awaited(work)

    async def latest(self, workspace: str) -> Row | None:
        """Return the latest capture of a workspace, without its changes."""

        def work(do: Do) -> Row | None:
            found = _latest(do, workspace)
            return Row(*found) if found else None

        return await self._database.awaited(work)

    async def at(self, thread: str, ticket: str | None) -> Ticket | None:
        """Return the latest ticket up to `ticket`, of those in whose turn a command has run.

        Without `ticket`: the first of them.
        """
        return await self._one(thread, ticket, "COALESCE(why, '') <> ?", NOTHING_RAN)

    async def kept_until(self, thread: str, ticket: str) -> Ticket | None:
        """Return the latest ticket with a capture, up to `ticket`."""
        return await self._one(thread, ticket, "number IS NOT NULL")

    async def _one(self, thread: str, ticket: str | None, condition: str, *values: str) -> Ticket | None:
        order = "id > ? ORDER BY id" if ticket is None else "id <= ? ORDER BY id DESC"

        def work(do: Do) -> Ticket | None:
            rows = do(
                f"SELECT id, number, why FROM workspace_tickets WHERE thread = ? AND {condition} "  # noqa: S608
                f"AND {order} LIMIT 1",
                *(thread, *values, ticket or ""),
            )
            return Ticket(*rows[0]) if rows else None

        return await self._database.awaited(work)

    async def before(self, thread: str, ticket: str) -> str:
        """Return the ticket at which the files of a thread were when `ticket` was made."""

        def work(do: Do) -> str:
            rows = do("SELECT before FROM workspace_tickets WHERE thread = ? AND id = ?", thread, ticket)
            return str(rows[0][0]) if rows else START

        return await self._database.awaited(work)

    async def row(self, number: int) -> Row | None:
        """Return a capture by its number, without its changes."""

        def work(do: Do) -> Row | None:
            rows = do("SELECT number, manifest FROM workspace_captures WHERE number = ?", number)
            return Row(*rows[0]) if rows else None

        return await self._database.awaited(work)

    async def since(self, workspace: str, number: int) -> list[Row]:
        """Return the captures of a workspace after another one, in their order."""

        def work(do: Do) -> list[Row]:
            rows = do(
                "SELECT number, manifest, changes FROM workspace_captures "
                "WHERE workspace = ? AND number > ? ORDER BY number",
                *(workspace, number),
            )
            return [Row(number, manifest, unpacked(changes)) for number, manifest, changes in rows]

        return await self._database.awaited(work)

    async def copy(self, source: str, target: str, *, shared: bool) -> None:
        """Give a copy of a thread the same tickets.

        Unless both have one workspace, the files come to the copy at the begin of its first run: see
        `WorkspaceHistory.arrive`. Until then they are as before a first turn.
        """

        def work(do: Do) -> None:
            do(
                "INSERT INTO workspace_tickets (thread, id, number, why, before, turn) "
                "SELECT ?, id, number, why, before, turn FROM workspace_tickets WHERE thread = ? "
                "ON CONFLICT DO NOTHING",
                *(target, source),
            )
            for ticket, wanted in do("SELECT ticket, wanted FROM workspace_heads WHERE thread = ?", source):
                do(
                    "INSERT INTO workspace_heads VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING",
                    *(target, ticket if shared else START, wanted),
                )
            do(
                "INSERT INTO workspace_news SELECT ?, id, text FROM workspace_news WHERE thread = ? "
                "ON CONFLICT DO NOTHING",
                *(target, source),
            )

        await self._database.awaited(work)


def _name(do: Do, number: int, thread: str, tickets: Collection[str]) -> None:
    """Name a capture by tickets."""
    for ticket in tickets:
        # Also in copies of the thread that were made while this capture was under way.
        do(
            "UPDATE workspace_tickets SET number = ?, why = NULL WHERE id = ? AND (thread = ? "
            "OR (number IS NULL AND why IS NULL))",
            *(number, ticket, thread),
        )


def _latest(do: Do, workspace: str) -> tuple[int, str] | None:
    rows = do(
        "SELECT number, manifest FROM workspace_captures WHERE workspace = ? ORDER BY number DESC LIMIT 1",
        workspace,
    )
    return (rows[0][0], rows[0][1]) if rows else None
