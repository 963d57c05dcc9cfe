"""What was said in threads, kept and found again: the same tests on SQLite and on Postgres (X11)."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from libs.persistence.database import Database
from libs.persistence.memory import MessageMemory, Said

FACT = "The door code of the boathouse is 4711."
QUESTIONS = {
    "rare words": "Which code opens the door of the boathouse, please?",
    "common words too": "word0 word1 word2 word3 word4 word5: which code opens the boathouse?",
    "words of many": "word50 word60 word70 word80 word90 boathouse code",
    "a word of others alone": "Which falcon knows the code of the boathouse?",
}


class Meaning:
    """Texts about the same thing are near each other; counts what it is asked."""

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
    """Of words as they are in languages: few are common, many are rare."""
    draw = random.Random(7)
    words, weights = [f"word{n}" for n in range(3000)], [1 / (n + 1) for n in range(3000)]
    return [Said(str(n), "user", " ".join(draw.choices(words, weights, k=40))) for n in range(count)]


async def filled(memory: MessageMemory, count: int) -> None:
    """A thread of so many messages, the fact in their midst."""
    said = messages(count)
    said.insert(count // 3, Said("fact", "user", FACT))
    for begin in range(0, len(said), 500):
        await memory.keep("1", said[begin : begin + 500], owner="ann")


async def noisy(memory: MessageMemory, count: int, *, thread: str = "2") -> None:
    """Another thread, of another owner: each message speaks of the same, and one of what only it has."""
    said = [
        Said(f"{thread}-{n}", "user", f"{text.text} Which code opens the door of the boathouse?")
        for n, text in enumerate(messages(count))
    ]
    said.append(Said(f"{thread}-falcon", "user", "A falcon sat there."))
    for begin in range(0, len(said), 500):
        await memory.keep(thread, said[begin : begin + 500], owner="bob")


async def timed(what: str, memory: MessageMemory, question: str, **scope: str) -> Any:
    """The answer; prints how long it took. At most 50 ms on a machine that does nothing else."""
    took = []
    for _ in range(30):
        begun = time.perf_counter()
        found = await memory.recall(question, 4, **scope)  # type: ignore[arg-type]
        took.append((time.perf_counter() - begun) * 1000)
    print(f"{what}: p50 {sorted(took)[15]:.1f} ms, max {max(took):.1f} ms")
    assert sorted(took)[15] < 1000
    return found


class TestMessages:
    async def test_the_newest_in_their_order(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", messages(5))
        await memory.keep("1", [Said("a", "assistant", "an answer")])
        found = await memory.last("1", 2)
        assert [each.role for each in found] == ["user", "assistant"]
        assert found[1].text == "an answer"
        assert await memory.last("2", 2) == []

    async def test_each_is_kept_once(self, database: Database) -> None:
        memory = MessageMemory(database)
        for _ in range(2):
            await memory.keep("1", [*messages(3), Said("empty", "user", " \n")])
        assert len(await memory.last("1", 10)) == 3

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

    async def test_known_ones_are_not_found_again(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", [Said("a", "user", FACT), Said("b", "user", f"Again: {FACT}")])
        found = await memory.recall("boathouse", 1, thread="1", besides=["a"])
        assert [each.text for each in found.messages] == [f"Again: {FACT}"]

    async def test_what_is_forgotten_is_gone(self, database: Database) -> None:
        memory = MessageMemory(database, Meaning(), label="m")
        await memory.keep("1", [Said("a", "user", FACT)])
        await memory.recall("boathouse", 1, thread="1")
        await memory.forget("1")
        assert (await memory.recall("boathouse", 1, thread="1")).messages == []
        assert (await MessageMemory(database).recall("boathouse", 1, thread="1")).messages == []
        rows = await database.awaited(lambda do: do("SELECT count(*) FROM message_vectors"))
        assert rows == [(0,)]

    @pytest.mark.parametrize("embedder", [None, Meaning()])
    async def test_a_copied_thread_knows_what_the_other_did(
        self, database: Database, embedder: Meaning | None
    ) -> None:
        memory = MessageMemory(database, embedder, label="m")
        await memory.keep("1", [Said("a", "user", FACT), Said("b", "assistant", "I see.")], owner="ann")
        await memory.recall("boathouse", 1, thread="1")
        for _ in range(2):
            await memory.copy("1", "2")
        await memory.keep("2", [Said("a", "user", FACT), Said("c", "user", "And on.")], owner="ann")
        assert [each.text for each in await memory.last("2", 9)] == [FACT, "I see.", "And on."]
        await memory.forget("1")
        assert (await memory.recall("boathouse", 1, thread="2")).messages[0].text == FACT

    async def test_what_two_threads_have_is_found_once(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", [Said("a", "user", FACT), Said("b", "user", "The boathouse is green.")])
        await memory.copy("1", "2")
        assert len((await memory.recall("boathouse", 9)).messages) == 2


class TestByWords:
    async def test_a_planted_fact_among_ten_thousand(self, database: Database) -> None:
        memory = MessageMemory(database)
        await filled(memory, 10_000)
        await noisy(memory, 10_000)
        for name, question in QUESTIONS.items():
            for scope in ({"thread": "1"}, {"owner": "ann"}):
                found = await timed(f"{database.kind}, by {name}, {[*scope]}", memory, question, **scope)
                assert found.messages[0].text == FACT
                assert (found.how, found.note) == ("words", "no EMBEDDER is set")

    @pytest.mark.parametrize("others", [1, 51, 500])
    async def test_what_others_say_decides_nothing(self, database: Database, others: int) -> None:
        """Neither is a word too common because they use it, nor the rarest because only they do."""
        memory = MessageMemory(database)
        await noisy(memory, others)
        await memory.keep("1", messages(100), owner="ann")
        await memory.keep("1", [Said("fact", "user", FACT), Said("b", "user", "The harbour.")], owner="ann")
        for question in ("the boathouse", "Does the falcon sit in the boathouse?", "boathouse or harbour?"):
            for scope in ({"thread": "1"}, {"owner": "ann"}):
                found = await memory.recall(question, 2, **scope)  # type: ignore[arg-type]
                assert FACT in [each.text for each in found.messages], question

    @pytest.mark.parametrize(
        "question",
        ["", "?!", "the a an", "' OR 1=1 --", "NEAR(a b)", "a AND", '"', "x:*", "ü", "a\0b", "\ud800", "%s ?",
         "word " * 100_000, "word0", "日本語"],
    )  # fmt: skip
    async def test_any_question(self, database: Database, question: str) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", messages(3))
        await memory.recall(question, 3, thread="1")

    async def test_a_word_that_all_have_still_finds_some(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", [Said(str(n), "user", f"The harbour, day {n}") for n in range(200)])
        assert len((await memory.recall("harbours", 3, thread="1")).messages) == 3


class TestByMeaning:
    async def test_a_planted_fact_among_ten_thousand(self, database: Database) -> None:
        embedder = Meaning()
        memory = MessageMemory(database, embedder, label="test:meaning", patience=300)
        await filled(memory, 10_000)
        question = "password for the shed with the boats"
        await memory.recall(question, 3, thread="1")  # which makes the vectors
        assert embedder.documents == 10_001
        found = await timed(f"{database.kind}, by meaning", memory, question, thread="1")
        assert (found.messages[0].text, found.how) == (FACT, "meaning")
        assert embedder.documents == 10_001
        again = MessageMemory(database, embedder, label="test:meaning")
        assert (await again.recall(question, 3, thread="1")).messages[0].text == FACT
        assert embedder.documents == 10_001, "another program finds them made"

    async def test_what_was_said_since_is_found_too(self, database: Database) -> None:
        memory = MessageMemory(database, Meaning(), label="m")
        await memory.keep("1", messages(50))
        await memory.recall("boathouse", 1, thread="1")
        await memory.keep("1", [Said("fact", "user", FACT)])
        assert (await memory.recall("boathouse", 1, thread="1")).messages[0].text == FACT

    async def test_what_another_program_adds_late_and_removes(
        self, database: Database, another: Database
    ) -> None:
        """Its message has a lower number than one whose vector is there already."""
        memory, other = (MessageMemory(each, Meaning(), label="m") for each in (database, another))
        await memory.keep("1", messages(3))
        await memory.recall("boathouse", 1, thread="1")
        await other.keep("1", [Said("fact", "user", FACT), Said("last", "user", "word1")])
        await database.awaited(
            lambda do: do(
                "INSERT INTO message_vectors (number, thread, owner, embedder, vector) SELECT m.number, "
                "m.thread, m.owner, v.embedder, v.vector FROM thread_messages m, message_vectors v "
                "WHERE m.id = 'last' AND v.number = (SELECT min(number) FROM message_vectors)"
            )
        )
        vectors = memory._vectors
        assert vectors
        one = Meaning().vector("word1")
        await database.awaited(
            lambda do: vectors.nearest(do, ("thread", "1"), "m/384", there=4, vector=one, count=1)
        )
        assert (await memory.recall("boathouse", 1, thread="1")).messages[0].text == FACT
        await other.forget("1")
        assert (await memory.recall("boathouse", 1, thread="1")).messages == []

    async def test_another_embedder_makes_vectors_anew(self, database: Database) -> None:
        await MessageMemory(database).keep("1", [*messages(10), Said("fact", "user", FACT)])
        for label, embedder in (("a", Meaning()), ("b", Meaning()), ("b", Meaning(100))):
            found = await MessageMemory(database, embedder, label=label).recall("boathouse", 1, thread="1")
            assert (found.how, found.messages[0].text) == ("meaning", FACT)
            assert embedder.documents == 11

    async def test_one_that_is_of_no_use_is_said_and_words_are_found(self, database: Database) -> None:
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

    async def test_what_takes_too_long_goes_on_with_the_next_question(self, database: Database) -> None:
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
