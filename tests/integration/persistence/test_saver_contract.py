"""Tests the savers as LangGraph's server uses them, on SQLite and Postgres.

The test graph resembles the deep agent: its messages are rebuilt from writes, and it asks before a step.
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

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from libs.persistence.persistence_errors import CheckpointerUnavailable
from libs.persistence.postgres_saver import PostgresSaver, open_postgres
from libs.persistence.served_saver import ServedSaver
from libs.persistence.sqlite_saver import SqliteSaver, open_checkpointer
from tests.servers.postgres_server import PASSWORD, Postgres
from tests.servers.thread_databases import DATABASES

Open = Callable[[], AbstractAsyncContextManager[ServedSaver]]
both_databases = pytest.mark.parametrize("opened", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(params=DATABASES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Return a function that opens the same database, empty at first."""
    if request.param == "sqlite":
        return partial(open_checkpointer, tmp_path / "threads.sqlite")
    server: Postgres = request.getfixturevalue("postgres_server")
    return partial(open_postgres, server.database())


@pytest.fixture
async def saver(opened: Open) -> AsyncIterator[ServedSaver]:
    async with opened() as it:
        yield it


# In another process, because importing the server has side effects.
SERVER = {"LANGGRAPH_RUNTIME_EDITION": "inmem", "MIGRATIONS_PATH": "__inmem"}
SERVER |= {"DATABASE_URI": ":memory:", "REDIS_URI": "fake"}
ASKED = """
import json
from langgraph_api._checkpointer.protocol import FullCheckpointerProtocol
mro = FullCheckpointerProtocol.__mro__
asked = {name for each in mro if each.__module__ == FullCheckpointerProtocol.__module__
         for name in (*vars(each), *getattr(each, "__annotations__", {}))}
print(json.dumps([name for name in asked if not name.startswith("_")]))
"""


@pytest.mark.thorough
def test_savers_have_every_method_that_the_server_calls() -> None:
    """Fails when a new version of the server calls a method that the savers lack."""
    told = subprocess.run(
        [sys.executable, "-c", ASKED], env=os.environ | SERVER, capture_output=True, text=True, check=True
    )
    asked = set(json.loads(told.stdout))
    assert {"adelete_for_runs", "acopy_thread", "aprune", "adelete_thread"} <= asked
    asked -= {"serde", "latest_iter", "get", "aget", "aget_iter"}  # attributes; what is made of `aget_tuple`
    asked -= {"delete_for_runs", "copy_thread", "prune"}  # the server calls the asynchronous ones
    for saver in (SqliteSaver, PostgresSaver):
        left = [name for name in sorted(asked) if getattr(saver, name) is getattr(BaseCheckpointSaver, name)]
        assert left == []


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
    """A thread of the test graph, with runs as the server makes them."""

    def __init__(self, saver: ServedSaver, thread_id: str | None = None) -> None:
        graph = StateGraph(State)
        graph.add_node("asks", asks)
        graph.add_node("ends", ends)
        graph.add_edge("__start__", "asks")
        graph.add_edge("asks", "ends")
        self.graph = graph.compile(checkpointer=saver)
        self.id = thread_id or str(uuid4())

    async def run(self, given: Any) -> str:
        """Run to the end, the next question or an error; return the run's id."""
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


async def test_rolled_back_run_leaves_nothing(saver: ServedSaver) -> None:
    thread = Thread(saver)
    await thread.say("quick one")
    run = await thread.say("quick two")
    await saver.adelete_for_runs([run])
    assert await thread.messages() == ONE
    assert not await saver.began(run)
    await thread.say("quick three")
    assert await thread.messages() == [*ONE, "quick three", "said at once", "end"]
    first = Thread(saver)
    await saver.adelete_for_runs([await first.say("a task")])
    assert await first.messages() == []


@both_databases
async def test_rolled_back_answer_is_asked_again(saver: ServedSaver) -> None:
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


@both_databases
async def test_checkpoints_that_later_runs_need_stay(saver: ServedSaver) -> None:
    thread = Thread(saver)
    runs = [await thread.say("a task"), await thread.answer("yes"), await thread.say("quick three")]
    said = await thread.messages()
    assert said[-3:] == ["quick three", "said at once", "end"]
    await saver.adelete_for_runs([runs[1]])
    assert await thread.messages() == said
    await saver.adelete_for_runs([runs[0], runs[2]])
    assert await thread.messages() == said[:-3]


@both_databases
async def test_copied_thread_is_independent(saver: ServedSaver) -> None:
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


@both_databases
async def test_pruning(saver: ServedSaver) -> None:
    thread = Thread(saver)
    await thread.say("quick")
    with pytest.raises(NotImplementedError):
        await saver.aprune([thread.id], strategy="keep_latest")
    await saver.aprune([thread.id], strategy="delete")
    async with saver.transaction() as do:
        for table in ("checkpoints", saver.spelling.writes, "run_marks", "writes_before"):
            assert await do(f"SELECT thread_id FROM {table}") == []


# Rows of the server


@both_databases
async def test_rows_are_written_together_and_read_back(opened: Open) -> None:
    text = '{"x": "\\u0000 \\ud800 ü % ? {}"}'
    async with opened() as saver:
        await saver.save_rows({("thread", "a"): text, ("run", "a"): "1"}, [])
        await saver.save_rows({("run", "a"): "2", ("run", "b"): "3"}, [("run", "b"), ("none", "a")])
        with pytest.raises(ZeroDivisionError):
            async with saver.transaction() as do:
                await do("DELETE FROM server_rows")
                raise ZeroDivisionError
    async with opened() as saver:
        assert await saver.load_rows() == {("thread", "a"): text, ("run", "a"): "2"}


async def test_two_programs_share_a_database(opened: Open) -> None:
    """Programs that start at the same time create the tables only once."""

    async def work(text: str) -> list[str]:
        async with opened() as saver:
            thread = Thread(saver)
            await thread.say(f"quick {text}")
            await saver.save_rows({("thread", text): text}, [])
            return await thread.messages()

    said = await asyncio.gather(*(work(text) for text in "abcd"))
    assert said == [[f"quick {text}", "said at once", "end"] for text in "abcd"]
    async with opened() as saver:
        assert set(await saver.load_rows()) == {("thread", text) for text in "abcd"}


# Postgres alone


@pytest.mark.thorough
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
        (("?host=/", "?host=/nowhere/"), "No such file"),
        (("postgresql://", "postgresql:///x?no="), "cannot be read"),
    ],
)
async def test_unusable_database_is_explained(
    postgres_server: Postgres, change: tuple[str, str], why: str
) -> None:
    url = postgres_server.database().replace(*change)
    with pytest.raises(CheckpointerUnavailable, match=why) as raised:
        async with open_postgres(url, timeout=2):
            pass
    assert raised.value.hint
    assert PASSWORD not in f"{raised.value}{raised.value.hint}"
    assert "wrong-9Zx8Kq3Vn5" not in f"{raised.value}{raised.value.hint}"


@both_databases
async def test_database_allows_one_server_at_a_time(opened: Open) -> None:
    async with opened() as saver, opened() as other:
        async with saver.alone():
            with pytest.raises(CheckpointerUnavailable, match="Another server works with"):
                async with other.alone():
                    pass
            await Thread(other).say("a task")  # programs that are not servers may go on
        async with other.alone():
            pass
