"""The store of captured workspaces on PostgreSQL: captures, prunes, copies and deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from libs.persistence.thread_database import PostgresDatabase
from libs.workspace.history import NoCapture
from libs.workspace.ledger import ClaimLost, Ledger
from libs.workspace.prune import thread_uses
from tests.servers.postgres_server import Postgres
from tests.servers.snapshots import Snapshots, noise, race

SIZE = 50_000


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.thorough
async def test_snapshots_in_postgres(postgres_server: Postgres, tmp_path: Path, stack: ExitStack) -> None:
    url = postgres_server.database()

    def opened() -> Snapshots:
        made = Snapshots(tmp_path, PostgresDatabase(url))
        stack.callback(made.close)
        return made

    snapshots = opened()
    tickets = [await snapshots.step("a", file=noise(SIZE)) for _ in range(3)]
    await snapshots.ledger.copy("a", "b", shared=False)
    assert (await snapshots.pruner.prune(2 * SIZE + 1_000, young=0)).captures == 1
    with pytest.raises(NoCapture):
        await snapshots.history.go_back("a", tickets[0])
    await snapshots.history.go_back("a", tickets[1])
    await snapshots.pruner.forget("a")
    assert [(use.thread, use.size > SIZE) for use in await thread_uses(snapshots.database)] == [("b", True)]
    assert await snapshots.pruner.size() == snapshots.bytes_at_place() > 2 * SIZE
    await snapshots.pruner.prune(0, young=0)
    assert await snapshots.pruner.size() == snapshots.bytes_at_place() < SIZE + 1_000
    await race(opened, 25)


async def test_claims_in_postgres(postgres_server: Postgres, stack: ExitStack) -> None:
    url = postgres_server.database()
    ledgers = []
    for _ in range(2):
        database = PostgresDatabase(url)
        stack.callback(database.close)
        ledgers.append(Ledger(database))
    one, two = (ledger.claims for ledger in ledgers)
    made = await asyncio.gather(*(claims.claim("t") for claims in (one, two) * 5))
    assert len(set(made)) == 10
    assert [await two.holds("t", each) for each in sorted(made)] == [False] * 9 + [True]
    with pytest.raises(ClaimLost):
        await ledgers[0].add("thread t", "manifest", {}, "t", [], claim=min(made))
    assert await ledgers[0].latest("thread t") is None
