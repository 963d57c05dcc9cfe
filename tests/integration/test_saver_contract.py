"""What LangGraph's server asks of a saver, over both databases: the same tests, the real thing.

The graph has what the deep agent's has: messages that are rebuilt from writes, and a question before a step.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import psycopg
import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.postgres import PostgresSaver, open_postgres
from libs.persistence.rows import load_rows, save_rows
from libs.persistence.served_saver import ServedSaver
from libs.persistence.sqlite import SqliteSaver, open_checkpointer
from tests.postgres_server import PASSWORD, Postgres

Open = Callable[[], AbstractAsyncContextManager[ServedSaver]]


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """What opens one and the same empty database."""
    if request.param == "sqlite":
        return partial(open_checkpointer, tmp_path / "threads.sqlite")
    server: Postgres = request.getfixturevalue("postgres_server")
    return partial(open_postgres, server.database())


@pytest.fixture
async def saver(opened: Open) -> AsyncIterator[ServedSaver]:
    async with opened() as it:
        yield it


# What there must be

# Asked of in another process: importing it reads and changes much.
SERVER = {
    "LANGGRAPH_RUNTIME_EDITION": "inmem",
    "MIGRATIONS_PATH": "__inmem",
    "DATABASE_URI": ":memory:",
    "REDIS_URI": "fake",
}
ASKED = """
import dataclasses, json
from langgraph_api._checkpointer._adapter import CheckpointerCapabilities
from langgraph_api._checkpointer.protocol import FullCheckpointerProtocol
from langgraph.checkpoint.base import BaseCheckpointSaver
from libs.persistence.postgres import PostgresSaver
from libs.persistence.sqlite import SqliteSaver
told = {saver.__name__: CheckpointerCapabilities.from_type(saver) for saver in (SqliteSaver, PostgresSaver)}
found = {
    name: {field.name: getattr(has, field.name) for field in dataclasses.fields(has)}
    for name, has in told.items()
}
mro = FullCheckpointerProtocol.__mro__
asked = {name for each in mro if each.__module__ == FullCheckpointerProtocol.__module__
         for name in (*vars(each), *getattr(each, "__annotations__", {}))}
