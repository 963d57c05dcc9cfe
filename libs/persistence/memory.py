"""What was said in threads, kept beyond what a model is sent, and found again by meaning or by words."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from libs.persistence.database import Database, Do
from libs.persistence.word_search import find_words

if TYPE_CHECKING:
    from libs.persistence.vectors import Vectors

__all__ = ["Embedder", "Kept", "MessageMemory", "Recall", "Said"]

logger = logging.getLogger(__name__)

_MOST_TEXT = 20_000
"""Characters of a message that are kept; what is longer is cut."""
_AT_ONCE = 200
"""Messages that are embedded with one request."""


class Embedder(Protocol):
    """Makes vectors of texts: those that mean the same are near each other. LangChain's `Embeddings` is
    one."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]: ...
    async def aembed_query(self, text: str) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class Said:
    """One message, to be kept."""

    id: str
    role: Literal["user", "assistant", "tool"]
    text: str


@dataclass(frozen=True, slots=True)
class Kept:
    """One message as it is found again."""

    thread: str
    role: str
    text: str
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Recall:
    """What was found."""

    messages: Sequence[Kept]
    how: Literal["meaning", "words"]
    note: str = ""
    """Why not by meaning, where it was by words."""


class MessageMemory:
    """Keeps messages of threads in a database.

    What is kept when `keep` returns stays, whatever becomes of this process. All methods raise
    CheckpointerUnavailable where the database cannot be used.

    Args:
        database: where.
        embedder: finds by meaning; None: by words.
        label: its name. Vectors of another one are made anew.
    """

    def __init__(self, database: Database, embedder: Embedder | None = None, *, label: str = "") -> None:
        self._database = database
        self._embedder = embedder
        self._label = label
        self._vectors: Vectors | None = None
        database.needs(*_schema(database.kind))

    async def keep(self, thread: str, said: Sequence[Said], *, owner: str = "") -> None:
        """Keep messages, each once: one of the same thread and id is there already."""
        rows = [each for each in said if each.text.strip()]
        if not rows:
            return

        def work(do: Do) -> None:
            for each in rows:
                do(
                    "INSERT INTO thread_messages (thread, owner, id, role, body, said_at) "
                    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread, id) DO NOTHING",
                    thread,
                    owner,
                    each.id,
                    each.role,
                    each.text[:_MOST_TEXT].replace("\0", "\ufffd").encode("utf-8", "replace").decode(),
                    time.time(),
                )

        await self._database.awaited(work)

    async def last(self, thread: str, count: int) -> list[Kept]:
        """The newest messages of a thread, in the order in which they were said."""

        def work(do: Do) -> list[Kept]:
            rows = do(
                "SELECT thread, role, body, said_at FROM thread_messages WHERE thread = ? "
                "ORDER BY number DESC LIMIT ?",
                thread,
                count,
            )
            return [Kept(*row) for row in reversed(rows)]

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
        """The messages nearest to a question, the nearest first.

        Args:
            count: how many at most.
            thread: only those of one thread; None: those of all threads of the owner.
            besides: ids of messages that are not to be found, as they are known anyway.
        """
        scope = ("thread = ?", thread) if thread is not None else ("owner = ?", owner)
        note = "no EMBEDDER is set"
        if self._embedder is not None:
            try:
                return Recall(
                    await self._by_meaning(self._embedder, question, count, scope, besides), "meaning"
                )
            except Exception as error:  # noqa: BLE001 - providers raise what they like; words are found without one
                logger.warning("messages cannot be found by meaning with %s: %s", self._label, error)
                note = f"{self._label} does not answer"
        return Recall(await self._by_words(question, count, scope, besides), "words", note)

    async def forget(self, thread: str) -> None:
        """Remove all messages of a thread that is gone for good."""

        def work(do: Do) -> None:
            do("DELETE FROM thread_messages WHERE thread = ?", thread)

        await self._database.awaited(work)
        if self._vectors:
            self._vectors.clear()

    # -- by words

    async def _by_words(
        self, question: str, count: int, scope: tuple[str, str], besides: Sequence[str]
    ) -> list[Kept]:

        def work(do: Do) -> list[Kept]:
            kind = self._database.kind
            rows = find_words(do, kind, question, scope=scope, count=count + len(besides))
            found = [Kept(*row[1:]) for row in rows if row[0] not in besides]
            return found[:count]

        return await self._database.awaited(work)

    # -- by meaning

    async def _by_meaning(
        self, embedder: Embedder, question: str, count: int, scope: tuple[str, str], besides: Sequence[str]
    ) -> list[Kept]:
        from libs.persistence.vectors import Vectors  # numpy takes a tenth of a second to import

        await self._embed(embedder, scope)
        vectors = self._vectors = self._vectors or Vectors(self._label)
        asked = await embedder.aembed_query(question[:_MOST_TEXT])
        where, whose = scope

        def work(do: Do) -> list[Kept]:
            numbers = vectors.nearest(do, scope, asked, count + len(besides))
            if not numbers:
                return []
            marks = ", ".join("?" * len(numbers))
            rows = do(
                f"SELECT number, id, thread, role, body, said_at FROM thread_messages WHERE {where} "  # noqa: S608
                f"AND number IN ({marks})",
                whose,
                *numbers,
            )
            by_number = {row[0]: row[1:] for row in rows}
            ordered = [by_number[number] for number in numbers if number in by_number]
            return [Kept(*row[1:]) for row in ordered if row[0] not in besides][:count]

        return await self._database.awaited(work)

    async def _embed(self, embedder: Embedder, scope: tuple[str, str]) -> None:
        """Make the vectors that are missing."""
        from libs.persistence.vectors import packed

        where, whose = scope

        def missing(do: Do) -> list[tuple[int, str]]:
            rows = do(
                f"SELECT number, body FROM thread_messages WHERE {where} "  # noqa: S608
                "AND (embedder IS NULL OR embedder <> ?) ORDER BY number LIMIT ?",
                whose,
                self._label,
                _AT_ONCE,
            )
            return [(int(number), str(body)) for number, body in rows]

        while rows := await self._database.awaited(missing):
            made = await embedder.aembed_documents([body for _, body in rows])
            done = [(number, packed(vector)) for (number, _), vector in zip(rows, made, strict=True)]

            def work(do: Do, done: Sequence[tuple[int, bytes]] = done) -> None:
                for number, vector in done:
                    do(
                        "UPDATE thread_messages SET vector = ?, embedder = ? WHERE number = ?",
                        vector,
                        self._label,
                        number,
                    )

            await self._database.awaited(work)


