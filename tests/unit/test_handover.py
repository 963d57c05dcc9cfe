"""Handing over costs a bounded time, room and number of the kernel's things, and loses nothing by it (S8)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.sandbox.container import DockerSandbox
from libs.sandbox.handover import Handover, _all_awake
from libs.sandbox.pool import SandboxPool

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to give files away")


def owners(root: Path) -> set[int]:
    return {path.lstat().st_uid for path in root.rglob("*")}


def fill(folder: Path, count: int, prefix: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{prefix}{number}").touch()


def catch_up(handover: Handover, looks: int = 1_000) -> int:
    """Look until nothing is left; how often that was."""
    for number in range(looks):
        if not handover.news():
            return number
        handover.catch_up()
    raise AssertionError(f"something was left after {looks} looks")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.sandbox.handover._SECONDS", 0.01)


@pytest.mark.usefixtures("hasty")
class TestTime:
    def test_a_look_ends_within_a_folder_and_the_rest_comes_later(self, tmp_path: Path) -> None:
        fill(tmp_path / "data", 5_000)
        begun = time.monotonic()
        handover = Handover(tmp_path, 1000)
        assert time.monotonic() - begun < 0.1
        assert owners(tmp_path) == {0, 1000}
        assert catch_up(handover) > 1
        assert owners(tmp_path) == {1000}
        handover.close()

    def test_what_is_new_comes_before_what_is_left(self, tmp_path: Path) -> None:
        fill(tmp_path / "data", 10_000)
        handover = Handover(tmp_path, 1000)
        (tmp_path / "given").touch()
        handover.catch_up()
        assert (tmp_path / "given").stat().st_uid == 1000
        assert owners(tmp_path) == {0, 1000}
        handover.close()

    def test_what_is_new_and_not_reached_comes_later_too(self, tmp_path: Path) -> None:
        handover = Handover(tmp_path, 1000)
        fill(tmp_path, 5_000)
        handover.catch_up()
        assert owners(tmp_path) == {0, 1000}
        catch_up(handover)
        assert owners(tmp_path) == {1000}
        handover.close()

    def test_what_is_last_is_reached_though_the_kernel_loses_count_each_time(self, tmp_path: Path) -> None:
        fill(tmp_path / "data", 5_000)
        most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        handover = Handover(tmp_path, 1000)
        churned = tmp_path / "churned", tmp_path / "churned.2"
        churned[0].touch()
        for _ in range(100):
            for number in range(most + 10):
                churned[number % 2].rename(churned[1 - number % 2])
            handover.catch_up()
            if owners(tmp_path) == {1000}:
                break
        assert owners(tmp_path) == {1000}
        handover.close()

    def test_one_that_waits_for_a_look_needs_none_of_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However many commands are asked for at once, none waits for more than two looks."""
        handover = Handover(tmp_path, 1000)
        looks: list[float] = []
        look = handover._catch_up

        def slow() -> None:
            looks.append(time.monotonic())
            time.sleep(0.2)
            look()

        monkeypatch.setattr(handover, "_catch_up", slow)
        callers = [threading.Thread(target=handover.catch_up) for _ in range(20)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert 1 <= len(looks) <= 2
        handover.close()


class TestRoom:
    def test_names_that_are_made_meanwhile_do_not_keep_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        handover = Handover(tmp_path, 1000)
        (tmp_path / "first").touch()
        read, count = os.read, 0

        def reading(number: int, size: int) -> bytes:
            nonlocal count
            count += 1
            assert count < 10
            data = read(number, size)
            (tmp_path / str(count)).touch()
            return data

        monkeypatch.setattr(os, "read", reading)
        handover.catch_up()
        assert (tmp_path / "first").stat().st_uid == 1000
        assert handover.news()
        monkeypatch.undo()
        catch_up(handover)
        assert owners(tmp_path) == {1000}
        handover.close()

    def test_more_new_names_than_are_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("libs.sandbox.handover._MOST_NAMES", 10)
        handover = Handover(tmp_path, 1000)
        fill(tmp_path, 100)
        assert sum(map(len, handover._changed().values())) == 10
        fill(tmp_path / "data", 100)
        catch_up(handover)
        assert owners(tmp_path) == {1000}
        handover.close()

    def test_more_folders_than_may_wait(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("libs.sandbox.handover._MOST_WAITING", 2)
        for outer in range(5):
            for inner in range(5):
                fill(tmp_path / f"{outer}/{inner}/deep/deeper", 3)
        handover = Handover(tmp_path, 1000)
        assert owners(tmp_path) == {1000}
        handover.close()

    def test_one_takes_at_most_half_of_the_watches_that_are_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However many folders a command makes, those of the next sandbox are watched, too."""
        free = 200 + 2 * sum(len(each._watched) for each in _all_awake())
        monkeypatch.setattr(
            "libs.sandbox.handover.allowed", lambda what, _: {"max_user_watches": free}.get(what, 128)
        )
        for name in ("a", "b"):
            for number in range(300):
                (tmp_path / name / str(number)).mkdir(parents=True)
        made = [Handover(tmp_path / name, 1000) for name in ("a", "b")]
        first, second = (len(each._watched) for each in made)
        assert first <= 50
        assert second >= 10
        for each in made:
            each.close()


class TestMany:
    @pytest.fixture
    def two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("libs.sandbox.handover._MOST_AWAKE", 2)

    @pytest.mark.usefixtures("two")
    def test_those_that_are_not_asked_for_rest_and_lose_nothing(self, tmp_path: Path) -> None:
        roots = [tmp_path / str(number) for number in range(6)]
        for root in roots:
            fill(root / "data", 3)
        before = len(list(Path("/proc/self/fd").iterdir()))
        made = [Handover(root, 1000) for root in roots]
        for turn in range(3):
            assert len(list(Path("/proc/self/fd").iterdir())) - before <= 4
            for root, handover in zip(roots, made, strict=True):
                fill(root / f"later-{turn}/deep", 3)
                assert handover.news()
                handover.catch_up()
                assert owners(root) == {1000}
                assert not handover.news()
        for handover in made:
            handover.close()

    def test_without_an_instance_of_the_kernels_everything_is_looked_at(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none() -> None:
            raise OSError(24, "inotify_init1: Too many open files")

        monkeypatch.setattr("libs.sandbox.handover.Inotify", none)
        fill(tmp_path / "data", 3)
        handover = Handover(tmp_path, 1000)
        assert owners(tmp_path) == {1000}
        fill(tmp_path / "data/deep/deeper", 3)
        assert handover.news()
        handover.catch_up()
        assert owners(tmp_path) == {1000}
        handover.close()

    def test_a_folder_that_is_gone_when_it_wakes_is_no_error(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        fill(tmp_path / "root", 1)
        handover = Handover(tmp_path / "root", 1000)
        handover._rest()
        (tmp_path / "root").rename(tmp_path / "elsewhere")
        handover.catch_up()
        assert "is not handed over" in caplog.text
        (tmp_path / "elsewhere").rename(tmp_path / "root")
        fill(tmp_path / "root", 2)
        handover.catch_up()
        assert owners(tmp_path / "root") == {1000}
        handover.close()

    def test_one_that_nobody_holds_is_closed(self, tmp_path: Path) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))
        handover = Handover(tmp_path, 1000)
        assert len(list(Path("/proc/self/fd").iterdir())) > before
        del handover
        assert len(list(Path("/proc/self/fd").iterdir())) == before


class TestThreads:
    @pytest.fixture
    def pool(self, tmp_path: Path) -> Iterator[SandboxPool]:
        def make(root: Path, thread: str | None, **more: Any) -> DockerSandbox:
            return DockerSandbox(root, image="none", name=f"handover-{thread}", **more)

        made = SandboxPool(tmp_path / "workspace", make, warm=0)
        yield made
        made.close()

    def test_the_names_of_one_are_no_news_to_another(self, tmp_path: Path, pool: SandboxPool) -> None:
        root = tmp_path / "workspace"
        a, b = (self.prepare(pool, name) for name in ("a", "b"))
        fill(root / "threads/a/results", 10)
        assert a.news()
        assert not b.news()
        b.catch_up()
        assert owners(root / "threads/a/results") == {0}
        a.catch_up()
        assert owners(root) == {1000}

    def test_what_they_have_in_common_is_news_to_each(self, tmp_path: Path, pool: SandboxPool) -> None:
        root = tmp_path / "workspace"
        a, b = (self.prepare(pool, name) for name in ("a", "b"))
        fill(root / "data/new", 10)
        assert a.news()
        assert b.news()
        b.catch_up()
        assert owners(root) == {1000}
        assert not a.news()

    def test_one_whose_folder_is_renamed_is_handed_over_there(
        self, tmp_path: Path, pool: SandboxPool
    ) -> None:
        root = tmp_path / "workspace"
        spare = self.prepare(pool, ".spare-1")
        (root / "threads/.spare-1").rename(root / "threads/a")
        spare.moved("a")
        fill(root / "threads/a/results", 10)
        spare.catch_up()
        assert owners(root / "threads/a") == {1000}
        spare._rest()
        fill(root / "threads/a/results", 20)
        spare.catch_up()
        assert owners(root / "threads/a") == {1000}

    @pytest.mark.parametrize("place", ["threads", "threads/a"])
    def test_a_link_in_the_place_of_its_folder_is_not_followed(
        self, tmp_path: Path, pool: SandboxPool, place: str
    ) -> None:
        """A command of a sandbox that has the whole workspace may put it there between two steps."""
        root = tmp_path / "workspace"
        awake = self.prepare(pool, "a")
        (root / place).rename(tmp_path / "aside")
        outside = tmp_path / "outside"
        fill(outside / "a/results", 1)
        fill(outside / "results", 1)
        (root / place).symlink_to(outside)
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            Handover(root, 1000, below=("threads", "a"))
        awake._rest()
        awake.catch_up()
        assert owners(outside) == {0}
        assert outside.stat().st_uid == 0
        assert "system.posix_acl_default" not in os.listxattr(outside / "results")

    def test_others_are_served_while_what_they_have_in_common_is_looked_at(
        self, pool: SandboxPool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An event loop asks for the sandbox of a thread."""
        looking, may_end = threading.Event(), threading.Event()
        watch = Handover._wake

        def slow(handover: Handover) -> None:
            looking.set()
            may_end.wait(10)
            watch(handover)

        monkeypatch.setattr(Handover, "_wake", slow)
        starting = threading.Thread(target=self.prepare, args=(pool, "a"))
        starting.start()
        assert looking.wait(10)
        served = threading.Event()

        def ask() -> None:
            pool.sandbox_for("b")
            served.set()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        in_time = served.wait(5)
        may_end.set()
        starting.join()
        asking.join()
        assert in_time

    @staticmethod
    def prepare(pool: SandboxPool, name: str) -> Handover:
        """As a sandbox does before it starts."""
        sandbox = pool.sandbox_for(name) if not name.startswith(".") else pool._spare(pool._folder / name)
        sandbox._prepare()
        assert sandbox._handover
        return sandbox._handover
