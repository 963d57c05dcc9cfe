"""What threads keep, in SQLite and in Postgres: the same tests on both (X10, X11)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.config import ROOT, load_settings
from agent.memory import build_database
from libs.persistence.database import Database, PostgresDatabase, SqliteDatabase
from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.memory import MessageMemory, Said
from libs.persistence.thread_store import ThreadStore, TooMuch
from tests.postgres_server import PASSWORD, Postgres, postgres

WORDS = [
    "ship",
    "harbour",
    "invoice",
    "river",
    "paper",
    "cloud",
    "budget",
    "garden",
    "engine",
    "report",
    "table",
    "colour",
    "window",
    "market",
    "number",
    "letter",
    "bridge",
    "copper",
    "winter",
    "signal",
]
FACT = "The door code of the boathouse is 4711."


class Meaning:
    """Texts about the same thing are near each other; counts what it is asked."""

    dimension = 384

    def __init__(self) -> None:
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


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A PostgreSQL of its own; its sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with postgres(Path(folder) / "s") as running:
            yield running


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where: a file, or a database of its own."""
    if request.param == "sqlite":
        return str(tmp_path / "memory.sqlite")
    running: Postgres = request.getfixturevalue("server")
    return running.database()


def opened(url: str) -> Database:
    return PostgresDatabase(url) if "://" in url else SqliteDatabase(Path(url))


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    made = opened(url)
    yield made
    made.close()


def messages(count: int) -> list[Said]:
    draw = random.Random(7)
    return [Said(str(n), "user", " ".join(draw.choices(WORDS, k=30))) for n in range(count)]


