"""Tests that messages of threads are kept and found again, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from libs.persistence.thread_database import Database
from libs.persistence.thread_memory import MessageMemory, Said
from tests.servers.thread_databases import both_databases

FACT = "The door code of the boathouse is 4711."
QUESTIONS = (
    "Which code opens the door of the boathouse, please?",
    "word0 word1 word2 word3 word4 word5: which code opens the boathouse?",
    "word50 word60 word70 word80 word90 boathouse code",
    "Which falcon knows the code of the boathouse?",
)
SIZES = [500, pytest.param(10_000, marks=pytest.mark.thorough)]
"""Numbers of messages in a thread."""


class Meaning:
    """An embedder that knows a few synonyms and counts the documents that it embeds."""

    def __init__(self, dimension: int = 384) -> None:
        self.dimension = dimension
        self.documents = 0

    def vector(self, text: str) -> list[float]:
        words = {"berth": "boathouse", "password": "code", "shed": "boathouse", "boats": "boathouse"}
        values = [0.0] * self.dimension
        for word in text.lower().replace("?", " ").replace(".", " ").split():
            values[sum(map(ord, words.get(word, word))) * 31 % self.dimension] += 1.0
        return values

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents += len(texts)
        return [self.vector(text) for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return self.vector(text)


def messages(count: int) -> list[Said]:
    """Messages with a natural distribution of words: few are common, many are rare."""
    draw = random.Random(7)
    words, weights = [f"word{n}" for n in range(3000)], [1 / (n + 1) for n in range(3000)]
    return [Said(str(n), "user", " ".join(draw.choices(words, weights, k=40))) for n in range(count)]


async def filled(memory: MessageMemory, count: int) -> None:
    """Fill a thread with messages, the fact among them."""
    said = messages(count)
    said.insert(count // 3, Said("fact", "user", FACT))
    for begin in range(0, len(said), 500):
        await memory.keep("1", said[begin : begin + 500], owner="ann")


async def noisy(memory: MessageMemory, count: int) -> None:
    """Fill a thread of another owner: each message has the fact's words, one has a word of its own."""
    said = [Said(each.id, "user", f"{each.text} {QUESTIONS[0]}") for each in messages(count)]
    said.append(Said("falcon", "user", "A falcon sat there."))
    for begin in range(0, len(said), 500):
        await memory.keep("2", said[begin : begin + 500], owner="bob")


