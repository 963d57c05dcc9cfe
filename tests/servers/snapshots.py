"""Captured workspaces in a folder, for tests: local sandboxes, and all parts of the store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from libs.persistence.thread_database import Database
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Catalog, Contents, WorkspaceStore
from libs.workspace.history import TurnCaptures, WorkspaceHistory
from libs.workspace.ledger import Ledger
from libs.workspace.prune import Pruner

__all__ = ["Snapshots", "noise", "race"]


class Snapshots:
    """A store in one folder and one database. Threads have a sandbox each, unless `shared`."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        *,
        shared: bool = False,
        captured: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = folder
        self.database = database
        self.catalog = Catalog(database)
        self.contents = Contents(str(folder / "snapshots"))
        self.ledger = Ledger(database)
        self.pruner = Pruner(database, self.catalog, self.contents)
        self.store = WorkspaceStore(self.catalog, self.contents)
        self.history = WorkspaceHistory(
            TurnCaptures(self.store, self.ledger, self.sandbox, shared=shared, captured=captured)
        )
        self.shared = shared
        self.running = "1"
        """The thread whose commands run, in a shared workspace."""
        self._sandboxes: dict[str, LocalSandbox] = {}

    def sandbox(self, thread: str) -> LocalSandbox:
        name = "shared" if self.shared else thread
        if name not in self._sandboxes:
            root = self.folder / f"workspace-{name}"
            named = (lambda: self.running) if self.shared else (lambda: thread)
            self._sandboxes[name] = LocalSandbox(root, thread=named)
        return self._sandboxes[name]

    def root(self, thread: str) -> Path:
        return self.sandbox(thread).root

    async def step(self, thread: str, **files: bytes | None) -> str:
        """Write and remove files by hand, capture them, and return the ticket."""
        sandbox = self.sandbox(thread)
        await sandbox.astart()
        for name, content in files.items():
            if content is None:
                (sandbox.root / name).unlink()
            else:
                (sandbox.root / name).write_bytes(content)
        ticket = await self.history.captures.after_step(thread)
        await self.history.captures.settled(thread)
        return ticket

    def bytes_at_place(self) -> int:
        """Return the bytes of all contents at their place."""
        contents = self.folder / "snapshots" / "contents"
        return sum(file.stat().st_size for file in contents.rglob("*") if file.is_file())

    async def read_all(self, capture: str) -> None:
        """Read every content of a capture."""
        for path, entry in (await self.store.amanifest(capture)).entries.items():
            if entry.sha256:
                await self.store.aread(capture, path)

    def close(self) -> None:
        for sandbox in self._sandboxes.values():
            sandbox.close()
        self.database.close()


def noise(size: int, seed: int | None = None) -> bytes:
    """Return bytes that cannot be compressed."""
    return random.Random(seed).randbytes(size)


async def race(open_snapshots: Callable[[], Snapshots], steps: int) -> None:
    """Let two programs capture few different contents, while two others remove all that is not needed now."""
    choice = random.Random(1)
    contents = [noise(3_000, seed) for seed in range(6)]
    programs = [open_snapshots() for _ in range(4)]
    ended = asyncio.Event()
    failed: list[str] = []

    async def capture(snapshots: Snapshots, thread: str) -> None:
        for _ in range(steps):
            files = {f"file{number}": choice.choice(contents) for number in range(4)}
            ticket = await snapshots.step(thread, **files)
            row = await snapshots.ledger.at(thread, ticket)
            if row is None or row.number is None:
                failed.append(str(row and row.why))  # these prunes never rest, and spare nothing young
                continue
            manifest = await snapshots.history.files.at(thread, ticket)
            await snapshots.read_all(manifest.id)

    async def prune(snapshots: Snapshots) -> int:
        removed = 0
        while not ended.is_set():
            removed += (await snapshots.pruner.prune(0, young=0)).freed
            await asyncio.sleep(0.01)
        return removed

    for each, thread in zip(programs, "12", strict=False):
        await each.sandbox(thread).astart()
    prunes = [asyncio.create_task(prune(snapshots)) for snapshots in programs[2:]]
    try:
        await asyncio.gather(*(capture(each, thread) for each, thread in zip(programs, "12", strict=False)))
    finally:
        ended.set()
    assert set(failed) <= {
        "Files or snapshots change all the time.",
        "Snapshots are removed all the time.",
    }
    assert len(failed) < steps, "most captures succeed"
    assert sum([await each for each in prunes]) > 10 * 3_000, "too little was removed to show anything"
    await programs[2].pruner.prune(0, young=0)
    assert programs[2].bytes_at_place() == await programs[2].pruner.size()
