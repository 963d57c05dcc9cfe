"""Finds messages by words, best first: by the words' rarity in SQLite, by Postgres's own rank."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from libs.persistence.thread_database import Do

__all__ = ["find_words", "searchable"]

_MOST_WORDS = 12
"""Words of a question that are searched for."""
_SHORTEST = 2
_RARE = 0.1
"""Largest part of all messages that is ranked."""
_FEW = 50
"""Messages that are ranked in any case."""
_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset(
    # Words that nearly every message has, in some languages. As a list of strings they would take a page.
    "a an and are as at be but by can did do does for from had has have he her his how i if in into is it "  # noqa: SIM905
    "its me my no not of on or our she so that the their them then there they this to was we were what when "
    "where which who why will with would you your please tell der die das und ist ein eine mit von zu den im "
    "auf wie wer wo el la los las un una y de en que es por con le les des et est une dans".split()
)


def searchable(kind: str) -> list[str]:
    """Return the statements that index the column `body` of `thread_messages` for word search."""
    if kind == "postgres":
        return [
            "ALTER TABLE thread_messages ADD COLUMN IF NOT EXISTS "
            "words TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', body)) STORED",
            # Without fastupdate: each search would read the whole list of pending entries.
            "CREATE INDEX IF NOT EXISTS thread_messages_words ON thread_messages USING gin (words) "
            "WITH (fastupdate = off)",
        ]
    return [
        "CREATE VIRTUAL TABLE IF NOT EXISTS thread_words USING fts5("
        "body, content='thread_messages', content_rowid='number', tokenize='porter unicode61')",
        "CREATE TRIGGER IF NOT EXISTS thread_words_in AFTER INSERT ON thread_messages BEGIN "
        "INSERT INTO thread_words (rowid, body) VALUES (new.number, new.body); END",
        "CREATE TRIGGER IF NOT EXISTS thread_words_out AFTER DELETE ON thread_messages BEGIN "
        "INSERT INTO thread_words (thread_words, rowid, body) VALUES ('delete', old.number, old.body); END",
    ]


def find_words(
    do: Do, kind: str, question: str, *, scope: tuple[str, str], count: int, columns: str
) -> list[tuple[Any, ...]]:
    """Return rows of messages that have words of a question, best first.

    Args:
        do: runs a statement.
        kind: of database.
        question: its words are searched for.
        scope: a column of the messages and its value: only these messages are searched.
        count: how many at most.
        columns: the columns to return, of the table `m`.
    """
    column, whose = scope
    words = _telling(do, kind, _words(question), scope)
    if not words:
        return []
    if kind == "postgres":
        return do(
            f"SELECT {columns} FROM thread_messages m, to_tsquery('english', ?) q "  # noqa: S608
            f"WHERE m.words @@ q AND m.{column} = ? "
            "ORDER BY ts_rank_cd(m.words, q, 1) DESC, m.number DESC LIMIT ?",
            *(" | ".join(words), whose, count),
        )
    # SQLite's own rank counts words of all threads, so it only decides between messages whose words are
    # equally rare in this scope.
    each = f"SELECT w.rowid AS number, ? AS rare FROM {_in_scope(column)}"  # noqa: S608
    asked = [value for word, rare in words.items() for value in (rare, whose, _quoted(word))]
    return do(
        "WITH has (number, rare) AS (SELECT number, sum(rare) "  # noqa: S608
        f"FROM ({' UNION ALL '.join([each] * len(words))}) GROUP BY number) "
        f"SELECT {columns} FROM thread_words w CROSS JOIN has ON has.number = w.rowid "
        "CROSS JOIN thread_messages m ON m.number = w.rowid "
        "WHERE thread_words MATCH ? ORDER BY has.rare DESC, bm25(thread_words), m.number DESC LIMIT ?",
        *(*asked, " OR ".join(map(_quoted, words)), count),
    )


def _in_scope(column: str) -> str:
    """Return the SQL for messages of a scope that have a word: SQLite's word table covers all threads.

    CROSS JOIN makes SQLite go from the words to the messages; the other order takes seconds.
    """
    return (
        f"thread_words w CROSS JOIN thread_messages m ON m.number = w.rowid AND m.{column} = ? "
        "WHERE thread_words MATCH ?"
    )


def _words(question: str) -> list[str]:
    """Return the longest words, each once, without common words: long words distinguish best."""
    words = (word.lower() for word in _WORD.findall(question))
    found = dict.fromkeys(word for word in words if len(word) >= _SHORTEST and word not in _COMMON)
    return sorted(found, key=len, reverse=True)[:_MOST_WORDS]


def _telling(do: Do, kind: str, words: Sequence[str], scope: tuple[str, str]) -> dict[str, float]:
    """Return the rarest words, found in at most a tenth of the messages together, with their rarity.

    Words that no message has are left out. Ranking all messages with a common word takes long, and Postgres
    would rank a common word as if it were rare.
    """
    if not words:
        return {}
    column, whose = scope
    [(everything,)] = do(f"SELECT count(*) FROM thread_messages WHERE {column} = ?", whose)  # noqa: S608
    few = max(_FEW, int(everything * _RARE))
    # Counting stops just above the limit.
    if kind == "postgres":
        which = f"thread_messages WHERE {column} = ? AND words @@ to_tsquery('english', ?)"
        asked = [value for word in words for value in (whose, word, few + 1)]
    else:
        which = _in_scope(column)
        asked = [value for word in words for value in (whose, _quoted(word), few + 1)]
    each = f"(SELECT count(*) FROM (SELECT 1 FROM {which} LIMIT ?) found)"  # noqa: S608
    [often] = do(f"SELECT {', '.join([each] * len(words))}", *asked)
    rarest = sorted((count, word) for word, count in zip(words, often, strict=True) if count)
    ranked = accumulate(count for count, _ in rarest)
    found = [each for total, each in zip(ranked, rarest, strict=True) if total <= few] or rarest[:1]
    return {word: math.log(1 + everything / count) for count, word in found}


def _quoted(word: str) -> str:
    return f'"{word}"'
