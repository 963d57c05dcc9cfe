"""What the server writes down of its threads and runs, and what it finds again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent.server.journal import Journal
from libs.gateway.redaction import SecretFilter
from libs.persistence.rows import load_rows
from libs.persistence.sqlite import SqliteSaver, open_checkpointer

NOW = datetime.now(UTC)


class User:
    """As the server has the person that a run is for."""

    def dict(self) -> dict[str, Any]:
        return {"identity": "anna", "is_authenticated": True}


def database() -> Any:
    """What the server has in memory, as it starts."""
    own = {"assistant_id": uuid4(), "metadata": {"created_by": "system"}, "created_at": NOW, "version": 1}
    store = {"assistants": [own], "assistant_versions": [dict(own)], "threads": [], "runs": [], "crons": []}
    return SimpleNamespace(GLOBAL_STORE=store, GLOBAL_RETRY_COUNTER=SimpleNamespace(_counters={}))


def thread(**more: Any) -> dict[str, Any]:
    times = {"created_at": NOW, "updated_at": NOW, "state_updated_at": NOW}
    metadata = {"owner": "anna", "graph_id": "deep_agent"}
    values = {"values": {"messages": [object()]}, "interrupts": {"x": []}}
    return {
        "thread_id": uuid4(),
        **times,
        "metadata": metadata,
        "status": "idle",
        "config": {},
        **values,
        **more,
    }


def run(**more: Any) -> dict[str, Any]:
    configurable = {"langgraph_auth_user": User(), "graph_id": "deep_agent", "__pregel_node_finished": print}
    given = {"input": {"messages": [{"role": "user", "content": "2026-01-01T00:00:00"}]}, "command": None}
    ids = {"run_id": uuid4(), "thread_id": uuid4(), "assistant_id": uuid4()}
    kwargs = {**given, "config": {"configurable": configurable, "metadata": {"n": 1}}}
    times = {"created_at": NOW, "updated_at": NOW}
    return {**ids, **times, "status": "pending", "kwargs": kwargs, "metadata": {"assistant_id": "x"}, **more}


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[SqliteSaver]:
    async with open_checkpointer(tmp_path / "threads.sqlite") as it:
        yield it


async def restored(saver: SqliteSaver) -> Any:
    found = database()
    await Journal(saver, found).restore()
    return found


async def test_threads_and_runs_are_found_again(saver: SqliteSaver) -> None:
    before = database()
    before.GLOBAL_STORE["threads"] = [thread(), thread(created_at=NOW - timedelta(days=1))]
    before.GLOBAL_STORE["runs"] = [run(), run(status="success")]
    before.GLOBAL_STORE["assistants"].append(
        {"assistant_id": uuid4(), "metadata": {}, "version": 3, "name": "mine"}
    )
    await Journal(saver, before).write()
    after = (await restored(saver)).GLOBAL_STORE
    older, newer = after["threads"]
    assert (older["thread_id"], newer["thread_id"]) == tuple(
        each["thread_id"] for each in reversed(before.GLOBAL_STORE["threads"])
    )
    kept = before.GLOBAL_STORE["threads"][0]
    assert newer == {**kept, "values": None, "interrupts": {}}
    assert isinstance(newer["thread_id"], UUID)
    by_id = {each["run_id"]: each for each in after["runs"]}
    for each in before.GLOBAL_STORE["runs"]:
        each["kwargs"]["config"]["configurable"]["langgraph_auth_user"] = User().dict()
        del each["kwargs"]["config"]["configurable"]["__pregel_node_finished"]
        assert by_id[each["run_id"]] == each
    # The server's own assistant is the one of this start, the person's is the one that was made.
    assert [each.get("name") for each in after["assistants"]] == [None, "mine"]
    assert after["assistants"][0]["assistant_id"] != before.GLOBAL_STORE["assistants"][0]["assistant_id"]
    assert len(after["assistant_versions"]) == 1


async def test_what_goes_is_gone_and_what_changes_is_changed(saver: SqliteSaver) -> None:
    live = database()
    stays, goes, job = thread(), thread(), run()
    live.GLOBAL_STORE |= {"threads": [stays, goes], "runs": [job]}
    journal = Journal(saver, live)
    await journal.write()
    live.GLOBAL_STORE["threads"] = [stays]
    stays |= {"metadata": {"title": "new"}, "updated_at": NOW + timedelta(seconds=1)}
    job["status"] = "running"
    live.GLOBAL_RETRY_COUNTER._counters[job["run_id"]] = 2
    await journal.write()
    after = await restored(saver)
    [found] = after.GLOBAL_STORE["threads"]
    assert found["metadata"] == {"title": "new"}
    [again] = after.GLOBAL_STORE["runs"]
    assert again["status"] == "pending"
    assert after.GLOBAL_RETRY_COUNTER._counters == {job["run_id"]: 2}


async def test_a_run_that_had_begun_is_not_its_first_attempt(saver: SqliteSaver) -> None:
    live, job = database(), run()
    live.GLOBAL_STORE["runs"] = [job]
    await Journal(saver, live).write()
    config: Any = {
        "configurable": {"thread_id": str(job["thread_id"]), "checkpoint_ns": ""},
        "metadata": {"run_id": str(job["run_id"])},
    }
    checkpoint: Any = {"id": str(uuid4()), "v": 4, "ts": "", "channel_values": {}, "channel_versions": {}}
    await saver.aput(config, checkpoint, {}, {})
    assert (await restored(saver)).GLOBAL_RETRY_COUNTER._counters == {job["run_id"]: 1}


async def test_nothing_that_has_not_changed_is_written_again(
    saver: SqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = database()
    live.GLOBAL_STORE["threads"] = [thread() for _ in range(3)]
    await Journal(saver, live).write()
    again = Journal(saver, after := await restored(saver))
    await again.restore()
    written: list[Any] = []

    async def save_rows(saver: Any, changed: Any, gone: Any) -> None:
        written.append((changed, gone))

    monkeypatch.setattr("agent.server.journal.save_rows", save_rows)
    await again.write()
    assert written == []
    after.GLOBAL_STORE["threads"][1]["status"] = "busy"
    await asyncio.gather(*(again.write() for _ in range(50)))
    assert len(written) == 1
    assert len(written[0][0]) == 1


async def test_every_caller_finds_its_own_change_written(saver: SqliteSaver) -> None:
    """Writes are shared, but never with one that had begun before."""
    live = database()
    journal = Journal(saver, live)

    async def change(number: int) -> None:
        await asyncio.sleep(0.001 * (number % 7))
        live.GLOBAL_STORE["threads"].append(made := thread())
        await journal.write()
        assert ("threads", str(made["thread_id"])) in await load_rows(saver)

    await asyncio.gather(*(change(number) for number in range(40)))


async def test_what_could_not_be_written_is_written_next_time(
    saver: SqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = database()
    live.GLOBAL_STORE["threads"] = [thread()]
    journal = Journal(saver, live)

    async def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("agent.server.journal.save_rows", full)
        with pytest.raises(sqlite3.OperationalError):
            await journal.write()
    await journal.write()
    assert len(await load_rows(saver)) == 1


async def test_no_secret_is_written(saver: SqliteSaver) -> None:
    live = database()
    secret = "sk-9Zx8Kq3Vn5Rt7Yw2Lp4M"
    live.GLOBAL_STORE["threads"] = [thread(metadata={"title": f"my {secret}", secret: 1})]
    await Journal(saver, live, SecretFilter({"KEY": secret})).write()
    [text] = (await load_rows(saver)).values()
    assert secret not in text
    assert text.count("[REDACTED]") == 2


async def test_what_cannot_be_written_keeps_nothing_else_from_it(
    saver: SqliteSaver, caplog: pytest.LogCaptureFixture
) -> None:
    live = database()
    live.GLOBAL_STORE["threads"] = [thread(config={"x": object(), "y": 1}), thread()]
    await Journal(saver, live).write()
    assert "a object is left out" in caplog.text
    first, second = (await restored(saver)).GLOBAL_STORE["threads"]
    assert [first["config"], second["config"]] == [{"x": None, "y": 1}, {}]