class TestMessages:
    async def test_last_returns_the_newest_in_order(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", messages(5))
        await memory.keep("1", [Said("a", "assistant", "an answer")])
        found = await memory.last("1", 2)
        assert [each.role for each in found] == ["user", "assistant"]
        assert found[1].text == "an answer"
        assert await memory.last("2", 2) == []

    @both_databases
    async def test_any_text(self, database: Database) -> None:
        memory = MessageMemory(database)
        odd = ("a\0b", "\ud800", "ü\u2028🙂", "x" * 100_000, "%s ? :a $1")
        texts = ["'; DROP TABLE thread_messages; --", *odd]
        await memory.keep("1", [Said(str(n), "user", text) for n, text in enumerate(texts)])
        kept = [each.text for each in await memory.last("1", 10)]
        assert kept == [texts[0], "a\ufffdb", "?", texts[3], "x" * 20_000, texts[5]]

    async def test_threads_and_owners_apart(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", [Said("a", "user", FACT)], owner="ann")
        await memory.keep("2", [Said("a", "user", "The boathouse is green.")], owner="ann")
        await memory.keep("3", [Said("a", "user", "The boathouse is red.")], owner="bob")
        assert len((await memory.recall("boathouse", 9, thread="1")).messages) == 1
        assert len((await memory.recall("boathouse", 9, owner="ann")).messages) == 2
        assert len((await memory.recall("boathouse", 9, owner="bob")).messages) == 1
        assert (await memory.recall("boathouse", 9)).messages == []

    async def test_known_messages_are_left_out(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", [Said("a", "user", FACT), Said("b", "user", f"Again: {FACT}")])
        found = await memory.recall("boathouse", 1, thread="1", besides=["a"])
        assert [each.text for each in found.messages] == [f"Again: {FACT}"]

    async def test_forgotten_thread_has_no_messages(self, database: Database) -> None:
        memory = MessageMemory(database, Meaning(), label="m")
        await memory.keep("1", [Said("a", "user", FACT)])
        await memory.recall("boathouse", 1, thread="1")
        await memory.forget("1")
        assert (await memory.recall("boathouse", 1, thread="1")).messages == []
        assert (await MessageMemory(database).recall("boathouse", 1, thread="1")).messages == []
        rows = await database.awaited(lambda do: do("SELECT count(*) FROM message_vectors"))
        assert rows == [(0,)]

    @pytest.mark.parametrize("embedder", [None, Meaning()], ids=["words", "meaning"])
    async def test_copied_thread_has_the_messages(self, database: Database, embedder: Meaning | None) -> None:
        memory = MessageMemory(database, embedder, label="m")
        await memory.keep("1", [Said("a", "user", FACT), Said("b", "assistant", "I see.")], owner="ann")
        await memory.recall("boathouse", 1, thread="1")
        for _ in range(2):
            await memory.copy("1", "2")
        await memory.keep("2", [Said("a", "user", FACT), Said("c", "user", "And on.")], owner="ann")
        assert [each.text for each in await memory.last("2", 9)] == [FACT, "I see.", "And on."]
        await memory.forget("1")
        assert (await memory.recall("boathouse", 1, thread="2")).messages[0].text == FACT


class TestByWords:
    @both_databases
    @pytest.mark.parametrize("count", SIZES)
    async def test_planted_fact_is_found(self, database: Database, count: int) -> None:
        memory = MessageMemory(database)
        await filled(memory, count)
        await noisy(memory, count)
        for question in QUESTIONS:
            for scope in ({"thread": "1"}, {"owner": "ann"}):
                found = await memory.recall(question, 4, **scope)  # type: ignore[arg-type]
                assert found.messages[0].text == FACT
                assert (found.how, found.note) == ("words", "no EMBEDDER is set")

    @both_databases
    @pytest.mark.parametrize("others", [1, pytest.param(51, marks=pytest.mark.thorough), 500])
    async def test_other_owners_words_do_not_affect_the_ranking(
        self, database: Database, others: int
    ) -> None:
        """A word is neither common because other owners use it, nor rare because only they use it."""
        memory = MessageMemory(database)
        await noisy(memory, others)
        await memory.keep("1", messages(100), owner="ann")
        await memory.keep("1", [Said("fact", "user", FACT), Said("b", "user", "The harbour.")], owner="ann")
        for question in ("the boathouse", "Does the falcon sit in the boathouse?", "boathouse or harbour?"):
            for scope in ({"thread": "1"}, {"owner": "ann"}):
                found = await memory.recall(question, 2, **scope)  # type: ignore[arg-type]
                assert FACT in [each.text for each in found.messages], question

    @both_databases
    async def test_any_question(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", messages(3))
        for question in (
            "", "?!", "the a an", "' OR 1=1 --", "NEAR(a b)", "a AND", '"', "x:*", "a\0b", "\ud800", "%s ?",
            "word " * 100_000, "日本語",
        ):  # fmt: skip
            await memory.recall(question, 3, thread="1")


class TestByMeaning:
    @both_databases
    @pytest.mark.parametrize("count", SIZES)
    async def test_planted_fact_is_found(self, database: Database, count: int) -> None:
        embedder = Meaning()
        memory = MessageMemory(database, embedder, label="test:meaning", patience=300)
        await filled(memory, count)
        question = "password for the shed with the boats"
        await memory.recall(question, 3, thread="1")  # which makes the vectors
        assert embedder.documents == count + 1
        found = await memory.recall(question, 3, thread="1")
        assert (found.messages[0].text, found.how) == (FACT, "meaning")
        assert embedder.documents == count + 1
        again = MessageMemory(database, embedder, label="test:meaning")
        assert (await again.recall(question, 3, thread="1")).messages[0].text == FACT
        assert embedder.documents == count + 1, "another program finds them made"

    async def test_another_embedder_computes_its_own_vectors(self, database: Database) -> None:
        await MessageMemory(database).keep("1", [*messages(10), Said("fact", "user", FACT)])
        for label, embedder in (("a", Meaning()), ("b", Meaning()), ("b", Meaning(100))):
            found = await MessageMemory(database, embedder, label=label).recall("boathouse", 1, thread="1")
            assert (found.how, found.messages[0].text) == ("meaning", FACT)
            assert embedder.documents == 11

    async def test_failing_embedder_falls_back_to_words(self, database: Database) -> None:
        class Broken(Meaning):
            def __init__(self, query: Callable[[], Any], documents: Callable[[int], Any]) -> None:
                super().__init__()
                self._query, self._documents = query, documents

            async def aembed_query(self, text: str) -> list[float]:
                made = self._query()
                return list(await made if asyncio.iscoroutine(made) else made)

            async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
                return list(self._documents(len(texts)))

        def fails() -> Any:
            raise OSError("no route")

        one = [1.0, 0.0]
        await MessageMemory(database).keep("1", [Said("fact", "user", FACT)])
        for query, documents, note in (
            (fails, lambda _: [one], "does not answer"),
            (lambda: asyncio.sleep(60), lambda _: [one], "takes too long"),
            (lambda: one, lambda _: [], "does not answer"),
            (lambda: one, lambda _: [[1.0]], "does not answer"),
            (lambda: one, lambda _: [[math.nan, 1.0]], "does not answer"),
            (lambda: [[1.0]], lambda _: [one], "does not answer"),
        ):
            memory = MessageMemory(database, Broken(query, documents), label="test:x", patience=0.5)
            found = await memory.recall("boathouse", 1, thread="1")
            assert (found.how, found.note) == ("words", f"test:x {note}")
            assert found.messages[0].text == FACT

    async def test_slow_embedding_continues_with_the_next_question(self, database: Database) -> None:
        class Slow(Meaning):
            async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
                await asyncio.sleep(0.2)
                return await super().aembed_documents(texts)

        embedder = Slow()
        memory = MessageMemory(database, embedder, label="slow", patience=0.7)
        await memory.keep("1", messages(1_000))
        for _ in range(20):
            found = await memory.recall("word1", 1, thread="1")
            if found.how == "meaning":
                break
        assert found.how == "meaning"
        assert 1_000 <= embedder.documents <= 1_000 + 20 * 200
