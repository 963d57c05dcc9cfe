"""SANDBOX_SCOPE=thread: a sandbox for each thread, with spares and idle stops."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import SandboxError
from libs.sandbox.docker.strays import THREAD_LABEL, WORKSPACE_LABEL
from libs.sandbox.host import ChannelTree
from libs.sandbox.host.folder_watch import _LOOK_SECONDS
from libs.sandbox.process_owner import label_in, owner_lives
from tests.support.commands.engines import Engines
from tests.support.sandboxes import NEW_INTERPRETER, NEW_SANDBOX
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker


class Threads:
    """A backend, and the sandboxes of its threads."""

    def __init__(self, backend: DockerExecutionBackend, root: Path, engines: Engines) -> None:
        self.root = root
        self.backend = backend
        self._engines = engines

    def of(self, thread: str) -> Any:
        """Return the sandbox that a graph's node finds for a thread."""
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        return RunnableLambda(lambda _: self.backend.sandbox).invoke(None, config)

    def containers(self) -> list[str]:
        return sorted(self._engines.containers(self.backend.name))

    def spares(self) -> int:
        """Return the number of spares that are ready."""
        ready = self.backend._pool and self.backend._pool._spares._ready
        return sum(map(len, ready.values())) if isinstance(ready, dict) else len(ready or ())

    def run(self, thread: str, command: str) -> str:
        result = self.of(thread).run(command)
        assert result.exit_code == 0, result.output
        return result.output


MakeThreads = Callable[..., Threads]


@pytest.fixture
def make_threads(
    make_backend: Callable[..., DockerExecutionBackend], tmp_path: Path, engines: Engines
) -> MakeThreads:
    return lambda **options: Threads(make_backend(scope="thread", **options), tmp_path / "workspace", engines)


@pytest.fixture
def threads(make_threads: MakeThreads) -> Iterator[Threads]:
    made = make_threads(warm=0)
    yield made
    made.backend.close()
    assert made.containers() == []


class TestApart:
    def test_thread_sees_nothing_of_another(self, threads: Threads) -> None:
        threads.run("a", "echo secret-of-a > mine; echo secret-of-a > /tmp/mine; sleep 300 & echo")
        threads.of("a").run_python("word = 'secret-of-a'; import os; os.environ['WORD'] = word", session="s")
        search = (
            "cat mine /tmp/mine; ls -Ra /workspace /tmp; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ;"
            " ls /workspace/threads ../threads; env; ls -R /dev/shm; ipcs"
        )
        shown = threads.of("b").run(f"({search}) 2>&1 | tr '\\0' ' '").output
        assert "secret-of-a" not in shown
        assert "sleep 300" not in shown
        block = threads.of("b").run_python("print(word)", session="s")
        assert "NameError" in block.output

    def test_data_is_shared_read_only_and_all_other_files_are_separate(self, threads: Threads) -> None:
        threads.run("a", "true")
        (threads.root / "data" / "sales.csv").write_text("x\n")
        assert threads.run("a", "cat /data/sales.csv /workspace/data/sales.csv") == "x\nx\n"
        assert threads.run("b", "cat /data/sales.csv") == "x\n"
        for attempt in (
            "echo y > /data/sales.csv",
            "rm /data/sales.csv",
            "touch /data/new",
            "mv /workspace/data x",
        ):
            assert threads.of("b").run(attempt).exit_code != 0
        assert (threads.root / "data" / "sales.csv").read_text() == "x\n"
        threads.run("../odd", "echo 1 > /results/r; mkdir -p deep/er && echo 2 > deep/er/f")
        [folder] = {*(threads.root / "threads").iterdir()} - {threads.root / f"threads/{n}" for n in "ab"}
        assert (folder / "results" / "r").read_text() == "1\n"
        assert (folder / "deep/er/f").read_text() == "2\n"
        assert not (threads.root / "results" / "r").exists()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can work for another user")
    def test_threads_in_a_workspace_of_another_user_belong_to_that_user(self, threads: Threads) -> None:
        (threads.root / "data").mkdir(parents=True)
        for folder in (threads.root, threads.root / "data"):
            os.chown(folder, 1001, 1002)
            folder.chmod(0o700)
        for _ in range(2):
            assert threads.run("a", "id -u; touch /results/x new; ls /data") == "1001\n"
            threads.of("a").reset()
        made = [threads.root / "threads/a" / name for name in ("", "results", "results/x", "new")]
        assert {path.stat().st_uid for path in made} == {1001}

    async def test_calls_of_a_graph_use_the_sandbox_of_the_run(self, threads: Threads) -> None:
        async def node(text: str) -> str:
            return (await threads.backend.aexecute(f"echo {text} >> log; cat log")).output

        one: RunnableConfig = {"configurable": {"thread_id": "one"}}
        two: RunnableConfig = {"configurable": {"thread_id": "two"}}
        step = RunnableLambda(node)
        await asyncio.gather(step.ainvoke("x", one), step.ainvoke("y", two))
        assert await step.ainvoke("z", one) == "x\nz\n"
        assert await step.ainvoke("z", two) == "y\nz\n"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root's files need to be given away")
    def test_thread_can_change_files_of_root_after_its_next_start(self, threads: Threads) -> None:
        threads.run("a", "true")
        threads.run("b", "true")
        for name in ("a", "b"):
            place = threads.root / "threads" / name / "results" / "given.txt"
            place.write_text("1\n")
            place.chmod(0o600)
            threads.of(name).reset()
            assert threads.run(name, "echo 2 >> /results/given.txt; cat /results/given.txt") == "1\n2\n"

    def test_spilled_output_is_hidden_from_other_threads(self, threads: Threads) -> None:
        """One output has ended, another is still being printed."""
        flood = "yes 'secret-of-a and so on' | head -c 2000000"
        ended = threads.of("a").run(flood)
        assert ended.truncated
        assert ended.spill_path
        assert threads.run("a", f"grep -c secret-of-a {ended.spill_path}") == f"{2_000_000 // 22}\n"
        begun = threading.Event()
        with ThreadPoolExecutor() as pool:
            live = pool.submit(
                threads.of("a").run,
                f"{flood}; until [ -e seen ]; do sleep 0.1; done",
                on_output=lambda _: begun.set(),
            )
            try:
                assert begun.wait(20)
                eventually(lambda: threads.run("a", "ls .output | wc -l") == "2\n")
                shown = threads.of("b").run(
                    f"(cat {ended.spill_path}; ls -A . .output; cd /; grep -rs secret-of-a workspace tmp run"
                    " dev/shm data results; ls -l /proc/[0-9]*/fd) 2>&1"
                )
            finally:
                threads.run("a", "touch seen")
            assert live.result().truncated
        assert "No such file" in shown.output  # for the spill path
        assert "secret-of-a" not in shown.output
        assert ".txt" not in shown.output.replace(ended.spill_path, "")


