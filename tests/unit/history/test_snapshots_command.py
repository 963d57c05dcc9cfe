"""`code-agent snapshots`: lists what is kept for each thread, and removes the oldest."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.cli import app
from agent.settings import load_settings
from agent.threads.snapshot_store import build_snapshots
from tests.servers.snapshots import Snapshots, noise

SIZE = 700_000


@pytest.fixture
def snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Snapshots]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAPSHOTS_URL", str(tmp_path / "snapshots"))
    monkeypatch.setenv("SNAPSHOTS_MAX", "1m")
    made = Snapshots(tmp_path, build_snapshots(load_settings(None)).database)
    yield made
    made.close()


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["snapshots", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command(*arguments, "--json"))
    return found


async def turn(snapshots: Snapshots, thread: str, content: bytes) -> None:
    await snapshots.sandbox(thread).astart()
    await snapshots.history.captures.begin_turn(thread)
    await snapshots.history.captures.settled(thread)
    await snapshots.step(thread, file=content)


def test_list_and_prune(snapshots: Snapshots, tmp_path: Path) -> None:
    for _ in range(2):
        asyncio.run(turn(snapshots, "1", noise(SIZE)))
    asyncio.run(turn(snapshots, "2", noise(1_000)))
    found = as_json("ls")
    assert [(row["thread"], row["turns"]) for row in found["threads"]] == [("2", 1), ("1", 2)]
    assert found["threads"][1]["bytes"] >= 2 * SIZE
    assert (found["max_bytes"], found["place"]) == (2**20, str(tmp_path / "snapshots"))
    assert found["bytes"] == snapshots.bytes_at_place()
    lines = command("ls").splitlines()
    assert lines[1].split("\t")[:2] == ["1", "2"]
    assert lines[-1] == f"1.3 MiB of at most 1.0 MiB in {tmp_path / 'snapshots'}"

    assert "younger than an hour" in command("prune")
    for table in ("workspace_manifests", "workspace_contents"):
        snapshots.database.wait(lambda do, table=table: do(f"UPDATE {table} SET at = ?", time.time() - 7_200))
    pruned = as_json("prune")
    assert (pruned["removed"], pruned["max_bytes"]) == (2, 2**20)
    assert pruned["freed_bytes"] >= SIZE
    assert pruned["bytes"] == snapshots.bytes_at_place() < SIZE + 10_000
    assert [row["turns"] for row in as_json("ls")["threads"]] == [1, 0]


def test_list_names_what_the_newest_snapshots_leave_out(snapshots: Snapshots) -> None:
    big = snapshots.root("1") / "big"
    big.parent.mkdir(exist_ok=True)
    with big.open("wb") as file:
        file.truncate(65 * 2**20)
    asyncio.run(turn(snapshots, "1", b"kept"))
    not_kept = {"/workspace/big": "larger than 67,108,864 bytes"}
    assert [row["not_kept"] for row in as_json("ls")["threads"]] == [not_kept]
    assert command("ls").splitlines()[-2] == "Not kept: /workspace/big: larger than 67,108,864 bytes"
    big.unlink()
    asyncio.run(turn(snapshots, "1", b"kept"))
    assert [row["not_kept"] for row in as_json("ls")["threads"]] == [{}]


def test_nothing_was_ever_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_json("ls")["threads"] == []
    assert as_json("prune")["bytes"] == 0
    assert not (tmp_path / ".code-agent").exists()


def test_unusable_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".code-agent").mkdir()
    (tmp_path / ".code-agent" / "workspaces.sqlite").write_bytes(b"this is no database" * 100)
    result = CliRunner().invoke(app, ["snapshots", "ls"])
    assert result.exit_code == 1
    assert "workspaces.sqlite cannot be used" in result.output
