"""Tests how the journal writes and restores the server's threads and runs."""

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

from agent.server.durable.journal import Journal
from libs.persistence.sqlite_saver import SqliteSaver, open_checkpointer
from libs.redaction import SecretFilter

NOW = datetime.now(UTC)


class User:
    """Like the server's object for the user of a run."""

    def dict(self) -> dict[str, Any]:
        return {"identity": "anna", "is_authenticated": True}


def database() -> Any:
    """The server's lists at its start."""
    own = {"assistant_id": uuid4(), "metadata": {"created_by": "system"}, "created_at": NOW, "version": 1}
    store = {"assistants": [own], "assistant_versions": [dict(own)], "threads": [], "runs": [], "crons": []}
    return SimpleNamespace(store=store, attempts={})


def thread(**more: Any) -> dict[str, Any]:
    row = {"thread_id": uuid4(), "created_at": NOW, "updated_at": NOW, "status": "idle", "config": {}}
    return (
        row
        | {"metadata": {"owner": "anna"}, "values": {"messages": [object()]}, "interrupts": {"x": []}}
        | more
    )


def run(**more: Any) -> dict[str, Any]:
    configurable = {"langgraph_auth_user": User(), "graph_id": "deep_agent", "__pregel_node_finished": print}
    kwargs = {"input": {"messages": "2026-01-01T00:00:00"}, "config": {"configurable": configurable}}
    row = {"run_id": uuid4(), "thread_id": uuid4(), "assistant_id": uuid4(), "created_at": NOW}
    return row | {"updated_at": NOW, "status": "pending", "kwargs": kwargs, "metadata": {}} | more


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[SqliteSaver]:
    async with open_checkpointer(tmp_path / "threads.sqlite") as it:
        yield it


async def restored(saver: SqliteSaver) -> Any:
    found = database()
    await Journal(saver, found.store, found.attempts).restore()
    return found


async def test_threads_and_runs_are_restored(saver: SqliteSaver) -> None:
    before = database()
    before.store["threads"] = [thread(), thread(created_at=NOW - timedelta(days=1))]
    before.store["runs"] = [run(), run(status="success")]
    before.store["assistants"].append({"assistant_id": uuid4(), "metadata": {}, "version": 3, "name": "mine"})
    await Journal(saver, before.store, before.attempts).write()
    after = (await restored(saver)).store
    older, newer = after["threads"]
    assert (older["thread_id"], newer["thread_id"]) == tuple(
        each["thread_id"] for each in reversed(before.store["threads"])
    )
    kept = before.store["threads"][0]
    assert newer == {**kept, "values": None, "interrupts": {}}
    assert isinstance(newer["thread_id"], UUID)
    by_id = {each["run_id"]: each for each in after["runs"]}
    for each in before.store["runs"]:
        each["kwargs"]["config"]["configurable"]["langgraph_auth_user"] = User().dict()
        del each["kwargs"]["config"]["configurable"]["__pregel_node_finished"]
        assert by_id[each["run_id"]] == each
    # The server's own assistant is new at each start; the person's assistant is restored.
    assert [each.get("name") for each in after["assistants"]] == [None, "mine"]
    assert after["assistants"][0]["assistant_id"] != before.store["assistants"][0]["assistant_id"]
    assert len(after["assistant_versions"]) == 1


async def test_deleted_rows_are_removed_and_changed_rows_updated(saver: SqliteSaver) -> None:
    live = database()
    stays, goes, job = thread(), thread(), run()
    live.store |= {"threads": [stays, goes], "runs": [job]}
    journal = Journal(saver, live.store, live.attempts)
    await journal.write()
    live.store["threads"] = [stays]
    stays |= {"metadata": {"title": "new"}, "updated_at": NOW + timedelta(seconds=1)}
    job["status"] = "running"
    live.attempts[job["run_id"]] = 2
    await journal.write()
    after = await restored(saver)
    [found] = after.store["threads"]
    assert found["metadata"] == {"title": "new"}
    [again] = after.store["runs"]
    assert again["status"] == "pending"
    assert after.attempts == {job["run_id"]: 2}


async def test_started_run_counts_as_an_attempt_after_restore(saver: SqliteSaver) -> None:
    live, job = database(), run()
    live.store["runs"] = [job]
    await Journal(saver, live.store, live.attempts).write()
    config: Any = {
        "configurable": {"thread_id": str(job["thread_id"]), "checkpoint_ns": ""},
        "metadata": {"run_id": str(job["run_id"])},
    }
    checkpoint: Any = {"id": str(uuid4()), "v": 4, "ts": "", "channel_values": {}, "channel_versions": {}}
    await saver.aput(config, checkpoint, {}, {})
    assert (await restored(saver)).attempts == {job["run_id"]: 1}


async def test_start_of_a_run_that_the_end_of_the_server_cuts_off_is_no_attempt(saver: SqliteSaver) -> None:
    """Otherwise a few reloads would use up the attempts of a run (BG_JOB_MAX_RETRIES)."""
    live, job = database(), run(status="running")
    live.store["runs"], live.attempts[job["run_id"]] = [job], 3
    journal = Journal(saver, live.store, live.attempts)
    await journal.write()
    await journal.write_last()
    assert (await restored(saver)).attempts == {job["run_id"]: 2}


@pytest.mark.parametrize(("attempts", "goes_on"), [(0, True), (1, False)])
async def test_run_without_a_thread_is_not_started_twice(
    saver: SqliteSaver, attempts: int, *, goes_on: bool
) -> None:
    live, job, other = database(), run(status="running"), run()
    job["kwargs"]["temporary"] = True
    live.store["threads"] = [thread(thread_id=each["thread_id"]) for each in (job, other)]
    live.store["runs"], live.attempts[job["run_id"]] = [job, other], attempts
    await Journal(saver, live.store, live.attempts).write_last()
    for _ in range(2):
        after = (await restored(saver)).store
        kept = {each["thread_id"] for each in ([job, other] if goes_on else [other])}
        assert {each["thread_id"] for each in after["runs"]} == kept
        assert {each["thread_id"] for each in after["threads"]} == kept


async def test_write_returns_after_the_callers_own_change_is_saved(saver: SqliteSaver) -> None:
    """Callers share a write, but never one that began before their change."""
    live = database()
    journal = Journal(saver, live.store, live.attempts)

    async def change(number: int) -> None:
        await asyncio.sleep(0.001 * (number % 7))
        live.store["threads"].append(made := thread())
        await journal.write()
        assert ("threads", str(made["thread_id"])) in await saver.load_rows()

    await asyncio.gather(*(change(number) for number in range(40)))


async def test_failed_write_is_repeated_by_the_next_one(
    saver: SqliteSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = database()
    live.store["threads"] = [thread()]
    journal = Journal(saver, live.store, live.attempts)

    async def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(saver, "save_rows", full)
        with pytest.raises(sqlite3.OperationalError):
            await journal.write()
    await journal.write()
    assert len(await saver.load_rows()) == 1


async def test_secrets_are_redacted_in_rows(saver: SqliteSaver) -> None:
    live = database()
    secret = "sk-9Zx8Kq3Vn5Rt7Yw2Lp4M"
    live.store["threads"] = [thread(metadata={"title": f"my {secret}", secret: 1})]
    await Journal(saver, live.store, live.attempts, SecretFilter({"KEY": secret})).write()
    [text] = (await saver.load_rows()).values()
    assert secret not in text
    assert text.count("[REDACTED]") == 2