print(json.dumps({"asked": [name for name in asked if not name.startswith("_")], **found}))
"""


def test_every_method_that_the_server_knows_is_there() -> None:
    """A new one that the server learns to ask for is seen here first."""
    told = subprocess.run(
        [sys.executable, "-c", ASKED], env=os.environ | SERVER, capture_output=True, text=True, check=True
    )
    found = json.loads(told.stdout)
    asked = set(found.pop("asked"))
    assert {"adelete_for_runs", "acopy_thread", "aprune", "adelete_thread"} <= asked
    asked -= {"serde", "latest_iter", "get", "aget", "aget_iter"}  # attributes; what is made of `aget_tuple`
    for saver in (SqliteSaver, PostgresSaver):
        left = [name for name in sorted(asked) if getattr(saver, name) is getattr(BaseCheckpointSaver, name)]
        assert left == []
        # `aget_iter` is made of `aget_tuple`, where it is missing.
        assert {name for name, has in found[saver.__name__].items() if not has} == {"has_aget_iter"}


# A graph that asks


def added(before: list[str], writes: list[list[str]]) -> list[str]:
    return [*before, *(text for write in writes for text in write)]


class State(TypedDict):
    messages: Annotated[list[str], DeltaChannel(added)]
    plain: list[str]


def asks(state: State) -> dict[str, Any]:
    if state["messages"][-1].startswith("quick"):
        return {"messages": ["said at once"]}
    return {"messages": [f"answered {interrupt('may I?')}"]}


def ends(state: State) -> dict[str, Any]:
    if "slow" in state["messages"][-1]:
        raise TimeoutError  # as a run that is cancelled in the middle
    return {"messages": ["end"], "plain": [*state.get("plain", []), str(len(state["messages"]))]}


ONE = ["quick one", "said at once", "end"]


class Thread:
    """A thread of that graph, with runs as the server makes them."""

    def __init__(self, saver: ServedSaver, thread_id: str | None = None) -> None:
        graph = StateGraph(State)
        graph.add_node("asks", asks)
        graph.add_node("ends", ends)
        graph.add_edge("__start__", "asks")
        graph.add_edge("asks", "ends")
        self.graph = graph.compile(checkpointer=saver)
        self.id = thread_id or str(uuid4())

    async def run(self, given: Any) -> str:
        """Run to the end, the next question or an error; returns the run."""
        run_id = str(uuid4())
        at = {"thread_id": self.id, "run_id": run_id}
        config: Any = {"configurable": at, "metadata": {"run_id": run_id}}
        with suppress(TimeoutError):
            await self.graph.ainvoke(given, config, durability="sync")
        return run_id

    async def say(self, text: str) -> str:
        return await self.run({"messages": [text]})

    async def answer(self, text: str) -> str:
        return await self.run(Command(resume=text))

    async def messages(self) -> list[str]:
        state = await self.graph.aget_state({"configurable": {"thread_id": self.id}})
        return list(state.values.get("messages", []))

    async def pending(self) -> list[Any]:
        state = await self.graph.aget_state({"configurable": {"thread_id": self.id}})
        return [each.value for each in state.interrupts]


async def test_a_thread_is_there_after_the_program_has_ended(opened: Open) -> None:
    async with opened() as saver:
        first = Thread(saver)
        await first.say("a task")
    async with opened() as saver:
        thread = Thread(saver, first.id)
        assert await thread.messages() == ["a task"]
        assert await thread.pending() == ["may I?"]
        await thread.answer("yes")
        assert await thread.messages() == ["a task", "answered yes", "end"]
        assert await saver.thread_ids() == [thread.id]


async def test_a_run_that_is_rolled_back_leaves_nothing(saver: ServedSaver) -> None:
    thread = Thread(saver)
    await thread.say("quick one")
    run = await thread.say("quick two")
    await saver.adelete_for_runs([run])
    assert await thread.messages() == ONE
    assert not await saver.began(run)


async def test_the_input_after_a_rolled_back_one_is_not_taken_for_it(saver: ServedSaver) -> None:
    thread = Thread(saver)
    await thread.say("quick one")
    await saver.adelete_for_runs([await thread.say("quick two")])
    await thread.say("quick three")
    assert await thread.messages() == [*ONE, "quick three", "said at once", "end"]


async def test_an_answer_that_is_rolled_back_is_asked_for_again(saver: ServedSaver) -> None:
    """Otherwise an approval that was taken back would be found by whatever goes on in the thread."""
    thread = Thread(saver)
    await thread.say("a task")
    run = await thread.answer("slow yes")
    assert await thread.messages() == ["a task", "answered slow yes"]
    await saver.adelete_for_runs([run])
    assert await thread.messages() == ["a task"]
    assert await thread.pending() == ["may I?"]
    await thread.run(None)
    assert await thread.pending() == ["may I?"]
    await thread.answer("no")
    assert await thread.messages() == ["a task", "answered no", "end"]


async def test_several_runs_are_rolled_back_at_once(saver: ServedSaver) -> None:
    thread = Thread(saver)
    await thread.say("quick one")
    runs = [await thread.say("a task"), await thread.answer("slow yes")]
    await saver.adelete_for_runs(iter(runs))
    assert await thread.messages() == ONE
    assert await thread.pending() == []


async def test_the_first_run_of_a_thread_is_rolled_back(saver: ServedSaver) -> None:
    thread = Thread(saver)
    await saver.adelete_for_runs([await thread.say("a task")])
    assert await thread.messages() == []
    await thread.say("quick")
    assert await thread.messages() == ["quick", "said at once", "end"]


async def test_what_later_runs_stand_on_is_not_taken_from_them(saver: ServedSaver) -> None:
    thread = Thread(saver)
    runs = [await thread.say("a task"), await thread.answer("yes"), await thread.say("quick three")]
    said = await thread.messages()
    assert said[-3:] == ["quick three", "said at once", "end"]
    await saver.adelete_for_runs([runs[1]])
    assert await thread.messages() == said
    await saver.adelete_for_runs([runs[0], runs[2]])
    assert await thread.messages() == said[:-3]


async def test_other_threads_do_not_notice(saver: ServedSaver) -> None:
    thread, other = Thread(saver), Thread(saver)
    await other.say("a task")
    await saver.adelete_for_runs([await thread.say("quick"), str(uuid4())])
    await saver.adelete_thread(thread.id)
    assert await other.pending() == ["may I?"]
    await other.answer("yes")
    assert await other.messages() == ["a task", "answered yes", "end"]


async def test_the_input_of_a_run_that_was_killed_at_once_does_not_stay(saver: ServedSaver) -> None:
    """It was written, its checkpoint was not: as after SIGKILL between the two."""
    thread = Thread(saver)
    await thread.say("quick one")
    killed = await thread.say("quick two")
    async with saver.transaction() as do:
        run = saver.spelling.run_id
        await do(f"DELETE FROM checkpoints WHERE {run} = ?", killed)
    await thread.say("quick three")
    assert await thread.messages() == [*ONE, "quick three", "said at once", "end"]


async def test_a_run_that_is_carried_out_again_goes_on(saver: ServedSaver) -> None:
    """With the same id, as the server does after it was killed: nothing is said or done twice."""
    thread = Thread(saver)
    run = str(uuid4())
    config: Any = {"configurable": {"thread_id": thread.id, "run_id": run}, "metadata": {"run_id": run}}
    for _ in range(3):
        await thread.graph.ainvoke({"messages": ["a task"]}, config, durability="sync")
    assert await thread.messages() == ["a task"]
    assert await thread.pending() == ["may I?"]
    assert await saver.began(run)


async def test_a_copy_goes_its_own_way(saver: ServedSaver) -> None:
    thread, copy = Thread(saver), Thread(saver)
    await thread.say("quick one")
    run = await thread.say("a task")
    latest = await saver.aget_tuple({"configurable": {"thread_id": thread.id}})
    assert latest is not None
    assert latest.parent_config is not None
    # The server writes more into the metadata than LangGraph does.
    as_served: Any = {**latest.metadata, "thread_id": thread.id}
    await saver.aput(latest.parent_config, latest.checkpoint, as_served, {})
    await saver.acopy_thread(thread.id, copy.id)
    assert await copy.messages() == await thread.messages()
    assert await copy.pending() == ["may I?"]
    await copy.answer("yes")
    await saver.adelete_for_runs([run])
    await saver.adelete_thread(thread.id)
    assert await thread.messages() == []
    assert (await copy.messages())[-3:] == ["a task", "answered yes", "end"]
    named = [dict(each.metadata).get("thread_id") async for each in saver.alist(None)]
    assert set(named) == {None, copy.id}
    assert sorted(await saver.thread_ids()) == [copy.id]


async def test_pruning(saver: ServedSaver) -> None:
    thread, other = Thread(saver), Thread(saver)
    await thread.say("quick")
    await other.say("quick")
    with pytest.raises(NotImplementedError):
        await saver.aprune([thread.id], strategy="keep_latest")
    with pytest.raises(ValueError, match="keep_some"):
        await saver.aprune([thread.id], strategy="keep_some")
    await saver.aprune([thread.id], strategy="delete")
    assert await saver.thread_ids() == [other.id]
    async with saver.transaction() as do:
        for table in ("checkpoints", saver.spelling.writes, "run_marks", "writes_before"):
            assert {row[0] for row in await do(f"SELECT DISTINCT thread_id FROM {table}")} <= {other.id}


class Plain(TypedDict):
    plain: list[str]


async def test_pruning_to_the_latest_keeps_what_the_thread_says(saver: ServedSaver) -> None:
    graph = StateGraph(Plain)
    graph.add_node("more", lambda state: {"plain": [*state["plain"], "more"]})
    graph.add_edge("__start__", "more")
    compiled = graph.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": str(uuid4())}}
    for text in "abc":
        await compiled.ainvoke({"plain": [text]}, config)
    before = (await compiled.aget_state(config)).values
    await saver.aprune([config["configurable"]["thread_id"]])
    assert len([each async for each in saver.alist(config)]) == 1
    assert (await compiled.aget_state(config)).values == before == {"plain": ["c", "more"]}
    await compiled.ainvoke({"plain": ["d"]}, config)
    assert (await compiled.aget_state(config)).values == {"plain": ["d", "more"]}


async def test_synchronous_callers_in_other_threads(saver: ServedSaver) -> None:
    thread, copy = Thread(saver), Thread(saver)
    await thread.say("quick one")
    run = await thread.say("quick two")
    await asyncio.to_thread(saver.delete_for_runs, [run])
    await asyncio.to_thread(saver.copy_thread, thread.id, copy.id)
    await asyncio.to_thread(partial(saver.prune, [thread.id], strategy="delete"))
    assert await copy.messages() == ONE
    assert await thread.messages() == []


async def test_many_runs_at_once(saver: ServedSaver) -> None:
    threads = [Thread(saver) for _ in range(12)]
    await asyncio.gather(*(thread.say("a task") for thread in threads))
    runs = await asyncio.gather(*(thread.answer("yes") for thread in threads))
    assert [await thread.messages() for thread in threads] == [["a task", "answered yes", "end"]] * 12
    await asyncio.gather(*(saver.adelete_for_runs([run]) for run in runs[:6]))
    assert [await thread.pending() for thread in threads] == [["may I?"]] * 6 + [[]] * 6


# Rows of the server


async def test_rows_are_written_together_and_read_back(opened: Open) -> None:
    text = '{"x": "\\u0000 \\ud800 ü % ? {}"}'
    async with opened() as saver:
        await save_rows(saver, {("thread", "a"): text, ("run", "a"): "1"}, [])
        await save_rows(saver, {("run", "a"): "2", ("run", "b"): "3"}, [("thread", "b")])
    async with opened() as saver:
        rows = {("thread", "a"): text, ("run", "a"): "2", ("run", "b"): "3"}
        assert await load_rows(saver) == rows
        with pytest.raises(ZeroDivisionError):
            async with saver.transaction() as do:
                await do("DELETE FROM server_rows")
                raise ZeroDivisionError
        assert await load_rows(saver) == rows
        await save_rows(saver, {}, [("run", "a"), ("thread", "a")])
        assert await load_rows(saver) == {("run", "b"): "3"}


async def test_two_programs_share_a_database(opened: Open) -> None:
    """Both start at once, too: only one makes the tables."""

    async def work(text: str) -> list[str]:
        async with opened() as saver:
            thread = Thread(saver)
            await thread.say(f"quick {text}")
            await save_rows(saver, {("thread", text): text}, [])
            return await thread.messages()

    said = await asyncio.gather(*(work(text) for text in "abcd"))
    assert said == [[f"quick {text}", "said at once", "end"] for text in "abcd"]
    async with opened() as saver:
        assert set(await load_rows(saver)) == {("thread", text) for text in "abcd"}


# What only one of them can have


async def test_postgres_is_restarted_under_an_open_saver(postgres_server: Postgres) -> None:
    async with open_postgres(postgres_server.database()) as saver:
        thread = Thread(saver)
        await thread.say("a task")
        await asyncio.to_thread(postgres_server.end)
        await asyncio.to_thread(postgres_server.start)
        assert await thread.pending() == ["may I?"]
        await thread.answer("yes")
        assert await thread.messages() == ["a task", "answered yes", "end"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((PASSWORD, "wrong-9Zx8Kq3Vn5"), "password authentication failed"),
        (("/threads", "/nowhere"), "does not exist"),
        (("?host=/", "?host=/nowhere/"), "No such file"),
        (("postgresql://", "postgresql:///x?no="), "cannot be read"),
    ],
)
async def test_a_database_that_cannot_be_used_is_explained(
    postgres_server: Postgres, change: tuple[str, str], why: str
) -> None:
    url = postgres_server.database().replace(*change)
    with pytest.raises(CheckpointerUnavailable, match=why) as raised:
        async with open_postgres(url, timeout=2):
            pass
    assert raised.value.hint
    assert PASSWORD not in f"{raised.value}{raised.value.hint}"
    assert "wrong-9Zx8Kq3Vn5" not in f"{raised.value}{raised.value.hint}"


async def test_a_user_who_may_make_no_tables_is_told(postgres_server: Postgres) -> None:
    url = postgres_server.database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reads'")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(CheckpointerUnavailable, match="permission denied"):
        async with open_postgres(url.replace(f"tester:{PASSWORD}", "reader:reads"), timeout=5):
            pass


async def test_one_server_at_a_time(opened: Open) -> None:
    async with opened() as saver, opened() as other:
        async with saver.alone():
            with pytest.raises(CheckpointerUnavailable, match="Another server works with"):
                async with other.alone():
                    pass
            await Thread(other).say("a task")  # programs that serve nothing go on
        async with other.alone():
            pass