class TestSpares:
    @pytest.fixture
    def warm(self, make_threads: MakeThreads, tmp_path: Path) -> Iterator[Threads]:
        made = make_threads(warm=1)
        made.run("first", "true")
        eventually(lambda: made.spares() == 1)
        assert len(made.containers()) == 2
        yield made
        made.backend.close()
        assert made.containers() == []
        assert not list((tmp_path / "workspace" / "threads").glob(".spare-*"))

    def test_new_thread_gets_the_spare(self, warm: Threads, engines: Engines) -> None:
        [spare] = set(warm.containers()) - {warm.of("first").container_name}
        warm.run("second", "echo 1 > /results/f; touch g")
        assert warm.of("second").container_name == spare
        folder = engines.on_host(warm.of("second"))
        assert (folder / "results" / "f").read_text() == "1\n"
        assert (folder / "g").exists()
        eventually(lambda: len(warm.containers()) == 3)  # another spare is started
        # A spare has no thread label.
        labels = {
            thread: engines.inspect(warm.of(thread).container_name)["Config"]["Labels"]
            for thread in ("first", "second")
        }
        assert labels["first"][THREAD_LABEL] == "first"
        assert THREAD_LABEL not in labels["second"]
        assert labels["second"][WORKSPACE_LABEL] == str(warm.root)
        # As docs/docker-setup.md says.
        assert warm.run("second", "stat -c %i /workspace") == f"{folder.stat().st_ino}\n"

    def test_old_spares_of_running_programs_are_kept_and_leftovers_removed(
        self, make_threads: MakeThreads, tmp_path: Path
    ) -> None:
        """Neither this program nor another on the same workspace removes them."""
        long_ago = time.time() - 3_600
        root = tmp_path / "workspace"
        made = make_threads(warm=2)
        other = make_threads(warm=1)
        try:
            made.run("first", "true")
            spares = made.backend._pool and made.backend._pool._spares
            assert spares
            eventually(lambda: made.spares() == 2)
            waiting = [spare.result().container_name for spare in spares._ready._spares]
            left = root / "threads" / ".spare-00000000"
            left.mkdir()
            for folder in (root / "threads").glob(".spare-*"):
                os.utime(folder, (long_ago, long_ago))
            other.run("of-the-other", "true")
            eventually(lambda: not left.exists())
            for thread in ("second", "third"):  # each start of a spare looks for leftovers, too
                made.run(thread, "echo 1 > f")
                eventually(lambda: made.spares() == 2)
            assert {made.of(thread).container_name for thread in ("second", "third")} == set(waiting)
        finally:
            made.backend.close()
            other.backend.close()
        assert made.containers() == []
        assert not list((root / "threads").glob(".spare-*"))

    def test_spares_of_a_killed_program_are_removed_at_the_next_start(
        self, make_threads: MakeThreads, tmp_path: Path
    ) -> None:
        root = tmp_path / "workspace"
        program = "from libs.sandbox.process_owner import *; print(name_with(owner_label(), '00000000'))"
        name = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        left = root / "threads" / f".spare-{name.stdout.strip()}"
        (left / "data").mkdir(parents=True)
        made = make_threads(warm=1)
        try:
            made.run("first", "true")
            eventually(lambda: not left.exists())
            eventually(lambda: any((root / "threads").glob(".spare-*")))
            [own] = (root / "threads").glob(".spare-*")
            assert owner_lives(label_in(own.name.removeprefix(".spare-")))
        finally:
            made.backend.close()

    def test_spare_is_filled_when_a_thread_takes_it(self, warm: Threads) -> None:
        [spare] = set(warm.containers()) - {warm.of("first").container_name}
        filled: list[str | None] = []
        second = warm.of("second")

        async def fill(tree: ChannelTree) -> None:
            await tree.atree("walk", most=1, again=[], seconds=5, mark="")
            filled.append(second.container_name)

        second.fill = fill
        assert second.run("echo on").output == "on\n"
        assert filled == [spare]

    def test_dead_spare_is_not_used_for_a_thread(self, warm: Threads, engines: Engines) -> None:
        [spare] = set(warm.containers()) - {warm.of("first").container_name}
        engines.kill(spare)
        eventually(lambda: spare not in warm.containers())
        folder = warm.root / "threads" / "old"  # a thread with existing files
        folder.mkdir()
        (folder / "f").write_text("kept\n")
        assert warm.run("old", "cat f") == "kept\n"

    def test_spare_with_a_removed_folder_is_not_used_for_a_thread(self, warm: Threads) -> None:
        [spare] = set(warm.containers()) - {warm.of("first").container_name}
        warm.of("first").run("true", note_new=True)
        (warm.root / "data").rename(warm.root / "moved")
        (warm.root / "moved" / "in.csv").write_text("a\n")
        data = warm.run("second", "ls /data")  # its start has made an empty folder
        assert (data, warm.of("second").container_name != spare) == ("", True)
        time.sleep(_LOOK_SECONDS + 0.1)
        told = warm.of("first").run("true", note_new=True).output
        assert told.startswith(f"{NEW_SANDBOX}[/workspace/data: another folder than before on the host, ")

    @pytest.mark.parametrize("where", ["data", "threads/second/data"])
    def test_file_in_the_place_of_a_folder_is_named(self, threads: Threads, where: str) -> None:
        file = threads.root / where
        file.parent.mkdir(parents=True)
        file.write_text("a\n")
        with pytest.raises(SandboxError, match=f"because {file} is not a folder: put a folder in its place"):
            threads.run("second", "true")
        file.unlink()
        assert threads.run("second", "ls") == "data\nresults\nscripts\n"

    def test_missing_engine_is_reported_to_the_thread_only(
        self, make_threads: MakeThreads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        lonely = make_threads(warm=2)
        with pytest.raises(SandboxError, match="socket is not there"):
            lonely.of("a").run("true")
        lonely.backend.close()


class TestIdle:
    @pytest.fixture
    def restful(self, make_threads: MakeThreads) -> Iterator[Threads]:
        made = make_threads(warm=0, idle_seconds=0.5)
        yield made
        made.backend.close()

    def test_idle_container_is_stopped_and_started_again(self, restful: Threads) -> None:
        restful.run("a", "echo kept > f")
        [first] = restful.containers()
        eventually(lambda: restful.containers() == [])
        assert restful.run("a", "cat f") == "kept\n"
        assert restful.containers() != [first]

    def test_next_block_says_that_variables_are_lost(self, restful: Threads) -> None:
        sandbox = restful.of("a")
        assert sandbox.run_python("x = 1; print(x)", session="s").output == "1\n"
        eventually(lambda: restful.containers() == [])
        output = sandbox.run_python("print(2)", session="s").output
        assert output == f"{NEW_INTERPRETER}2\n"
        assert sandbox.run_python("print(3)", session="s").output == "3\n"

    @pytest.mark.thorough
    def test_calls_at_the_moment_of_the_stop_are_served(self, restful: Threads) -> None:
        """No command is refused or lost."""
        sandbox = restful.of("a")
        for number in range(12):
            sandbox.run("true")
            time.sleep(0.5 + (number % 6) * 0.03)
            assert sandbox.run(f"echo {number}").output == f"{number}\n"

    def test_idle_container_is_stopped_in_scope_shared(
        self, make_backend: Callable[..., DockerExecutionBackend], name: str, engines: Engines
    ) -> None:
        with make_backend(idle_seconds=0.3) as backend:
            backend.execute("echo kept > f")
            eventually(lambda: not engines.containers(name))
            assert backend.execute("cat f").output == f"{NEW_SANDBOX}kept\n"
