"""Keeps all messages of threads, and finds those near to a question by meaning or by words."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from libs.persistence.persistence_errors import CheckpointerUnavailable
from libs.persistence.thread_database import Database, Do
from libs.persistence.word_search import find_words, searchable

if TYPE_CHECKING:
    from libs.persistence.message_vectors import Scope

__all__ = ["Embedder", "Kept", "MessageMemory", "Recall", "Said"]

logger = logging.getLogger(__name__)

_MOST_TEXT = 20_000
"""Characters of a message that are kept; longer messages are cut."""
_AT_ONCE = 200
"""Messages that are embedded with one request."""
_FOUND = "m.id, m.thread, m.role, m.body, m.said_at"


class Embedder(Protocol):
    """Turns texts into vectors that are near for similar meanings. LangChain's `Embeddings` fits."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]: ...
    async def aembed_query(self, text: str) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class Said:
    """A message to keep."""

    id: str
    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A message that was kept."""

    thread: str
    role: str
    text: str
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Recall:
    """The messages found for a question."""

    messages: Sequence[Kept]
    how: Literal["meaning", "words"]
    note: str = ""
    """Why the search was by words and not by meaning."""


class MessageMemory:
    """Keeps messages of threads in a database.

    A message survives a kill of this process once `keep` has returned. All methods raise
    CheckpointerUnavailable if the database cannot be used.

    Args:
        database: stores the messages.
        embedder: enables search by meaning; None searches by words.
        label: the embedder's name. Vectors of another embedder are computed again.
        patience: seconds for a search by meaning, including missing vectors; after that the search is by
            words. Vectors computed in that time are kept.
    """

    def __init__(
        self,
        database: Database,
        embedder: Embedder | None = None,
        *,
        label: str = "",
        patience: float = 10,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._label = label
        self._patience = patience
        database.needs(*_schema(database.kind))

    async def keep(self, thread: str, said: Sequence[Said], *, owner: str = "") -> None:
        """Keep messages; a message whose thread and id are known is skipped."""
        rows = [(each.id, each.role, _plain(each.text)) for each in said if each.text.strip()]
        if not rows:
            return

        def work(do: Do) -> None:
            for row in rows:
                do(
                    "INSERT INTO thread_messages (thread, owner, id, role, body, said_at) "
                    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread, id) DO NOTHING",
                    *(thread, owner, *row, time.time()),
                )

        await self._database.awaited(work)

    async def last(self, thread: str, count: int) -> list[Kept]:
        """Return the newest messages of a thread, oldest of them first."""

        def work(do: Do) -> list[Kept]:
            rows = do(
                f"SELECT {_FOUND} FROM thread_messages m WHERE m.thread = ? "  # noqa: S608
                "ORDER BY m.number DESC LIMIT ?",
                *(thread, count),
            )
            return [Kept(*row[1:]) for row in reversed(rows)]

        return await self._database.awaited(work)

    async def recall(
        self,
        question: str,
        count: int,
        *,
        thread: str | None = None,
        owner: str = "",
        besides: Sequence[str] = (),
    ) -> Recall:
        """Return the messages nearest to a question, nearest first.

        Args:
            question: what to search for.
            count: how many at most.
            thread: search one thread; None searches all threads of the owner.
            owner: whose threads are searched.
            besides: ids of messages to leave out.
        """
        scope = ("thread", thread) if thread is not None else ("owner", owner)
        question, note = _plain(question), "no EMBEDDER is set"
        if self._embedder is not None:
            try:
                async with asyncio.timeout(self._patience):
                    rows = await self._by_meaning(self._embedder, question, 2 * count + len(besides), scope)
                    return Recall(_chosen(rows, count, besides), "meaning")
            except CheckpointerUnavailable:
                raise
            except TimeoutError:
                note = f"{self._label} takes too long"
            except Exception as error:  # noqa: BLE001 - providers raise what they like; words need none
                logger.warning("messages cannot be found by meaning with %s: %s", self._label, error)
                note = f"{self._label} does not answer"

        def work(do: Do) -> list[tuple[Any, ...]]:
            kind, most = self._database.kind, 2 * count + len(besides)
            return find_words(do, kind, question, scope=scope, count=most, columns=_FOUND)

        return Recall(_chosen(await self._database.awaited(work), count, besides), "words", note)

    async def forget_others(self, thread: str, ids: Collection[str]) -> None:
        """Remove the messages of a thread except those with these ids: it has gone back."""

        def work(do: Do) -> None:
            known = {str(row[0]) for row in do("SELECT id FROM thread_messages WHERE thread = ?", thread)}
            for gone in known.difference(ids):
                do(
                    "DELETE FROM message_vectors WHERE number IN "
                    "(SELECT number FROM thread_messages WHERE thread = ? AND id = ?)",
                    *(thread, gone),
                )
                do("DELETE FROM thread_messages WHERE thread = ? AND id = ?", thread, gone)

        await self._database.awaited(work)

    async def copy(self, source: str, target: str) -> None:
        """Copy the messages of a thread to a copy of the thread."""

        def work(do: Do) -> None:
            do(
                "INSERT INTO thread_messages (thread, owner, id, role, body, said_at) "
                "SELECT ?, owner, id, role, body, said_at FROM thread_messages WHERE thread = ? "
                "ORDER BY number ON CONFLICT DO NOTHING",
                *(target, source),
            )
            do(
                "INSERT INTO message_vectors (number, thread, owner, embedder, vector) "
                "SELECT n.number, n.thread, n.owner, v.embedder, v.vector FROM thread_messages n "
                "JOIN thread_messages m ON m.thread = ? AND m.id = n.id "
                "JOIN message_vectors v ON v.number = m.number WHERE n.thread = ? ON CONFLICT DO NOTHING",
                *(source, target),
            )

        await self._database.awaited(work)

    async def forget(self, thread: str) -> None:
        """Remove all messages of a deleted thread."""

        def work(do: Do) -> None:
            do("DELETE FROM message_vectors WHERE thread = ?", thread)
            do("DELETE FROM thread_messages WHERE thread = ?", thread)

        await self._database.awaited(work)

    # -- by meaning

    async def _by_meaning(
        self, embedder: Embedder, question: str, count: int, scope: Scope
    ) -> list[tuple[Any, ...]]:
        from libs.persistence.message_vectors import nearest  # numpy takes a tenth of a second to import

        asked = await embedder.aembed_query(question)
        # The length is part of the label: another model behind the same name may give other lengths.
        label = f"{self._label}/{len(asked)}"

        def look(do: Do) -> tuple[list[tuple[int, str]], list[tuple[Any, ...]]]:
            """Return messages without a vector; if all have one, the rows that are found."""
            if rows := _without_vector(do, scope, label):
                return rows, []
            numbers = nearest(do, scope, label, asked, count)
            marks = ", ".join("?" * len(numbers)) or "0"
            found = do(
                f"SELECT m.number, {_FOUND} FROM thread_messages m WHERE m.number IN ({marks})",  # noqa: S608
                *numbers,
            )
            by_number = {row[0]: row[1:] for row in found}
            return [], [by_number[number] for number in numbers if number in by_number]

        while True:
            missing, found = await self._database.awaited(look)
            if not missing:
                return found
            await self._embed(embedder, label, missing)

    async def _embed(self, embedder: Embedder, label: str, missing: Sequence[tuple[int, str]]) -> None:
        """Compute and store the vectors of messages."""
        from libs.persistence.message_vectors import packed

        made = await embedder.aembed_documents([body for _, body in missing])
        if any(not label.endswith(f"/{len(vector)}") for vector in made):
            raise ValueError("the embedder gave vectors of several lengths")
        done = [(number, packed(vector)) for (number, _), vector in zip(missing, made, strict=True)]

        def work(do: Do) -> None:
            for number, vector in done:  # the SELECT skips messages deleted meanwhile
                do(
                    "INSERT INTO message_vectors (number, thread, owner, embedder, vector) "
                    "SELECT number, thread, owner, ?, ? FROM thread_messages WHERE number = ? "
                    "ON CONFLICT (number) DO UPDATE SET embedder = excluded.embedder, "
                    "vector = excluded.vector",
                    *(label, vector, number),
                )

        await self._database.awaited(work)


def _without_vector(do: Do, scope: Scope, label: str) -> list[tuple[int, str]]:
    """Return numbers and texts of the first messages that have no vector of this label."""
    column, whose = scope
    rows = do(
        f"SELECT m.number, m.body FROM thread_messages m WHERE m.{column} = ? AND NOT EXISTS "  # noqa: S608
        "(SELECT 1 FROM message_vectors v WHERE v.number = m.number AND v.embedder = ?) "
        "ORDER BY m.number LIMIT ?",
        *(whose, label, _AT_ONCE),
    )
    return [(int(number), str(body)) for number, body in rows]


def _plain(text: str) -> str:
    """Return the text in a form that both databases can store."""
    return text[:_MOST_TEXT].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _chosen(rows: Sequence[tuple[Any, ...]], count: int, besides: Sequence[str]) -> list[Kept]:
    """Return the first rows that are not in `besides`, each text once: copied threads share messages."""
    found: dict[str, Kept] = {}
    for row in rows:
        if row[0] not in besides:
            found.setdefault(row[3], Kept(*row[1:]))
    return list(found.values())[:count]


def _schema(kind: str) -> list[str]:
    number, binary = (
        ("BIGSERIAL PRIMARY KEY", "BYTEA")
        if kind == "postgres"
        else ("INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB")
    )
    return [
        f"CREATE TABLE IF NOT EXISTS thread_messages (number {number}, thread TEXT NOT NULL, "
        "owner TEXT NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL, body TEXT NOT NULL, "
        "said_at DOUBLE PRECISION NOT NULL, UNIQUE (thread, id))",
        "CREATE INDEX IF NOT EXISTS thread_messages_in ON thread_messages (thread, number)",
        "CREATE INDEX IF NOT EXISTS thread_messages_of ON thread_messages (owner, number)",
        "CREATE TABLE IF NOT EXISTS message_vectors (number BIGINT PRIMARY KEY, thread TEXT NOT NULL, "
        f"owner TEXT NOT NULL, embedder TEXT NOT NULL, vector {binary} NOT NULL)",
        "CREATE INDEX IF NOT EXISTS message_vectors_in ON message_vectors (thread, embedder, number)",
        "CREATE INDEX IF NOT EXISTS message_vectors_of ON message_vectors (owner, embedder, number)",
        *searchable(kind),
    ]