def _schema(kind: str) -> list[str]:
    columns = (
        "thread TEXT NOT NULL, owner TEXT NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL, "
        "body TEXT NOT NULL, said_at DOUBLE PRECISION NOT NULL, embedder TEXT"
    )
    owners = "CREATE INDEX IF NOT EXISTS thread_messages_owner ON thread_messages (owner)"
    if kind == "postgres":
        return [
            f"CREATE TABLE IF NOT EXISTS thread_messages (number BIGSERIAL PRIMARY KEY, {columns}, "
            "vector BYTEA, words TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', body)) STORED, "
            "UNIQUE (thread, id))",
            owners,
            "CREATE INDEX IF NOT EXISTS thread_messages_words ON thread_messages USING gin (words)",
        ]
    return [
        f"CREATE TABLE IF NOT EXISTS thread_messages (number INTEGER PRIMARY KEY AUTOINCREMENT, {columns}, "
        "vector BLOB, UNIQUE (thread, id))",
        owners,
        "CREATE VIRTUAL TABLE IF NOT EXISTS thread_words USING fts5("
        "body, content='thread_messages', content_rowid='number', tokenize='porter unicode61')",
        "CREATE TRIGGER IF NOT EXISTS thread_words_in AFTER INSERT ON thread_messages BEGIN "
        "INSERT INTO thread_words (rowid, body) VALUES (new.number, new.body); END",
        "CREATE TRIGGER IF NOT EXISTS thread_words_out AFTER DELETE ON thread_messages BEGIN "
        "INSERT INTO thread_words (thread_words, rowid, body) VALUES ('delete', old.number, old.body); END",
    ]
