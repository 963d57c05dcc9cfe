"""Threads with captured workspaces, in local sandboxes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Self

from libs.persistence.thread_database import Database
from libs.sandbox import RunResult, SandboxError
from libs.sandbox.host import CommandRecords, failed_result
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Catalog, Contents, WorkspaceStore
from libs.workspace.history import Travels, TurnCaptures, WorkspaceHistory
from libs.workspace.ledger import Ledger
from tests.support.workspaces.empty_starts import EmptyStart

__all__ = ["CapturedThreads", "holding", "later"]

_current: ContextVar[str] = ContextVar("thread", default="")


@contextmanager
def _in_thread(thread: str) -> Iterator[None]:
    token = _current.set(thread)
    try:
        yield
    finally:
        _current.reset(token)


async def later() -> None:
    """Wait longer than the clock of the files may be late."""
    await asyncio.sleep(0.04)


def holding(*tickets: str) -> Callable[[str], Awaitable[bool]]:
    """Return a function that tells whether a checkpoint of a thread holds a ticket: one of these."""

    async def is_held(ticket: str) -> bool:
        return ticket in tickets

    return is_held


class CapturedThreads:
    """Runs turns of threads, in one workspace for all threads or in one for each."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        *,
        shared: bool,
        records: CommandRecords | None = None,
        travels: str = "",
    ) -> None:
        """Create the threads.

        Args:
            travels: name of a server whose sandboxes start empty.
        """
        self._folder = folder
        self._records = records
        self._shared = shared
        self._sandboxes: dict[str, LocalSandbox] = {}
        self._stack = ExitStack()
        store = WorkspaceStore(Catalog(database), Contents(str(folder / "snapshots")))
        ledger = Ledger(database)
        self._travels = travels
        ways = Travels(store, ledger, self.sandbox_of) if travels else None
        self.history = WorkspaceHistory(
            TurnCaptures(store, ledger, self.sandbox_of, shared=shared, travels=ways)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def sandbox_of(self, thread: str) -> LocalSandbox:
        name = "shared" if self._shared else thread
        if name not in self._sandboxes:
            place = self._folder / (self._travels or "workspaces") / name
            kind = EmptyStart if self._travels else LocalSandbox
            made = kind(place, thread=_current.get, records=self._records)
            self._sandboxes[name] = self._stack.enter_context(made)
            if self._travels:
                self.history.captures.attach(thread, made)
        return self._sandboxes[name]

    def path(self, name: str, thread: str = "t") -> Path:
        """Return the path of a file of the workspace on the host."""
        return self.sandbox_of(thread).root / name

    def files(self, thread: str = "t") -> dict[str, str]:
        """Return the content of each file of the workspace."""
        root = self.sandbox_of(thread).root
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}

    async def command(self, command: str, thread: str = "t", *, key: str | None = None) -> None:
        """Run a command of a thread. `key`: identifies the call; None: a new key."""
        with _in_thread(thread):
            key = key or secrets.token_hex(8)
            result = await self.sandbox_of(thread).arun(command, key=key, note_new=True)
        assert result.exit_code == 0, result.output

    async def alone(self, command: str, thread: str = "t", *, key: str) -> RunResult:
        """Run a command of a thread as calls run that are decided on by their effects."""
        with _in_thread(thread):
            try:
                return await self.sandbox_of(thread).arun(command, key=key, note_new=True, alone=True)
            except SandboxError as error:
                return failed_result(error)

    async def output(self, command: str, thread: str = "t") -> str:
        """Run a command of a thread as the tool `execute` does, and return its output."""
        with _in_thread(thread):
            return (await self.sandbox_of(thread).arun(command, note_new=True)).output

    async def block(self, code: str, thread: str = "t") -> RunResult:
        """Run a block in the live interpreter of a thread."""
        with _in_thread(thread):
            return await self.sandbox_of(thread).arun_python(code, session=thread)

    async def turn(self, *commands: str, thread: str = "t") -> str:
        """Carry out a turn of a person. Return the ticket at its end."""
        await later()
        ticket = await self.history.captures.begin_turn(thread)
        for command in commands:
            await self.command(command, thread)
            ticket = await self.history.captures.after_step(thread)
        await self.history.captures.settled(thread)
        await later()
        return ticket
