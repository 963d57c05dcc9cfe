"""A sandbox for each piece of work: never used twice, ended behind its user, spares refilled (X2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.sandbox import SandboxError
from libs.sandbox.fresh import FreshSandboxes
from libs.sandbox.local import LocalSandbox
from tests.waiting import eventually


class Local(LocalSandbox):
    """The engine without a container; remembers whose it is."""

    thread: str | None = None

    def belongs_to(self, thread: str) -> None:
        assert self.running
        self.thread = thread


class Maker:
    """Makes sandboxes, and knows all that it has made."""

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


def test_nothing_is_started_before_it_is_asked(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    assert maker.made == []


def test_each_piece_of_work_has_its_own(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    with fresh.one("a") as first:
        first.run("touch here")
        assert first.thread == "a"
    with fresh.one("b") as second:
        assert second is not first
        assert second.run("ls").output == ""
        assert second.thread == "b"
    eventually(lambda: not first.running and not second.running)


def test_a_spare_is_ready_for_the_next_and_the_pool_refills(
    maker: Maker, fresh: FreshSandboxes[Local]
) -> None:
    with fresh.one():
        pass
    eventually(lambda: len(maker.made) == 2 and maker.running == [maker.made[1]])
    with fresh.one() as taken:
        assert taken is maker.made[1]
    eventually(lambda: len(maker.made) == 3 and maker.running == [maker.made[2]])


def test_something_is_done_first_in_each_a_spare_or_not(maker: Maker) -> None:
    failing = [True]

    def first(sandbox: Local) -> None:
        sandbox.write_file("first", b"done")
        if len(maker.made) == 2 and failing.pop():
            raise SandboxError("no", hint="")

    made = FreshSandboxes(maker, warm=1, first=first)
    with made.one() as cold:
        assert cold.read_file("first") == b"done"
    eventually(lambda: not failing and maker.running == [])
    eventually(lambda: (made.prepare(), maker.running == maker.made[2:] != [])[1])
    with made.one() as spare:
        assert spare is maker.made[2]
        assert spare.read_file("first") == b"done"
    made.close()


def test_one_can_be_had_ready_beforehand(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    fresh.prepare()
    eventually(lambda: len(maker.running) == 1)
    with fresh.one() as taken:
        assert taken is maker.made[0]


def test_one_that_is_being_started_is_waited_for(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    """To start another beside it would take both twice as long."""
    fresh.prepare()
    with fresh.one() as taken:
        assert taken is maker.made[0]


def test_a_spare_that_has_died_is_not_given_out(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    fresh.prepare()
    eventually(lambda: len(maker.running) == 1)
    maker.made[0].close()
    with fresh.one() as taken:
        assert taken is not maker.made[0]
        assert taken.run("echo alive").output == "alive\n"


def test_it_is_ended_whatever_happens(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    with pytest.raises(ZeroDivisionError), fresh.one() as sandbox:
        raise ZeroDivisionError
    eventually(lambda: not sandbox.running)


def test_no_more_at_once_than_there_may_be(fresh: FreshSandboxes[Local]) -> None:
    third_began = threading.Event()

    def third() -> None:
        with fresh.one():
            third_began.set()

    with fresh.one(), fresh.one():
        thread = threading.Thread(target=third)
        thread.start()
        assert not third_began.wait(0.3)
    assert third_began.wait(30)
    thread.join()


async def test_cancelling_ends_what_was_being_started(maker: Maker, fresh: FreshSandboxes[Local]) -> None:
    async def work() -> None:
        async with fresh.aone():
            await asyncio.sleep(60)

    for pause in (0.0, 0.001, 0.01, 0.05, 0.3):
        task = asyncio.create_task(work())
        await asyncio.sleep(pause)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    # All turns are free again, and nothing but the spare is left.
    for _ in range(4):
        async with fresh.aone() as sandbox:
            assert (await sandbox.arun("echo on")).output == "on\n"
    await asyncio.to_thread(eventually, lambda: len(maker.running) <= 1)


def test_an_error_is_told_and_blocks_nobody(tmp_path: Path) -> None:
    def broken() -> Local:
        raise SandboxError("no sandbox.", hint="Make one.")

    fresh: FreshSandboxes[Local] = FreshSandboxes(broken, warm=1, most=1)
    for _ in range(3):
        with pytest.raises(SandboxError, match="no sandbox"), fresh.one():
            pass
    fresh.close()


def test_there_must_be_room_for_one(maker: Maker) -> None:
    with pytest.raises(ValueError, match="most must be at least 1"):
        FreshSandboxes(maker, most=0)