async def filled(memory: MessageMemory, count: int = 10_000) -> None:
    """A thread of so many messages, the fact in their midst."""
    said = messages(count)
    said.insert(count // 3, Said("fact", "user", FACT))
    for begin in range(0, len(said), 500):
        await memory.keep("1", said[begin : begin + 500])


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
            await memory.keep("1", messages(3))
        assert len(await memory.last("1", 10)) == 3

    async def test_any_text(self, database: Database) -> None:
        memory = MessageMemory(database)
        texts = ["'; DROP TABLE thread_messages; --", "a\0b", "\ud800", "ü\u2028🙂", "x" * 100_000]
        await memory.keep("1", [Said(str(n), "user", text) for n, text in enumerate(texts)])
        kept = [each.text for each in await memory.last("1", 10)]
        assert kept[0] == texts[0]
        assert kept[3] == texts[3]
        assert len(kept[4]) == 20_000

    async def test_a_planted_fact_is_found_among_ten_thousand(self, database: Database) -> None:
        memory = MessageMemory(database)
        await filled(memory)
        took = []
        for _ in range(9):
            begun = time.perf_counter()
            found = await memory.recall("Which code opens the door of the boathouse, please?", 4, thread="1")
            took.append(time.perf_counter() - begun)
        assert found.messages[0].text == FACT
        assert (found.how, found.note) == ("words", "no EMBEDDER is set")
        print(
            f"recall by words: {sorted(took)[4] * 1000:.1f} ms"
        )  # at most 50 on a machine that does nothing else
        assert sorted(took)[4] < 1

    async def test_by_meaning_where_there_is_an_embedder(self, database: Database) -> None:
        embedder = Meaning()
        memory = MessageMemory(database, embedder, label="test:meaning")
        await filled(memory, 2_000)
        found = await memory.recall("password for the shed with the boats", 3, thread="1")
        assert (found.messages[0].text, found.how) == (FACT, "meaning")
        assert embedder.documents == 2_001
        took = []
        for _ in range(9):
            begun = time.perf_counter()
            await memory.recall("password for the shed", 3, thread="1")
            took.append(time.perf_counter() - begun)
        assert embedder.documents == 2_001
        print(f"recall by meaning: {sorted(took)[4] * 1000:.1f} ms")
        assert sorted(took)[4] < 1

    async def test_what_was_said_since_is_found_too(self, database: Database) -> None:
        memory = MessageMemory(database, Meaning(), label="test:meaning")
        await memory.keep("1", messages(50))
        await memory.recall("boathouse", 1, thread="1")
        await memory.keep("1", [Said("fact", "user", FACT)])
        assert (await memory.recall("boathouse", 1, thread="1")).messages[0].text == FACT

    async def test_another_embedder_makes_vectors_anew(self, database: Database) -> None:
        await MessageMemory(database, Meaning(), label="one").keep("1", messages(10))
        await MessageMemory(database, Meaning(), label="one").recall("ship", 1, thread="1")
        other = Meaning()
        await MessageMemory(database, other, label="two").recall("ship", 1, thread="1")
        assert other.documents == 10

    async def test_one_that_does_not_answer_is_said_and_words_are_found(self, database: Database) -> None:
        class Broken(Meaning):
            async def aembed_query(self, text: str) -> list[float]:
                raise OSError("no route")

        memory = MessageMemory(database, Broken(), label="test:broken")
        await memory.keep("1", [Said("fact", "user", FACT)])
        found = await memory.recall("boathouse", 1, thread="1")
        assert (found.how, found.note, found.messages[0].text) == (
            "words",
            "test:broken does not answer",
            FACT,
        )

    async def test_known_ones_are_not_found_again(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", [Said("a", "user", FACT), Said("b", "user", f"Again: {FACT}")])
        found = await memory.recall("boathouse", 1, thread="1", besides=["a"])
        assert [each.text for each in found.messages] == [f"Again: {FACT}"]

    async def test_threads_and_owners_apart(self, database: Database) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", [Said("a", "user", FACT)], owner="ann")
        await memory.keep("2", [Said("a", "user", "The boathouse is green.")], owner="ann")
        await memory.keep("3", [Said("a", "user", "The boathouse is red.")], owner="bob")
        assert len((await memory.recall("boathouse", 9, thread="1")).messages) == 1
        assert len((await memory.recall("boathouse", 9, owner="ann")).messages) == 2
        assert len((await memory.recall("boathouse", 9, owner="bob")).messages) == 1

    @pytest.mark.parametrize(
        "question", ["", "?!", "the a an", "' OR 1=1 --", "NEAR(a b)", "a AND", '"', "x:*", "ü"]
    )
    async def test_any_question(self, database: Database, question: str) -> None:
        memory = MessageMemory(database)
        await memory.keep("1", messages(3))
        await memory.recall(question, 3, thread="1")

    async def test_what_is_forgotten_is_gone(self, database: Database) -> None:
        memory = MessageMemory(database, Meaning(), label="m")
        await memory.keep("1", [Said("a", "user", FACT)])
        await memory.recall("boathouse", 1, thread="1")
        await memory.forget("1")
        assert (await memory.recall("boathouse", 1, thread="1")).messages == []
        assert (await MessageMemory(database).recall("boathouse", 1, thread="1")).messages == []


class TestStore:
    async def test_values(self, database: Database) -> None:
        store = ThreadStore(database)
        await store.put("1", "a", '{"n": 1}')
        await store.put("1", "a", "null")
        await store.put("1", "ä/ö", "2")
        assert (await store.get("1", "a"), await store.get("2", "a")) == ("null", None)
        assert await store.names("1") == ["a", "ä/ö"]
        assert (await store.delete("1", "a"), await store.delete("1", "a")) == (True, False)
        with pytest.raises(ValueError, match="Expecting"):
            await store.put("1", "a", "{")
        with pytest.raises(TooMuch):
            await store.put("1", "x" * 201, "1")

    async def test_files(self, database: Database) -> None:
        store = ThreadStore(database)
        data = bytes(range(256))
        await store.keep("1", {"a/b.bin": data, "c": b""}, ())
        await store.keep("1", {"c": b"2"}, ("a/b.bin",))
        assert await store.files("1") == {"c": b"2"}
        await store.forget("1")
        assert await store.files("1") == {}

    async def test_many_at_once(self, database: Database) -> None:
        store = ThreadStore(database)
        await asyncio.gather(*(store.put(str(n % 3), str(n), str(n)) for n in range(60)))
        assert [len(await store.names(str(thread))) for thread in range(3)] == [20, 20, 20]


WRITER = """
import asyncio, sys
from tests.integration.test_memory_databases import MessageMemory, Said, ThreadStore, opened

async def main():
    database = opened(sys.argv[1])
    memory, store = MessageMemory(database), ThreadStore(database)
    n = 0
    while True:
        await memory.keep("1", [Said(str(n), "user", f"message {n}")])
        await store.put("1", "last", str(n))
        await store.keep("1", {"file": str(n).encode()}, ())
        print(n, flush=True)
        n += 1

asyncio.run(main())
"""


async def test_a_kill_loses_nothing_that_was_acknowledged(url: str) -> None:
    writer = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", WRITER, url], cwd=ROOT, stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert writer.stdout
    last = 0
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        last = int(writer.stdout.readline())
    writer.kill()
    writer.wait()
    rest = writer.stdout.read().split(b"\n")[:-1]
    last = int(rest[-1]) if rest else last
    writer.stdout.close()
    database = opened(url)
    memory, store = MessageMemory(database), ThreadStore(database)
    kept = [each.text for each in await memory.last("1", last + 10)]
    assert kept[: last + 1] == [f"message {n}" for n in range(last + 1)]
    assert int(json.loads(await store.get("1", "last") or "-1")) >= last
    assert int((await store.files("1"))["file"]) >= last
    database.close()


async def test_two_programs_on_one_database(url: str) -> None:
    one, other = opened(url), opened(url)
    first, second = ThreadStore(one), ThreadStore(other)
    await asyncio.gather(*(store.put("1", f"{n}", "1") for n in range(20) for store in (first, second)))
    assert len(await second.names("1")) == 20
    one.close()
    other.close()


class TestPostgres:
    async def test_it_is_used_in_production_alone(self, server: Postgres) -> None:
        address = server.database()
        kinds = {
            env: build_database(load_settings(None, app_env=env, database_url=address)).kind
            for env in ("development", "production")
        }
        assert kinds == {"development": "sqlite", "production": "postgres"}

    async def test_it_is_found_again_after_a_restart(self, server: Postgres) -> None:
        database = PostgresDatabase(server.database())
        store = ThreadStore(database)
        await store.put("1", "a", "1")
        server.end()
        with pytest.raises(CheckpointerUnavailable) as refused:
            await store.get("1", "a")
        assert PASSWORD not in str(refused.value) + refused.value.hint
        server.start()
        assert await store.get("1", "a") == "1"
        database.close()
