"""A sandbox that starts empty is filled before anybody uses it, and kept before it is closed for idleness."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.sandbox import SandboxDied, SandboxError
from libs.sandbox.host import ChannelTree, core
from tests.support.waiting import eventually
from tests.support.workspaces.empty_starts import EmptyStart


class Filling:
    """Fills workspaces with one file, when the test lets it."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, tree: ChannelTree) -> None:
        self.count += 1
        await self.may_end.wait()
        if error := self.error:
            self.error = None
            raise error
        await tree.atree("walk", most=1, again=[], seconds=5, mark="")

    def let_end(self) -> None:
        core()._loop.call_soon_threadsafe(self.may_end.set)


@pytest.fixture
def filling() -> Filling:
    return Filling()


@pytest.fixture
def sandbox(tmp_path: Path, filling: Filling) -> Iterator[EmptyStart]:
    with EmptyStart(tmp_path / "workspace") as sandbox:
        sandbox.fill = filling
        yield sandbox


async def test_first_callers_wait_for_one_fill(sandbox: EmptyStart, filling: Filling) -> None:
    callers = [asyncio.create_task(sandbox.arun("echo on")) for _ in range(3)]
    starting = asyncio.create_task(sandbox.astart())
    await asyncio.to_thread(eventually, lambda: filling.count)
    assert not sandbox.running
    assert not any(each.done() for each in (*callers, starting))
    filling.let_end()
    assert [(await each).output for each in callers] == ["on\n"] * 3
    await starting
    assert sandbox.running
    await sandbox.arun("true")
    assert filling.count == 1


async def test_cancelled_caller_does_not_stop_the_fill(sandbox: EmptyStart, filling: Filling) -> None:
    first = asyncio.create_task(sandbox.arun("echo on"))
    await asyncio.to_thread(eventually, lambda: filling.count)
    second = asyncio.create_task(sandbox.arun("echo on"))
    first.cancel()
    await asyncio.wait({first})
    filling.let_end()
    assert (await second).output == "on\n"
    assert (filling.count, sandbox.starts) == (1, 1)


async def test_failed_fill_ends_the_sandbox_and_the_next_call_tries_again(
    sandbox: EmptyStart, filling: Filling
) -> None:
    filling.error = SandboxError("The store is down.", hint="Start it.")
    callers = [asyncio.create_task(sandbox.arun("echo on")) for _ in range(2)]
    await asyncio.to_thread(eventually, lambda: filling.count)
    filling.let_end()
    for each in callers:
        with pytest.raises(SandboxError, match="The store is down"):
            await each
    assert not sandbox.running
    assert sandbox.process is not None
    assert sandbox.process.poll() is not None
    assert (await sandbox.arun("echo on")).output == "on\n"
    assert (filling.count, sandbox.starts) == (2, 2)


async def test_sandbox_that_dies_while_it_is_filled_is_replaced_by_the_next_call(
    sandbox: EmptyStart, filling: Filling
) -> None:
    caller = asyncio.create_task(sandbox.arun("echo on"))
    await asyncio.to_thread(eventually, lambda: filling.count)
    await asyncio.to_thread(sandbox.kill)
    filling.let_end()
    with pytest.raises(SandboxError, match="ended while its workspace was filled") as raised:
        await caller
    assert not isinstance(raised.value, SandboxDied), "the command has not begun"
    assert (await sandbox.arun("echo on")).output == "on\n"


async def test_tree_never_reaches_the_sandbox_that_replaces_its_own(
    sandbox: EmptyStart, filling: Filling
) -> None:
    filling.let_end()
    await sandbox.astart()
    tree = sandbox.tree
    assert tree is not None
    await tree.aend()
    assert not sandbox.running
    await sandbox.astart()
    assert sandbox.tree is not tree
    with pytest.raises(SandboxDied):
        await tree.atree("walk", most=1, again=[], seconds=5, mark="")
    assert sandbox.running


def test_idle_sandbox_is_kept_before_it_is_closed(tmp_path: Path) -> None:
    """What keeps the workspace uses the sandbox, which does not count as use."""
    tries = 0
    with EmptyStart(tmp_path / "workspace", idle_seconds=0.2) as sandbox:

        async def keep() -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise SandboxError("The store is down.", hint="Start it.")
            assert sandbox.running, "it stays open until its workspace is kept"
            assert sandbox.tree is not None
            await sandbox.tree.atree("walk", most=1, again=[], seconds=5, mark="")

        sandbox.keep = keep
        sandbox.start()
        eventually(lambda: not sandbox.running)
    assert tries == 2
