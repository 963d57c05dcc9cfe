"""Messages found by their words, the best first: by SQLite's own ranking, by Postgres's search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from libs.persistence.database import Do

__all__ = ["find_words"]

_MOST_WORDS = 12
"""Words of a question that are looked for."""
_MOST_TEXT = 20_000
_SHORTEST = 2
_RARE = 0.1
"""Part of all messages that may have a word which tells one from another."""
_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset(
    # Words that nearly every message has, in some languages: they tell none from another. A list of
    # them would take a page.
    "a an and are as at be but by can did do does for from had has have he her his how i if in into is it "  # noqa: SIM905
    "its me my no not of on or our she so that the their them then there they this to was we were what when "
    "where which who why will with would you your please tell der die das und ist ein eine mit von zu den im "
    "auf wie wer wo el la los las un una y de en que es por con le les des et est une dans".split()
)
_FOUND = "m.id, m.thread, m.role, m.body, m.said_at"


def find_words(
    do: Do, kind: str, question: str, *, scope: tuple[str, str], count: int
) -> list[tuple[Any, ...]]:
    """Rows of messages that have words of a question: id, thread, role, body, when.

    Args:
        kind: of database.
        scope: a condition, and what it is asked with.
        count: how many at most.
    """
    words = _words(question)
    if not words:
        return []
    return (_in_postgres if kind == "postgres" else _in_sqlite)(do, words, scope, count)


def _words(question: str) -> list[str]:
    """What is looked for: the longest words, which tell most, each once, common ones left out."""
    words = (word.lower() for word in _WORD.findall(question[:_MOST_TEXT]))
    found = dict.fromkeys(word for word in words if len(word) >= _SHORTEST and word not in _COMMON)
    return sorted(found, key=len, reverse=True)[:_MOST_WORDS]


def _in_sqlite(do: Do, words: Sequence[str], scope: tuple[str, str], count: int) -> list[tuple[Any, ...]]:
    """Messages with any of these words, the best first: a rare word counts for more (BM25)."""
    return do(
        f"SELECT {_FOUND} FROM thread_words w JOIN thread_messages m ON m.number = w.rowid "  # noqa: S608
        f"WHERE thread_words MATCH ? AND m.{scope[0]} ORDER BY bm25(thread_words), m.number DESC LIMIT ?",
        " OR ".join(f'"{word}"' for word in words),
        scope[1],
        count,
    )


def _in_postgres(do: Do, words: Sequence[str], scope: tuple[str, str], count: int) -> list[tuple[Any, ...]]:
    """The same where a rank knows of no other message: words that many of them have are left out."""
    where, whose = scope
    [(all_of_them,)] = do(f"SELECT count(*) FROM thread_messages WHERE {where}", whose)  # noqa: S608
    often: dict[str, int] = {}
    for word in words:
        [(often[word],)] = do(
            f"SELECT count(*) FROM thread_messages WHERE {where} AND words @@ to_tsquery('english', ?)",  # noqa: S608
            whose,
            word,
        )
    there = [word for word in words if often[word]]
    rare = [word for word in there if often[word] <= max(10, all_of_them * _RARE)]
    if not there:
        return []
    return do(
        f"SELECT {_FOUND} FROM thread_messages m, to_tsquery('english', ?) q "  # noqa: S608
        f"WHERE m.words @@ q AND m.{where} ORDER BY ts_rank_cd(m.words, q, 1) DESC, m.number DESC LIMIT ?",
        " | ".join(rare or there),
        whose,
        count,
    )
