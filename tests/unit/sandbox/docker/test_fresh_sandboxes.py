"""A fresh sandbox for each task: never used twice, closed after the task, spares replaced."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.sandbox import SandboxError
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.pool.per_task import FreshSandboxes
from tests.support.waiting import eventually


class Local(LocalSandbox):
    """A sandbox without a container that remembers its thread."""

    thread: str | None = None

    def belongs_to(self, thread: str) -> None:
        assert self.running
        self.thread = thread


class Maker:
    """Creates sandboxes and keeps a list of them."""

    def __init__(self, folder: Path) -> None:
        self.made: list[Local] = []
        self._folder = folder
        self._lock = threading.Lock()

    def __call__(self) -> Local:
        with self._lock:
            self.made.append(Local(self._folder / str(len(self.made))))
            return self.made[-1]

    @property
    def running(self) -> list[Local]:
        return [sandbox for sandbox in self.made if sandbox.running]


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


@pytest.fixture
def fresh(maker: Maker) -> Iterator[FreshSandboxes[Local]]:
    made = FreshSandboxes(maker, warm=1, most=2)
    yield made
    made.close()
    assert maker.running == []


async def test_each_task_has_its_own_sandbox(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    assert maker.made == []
    async with fresh.one("a") as first:
        first.run("touch here")
        assert first.thread == "a"
    with pytest.raises(ZeroDivisionError):
        async with fresh.one("b") as second:
            assert second is not first
            assert second.run("ls").output == ""
            assert second.thread == "b"
            raise ZeroDivisionError  # the sandbox is closed anyway
    eventually(lambda: not first.running and not second.running)


async def test_next_task_gets_the_spare_and_the_spare_is_replaced(
    maker: Maker, fresh: FreshSandboxes[Local]
) -> None:
    async with fresh.one():
        pass
    eventually(lambda: len(maker.made) == 2 and maker.running == [maker.made[1]])
    async with fresh.one() as taken:
        assert taken is maker.made[1]
    eventually(lambda: len(maker.made) == 3 and maker.running == [maker.made[2]])


async def test_spare_whose_folder_was_replaced_is_not_used(
    maker: Maker, fresh: FreshSandboxes[Local]
) -> None:
    fresh.prepare()
    eventually(lambda: len(maker.running) == 1)
    root = maker.made[0].root
    root.rename(root.with_name("old"))
    root.mkdir()
    async with fresh.one() as taken:
        assert taken is maker.made[1]
        assert not maker.made[0].running


async def test_first_step_runs_in_each_sandbox_and_spare(maker: Maker) -> None:
    failing = [True]

    def first(sandbox: Local) -> None:
        sandbox.write_file("first", b"done")
        if len(maker.made) == 2 and failing.pop():
            raise SandboxError("no", hint="")

    made = FreshSandboxes(maker, warm=1, first=first)
    async with made.one() as cold:
        assert cold.read_file("first") == b"done"
    eventually(lambda: not failing and maker.running == [])
    eventually(lambda: (made.prepare(), maker.running == maker.made[2:] != [])[1])
    async with made.one() as spare:
        assert spare is maker.made[2]
        assert spare.read_file("first") == b"done"
    made.close()


async def test_task_waits_for_a_spare_that_is_starting(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    """Two starts at once would each take twice as long."""
    fresh.prepare()
    async with fresh.one() as taken:
        assert taken is maker.made[0]


async def test_further_tasks_wait_for_a_turn(fresh: FreshSandboxes[Local]) -> None:
    third_began = asyncio.Event()

    async def third() -> None:
        async with fresh.one():
            third_began.set()

    async with fresh.one(), fresh.one():
        waiting = asyncio.create_task(third())
        await asyncio.sleep(0.3)
        assert not third_began.is_set()
    await asyncio.wait_for(waiting, 30)


async def test_cancelled_task_closes_the_starting_sandbox(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    async def work() -> None:
        async with fresh.one():
            await asyncio.sleep(60)

    for pause in (0.0, 0.001, 0.01, 0.05, 0.3):
        task = asyncio.create_task(work())
        await asyncio.sleep(pause)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    # All turns are free again, and nothing but the spare is left.
    for _ in range(4):
        async with fresh.one() as sandbox:
            assert (await sandbox.arun("echo on")).output == "on\n"
    await asyncio.to_thread(eventually, lambda: len(maker.running) <= 1)


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.05])
async def test_nothing_starts_after_the_close_for_a_cancelled_task(
    maker: Maker, fresh: FreshSandboxes[Local], pause: float
) -> None:
    async def work() -> None:
        async with fresh.one():
            await asyncio.sleep(60)

    running = [asyncio.create_task(work()) for _ in range(2)]
    await asyncio.to_thread(eventually, lambda: len(maker.made) == 3)
    waiting = asyncio.create_task(work())
    for task in (waiting, *running):
        await asyncio.sleep(pause)
        task.cancel()
        await asyncio.wait({task})
    await asyncio.to_thread(fresh.close)
    made = list(maker.made)
    await asyncio.sleep(0.3)
    assert maker.made == made
    assert maker.running == []


async def test_failed_start_is_raised_and_frees_the_turn(tmp_path: Path) -> None:
    def broken() -> Local:
        raise SandboxError("no sandbox.", hint="Make one.")

    fresh: FreshSandboxes[Local] = FreshSandboxes(broken, warm=1, most=1)
    for _ in range(3):
        with pytest.raises(SandboxError, match="no sandbox"):
            async with fresh.one():
                pass
    fresh.close()
