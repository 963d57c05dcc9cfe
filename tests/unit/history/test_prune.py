"""`Pruner.prune`: the oldest captures go first, and never those that a thread still needs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import pytest

from libs.workspace.history import NoCapture
from libs.workspace.ledger import WayBack
from tests.servers.snapshots import Snapshots, noise

SIZE = 100_000
"""Bytes of a file. Its content cannot be compressed."""
ROOM = 1_000
"""More bytes than the compression adds to some files."""


async def states(snapshots: Snapshots, thread: str, count: int) -> list[str]:
    """Capture `count` states, each with another content of one file. Return the tickets."""
    (snapshots.root(thread)).mkdir(exist_ok=True)
    for number in range(30):  # a manifest becomes a difference
        (snapshots.root(thread) / f"same{number}").write_text(f"{number}")
    return [await snapshots.step(thread, changing=noise(SIZE)) for _ in range(count)]


async def test_oldest_captures_go_first_and_free_their_bytes(snapshots: Snapshots) -> None:
    first, second = await states(snapshots, "1", 2), await states(snapshots, "2", 2)
    assert snapshots.bytes_at_place() > 4 * SIZE
    pruned = await snapshots.pruner.prune(3 * SIZE + ROOM + 30 * 20, young=0)
    assert pruned.captures == 1
    assert pruned.freed >= SIZE
    assert pruned.size == await snapshots.pruner.size() == snapshots.bytes_at_place() <= 3 * SIZE + 2 * ROOM
    with pytest.raises(NoCapture, match="was removed"):
        await snapshots.history.files.at("1", first[0])
    for thread, ticket in (("1", first[1]), ("2", second[0]), ("2", second[1])):
        await snapshots.read_all((await snapshots.history.files.at(thread, ticket)).id)


async def test_going_back_to_a_removed_capture_changes_nothing(snapshots: Snapshots) -> None:
    tickets = await states(snapshots, "1", 3)
    await snapshots.pruner.prune(0, young=0)
    file = snapshots.root("1") / "changing"
    before, head = file.read_bytes(), await snapshots.ledger.head("1")
    with pytest.raises(NoCapture, match="was removed") as refused:
        await snapshots.history.go_back("1", tickets[0])
    assert "SNAPSHOTS_MAX" in refused.value.hint
    assert (file.read_bytes(), await snapshots.ledger.head("1")) == (before, head)


async def test_latest_state_and_undo_are_never_removed(snapshots: Snapshots) -> None:
    tickets = await states(snapshots, "1", 4)
    moved = await snapshots.history.go_back("1", tickets[1])
    await snapshots.history.ledger.add_way_back("1", WayBack(moved.before, "x", "y"))
    assert (await snapshots.pruner.prune(0, young=0)).size > 2 * SIZE
    back = (snapshots.root("1") / "changing").read_bytes()
    newest = await snapshots.ledger.kept_until("1", "9")
    assert newest
    for ticket in (tickets[1], newest.id, moved.before):  # latest checkpoint, newest ticket, undo
        await snapshots.read_all((await snapshots.history.files.at("1", ticket)).id)
    await snapshots.history.go_back("1", moved.before)
    assert (snapshots.root("1") / "changing").read_bytes() != back
    for ticket in (tickets[0], tickets[2]):
        with pytest.raises(NoCapture):
            await snapshots.history.files.at("1", ticket)


async def test_no_more_is_removed_than_needed_and_nothing_young(snapshots: Snapshots) -> None:
    await states(snapshots, "1", 4)
    size = await snapshots.pruner.size()
    assert (await snapshots.pruner.prune(size, young=0)).captures == 0
    assert (await snapshots.pruner.prune(0)).captures == 0
    assert await snapshots.pruner.size() == size


async def test_kept_manifest_is_readable_after_all_before_it_were_removed(
    snapshots: Snapshots, open_snapshots: Callable[..., Snapshots]
) -> None:
    tickets = await states(snapshots, "1", 12)
    based = snapshots.database.wait(lambda do: do("SELECT max(steps) FROM workspace_manifests"))
    assert based[0][0] >= 10, "the manifests are not differences"
    await snapshots.pruner.prune(0, young=0)
    other = open_snapshots()
    await other.read_all((await other.history.files.at("1", tickets[-1])).id)


async def test_content_comes_back_after_it_was_removed(snapshots: Snapshots) -> None:
    content = noise(SIZE)
    await snapshots.step("1", a=content)
    await snapshots.step("1", a=b"other")
    await snapshots.pruner.prune(0, young=0)
    assert snapshots.bytes_at_place() < SIZE
    ticket = await snapshots.step("1", a=content)
    manifest = await snapshots.history.files.at("1", ticket)
    assert await snapshots.store.aread(manifest.id, "/workspace/a") == content


async def test_changes_of_removed_captures_still_count(open_snapshots: Callable[..., Snapshots]) -> None:
    snapshots = open_snapshots(shared=True)
    sandbox, history = snapshots.sandbox("1"), snapshots.history

    async def command(thread: str, line: str) -> str:
        snapshots.running = thread
        assert (await sandbox.arun(line)).exit_code == 0
        ticket = await history.captures.after_step(thread)
        await history.captures.settled(thread)
        return ticket

    await sandbox.astart()
    await history.captures.begin_turn("1")
    await history.captures.settled("1")
    start = await command("1", "echo 1 > both; echo 1 > own")
    await command("2", "echo 2 > both")
    await command("1", "echo 3 > both; echo 5 > own")
    await command("1", "echo 4 > own")
    await snapshots.ledger.set_head("1", start)  # so the capture at the start is kept
    await snapshots.pruner.prune(0, young=0)
    await snapshots.pruner.forget("2")
    numbers = snapshots.database.wait(lambda do: do("SELECT number FROM workspace_captures ORDER BY number"))
    assert numbers == [(2,), (5,)], "the captures after the first command, and after the last"
    moved = await history.go_back("1", start)
    assert (sandbox.root / "own").read_text() == "1\n"
    assert (sandbox.root / "both").read_text() == "3\n"
    assert moved.restored.kept == {"/workspace/both": "somebody else has changed it, too"}


async def test_contents_of_broken_off_captures_and_prunes_are_removed(snapshots: Snapshots) -> None:
    await snapshots.step("1", a=b"kept")
    kept = snapshots.bytes_at_place()
    place = await snapshots.catalog.open_place()
    digests = await snapshots.contents.put(place, [_named(noise(SIZE)), _named(noise(SIZE))])
    one, _ = digests
    await snapshots.catalog.kept(place, {one: digests[one]})  # killed before the other one is recorded
    await snapshots.pruner.prune(0)
    assert snapshots.bytes_at_place() > 2 * SIZE, "the capture may still go on"
    hours_ago = time.time() - 7_200
    for table in ("workspace_places", "workspace_contents"):
        snapshots.database.wait(lambda do, table=table: do(f"UPDATE {table} SET at = ?", hours_ago))
    assert await snapshots.pruner.is_due(10 * SIZE)
    await snapshots.pruner.prune(10 * SIZE)
    assert snapshots.bytes_at_place() == kept
    left = await snapshots.contents.put("broken", [_named(noise(SIZE))])
    snapshots.database.wait(
        lambda do: [do("INSERT INTO workspace_removed VALUES ('broken', ?)", digest) for digest in left]
    )
    assert await snapshots.pruner.is_due(10 * SIZE)
    await snapshots.pruner.prune(10 * SIZE)
    assert snapshots.bytes_at_place() == kept
    assert not await snapshots.pruner.is_due(10 * SIZE)


def _named(content: bytes) -> tuple[str, bytes]:
    return hashlib.sha256(content).hexdigest(), content
