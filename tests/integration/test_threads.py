"""SANDBOX_SCOPE=thread: each thread its own computer, spares ready, idle ones stopped and started again."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import SandboxError, idle
from libs.sandbox.container import DockerSandbox
from libs.sandbox.engine import connect
from libs.sandbox.strays import NAME_LABEL, THREAD_LABEL, WORKSPACE_LABEL
from libs.sandbox.workspace import thread_folder
from tests.waiting import eventually

pytestmark = pytest.mark.docker

NAME = "threads-test"


def containers() -> list[str]:
    client = connect()
    try:
        found = client.api.containers(filters={"label": f"{NAME_LABEL}={NAME}"})
        return sorted(item["Names"][0].lstrip("/") for item in found)
    finally:
        client.close()


class Threads:
    """A backend, and its computers by thread."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.backend = DockerExecutionBackend(root, name=NAME, scope="thread", **options)

    def of(self, thread: str) -> DockerSandbox:
        """As a graph's node finds it: by the thread that the run belongs to."""
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        found = RunnableLambda(lambda _: self.backend.sandbox).invoke(None, config)
        assert isinstance(found, DockerSandbox)
        return found

    def run(self, thread: str, command: str) -> str:
        result = self.of(thread).run(command)
        assert result.exit_code == 0, result.output
        return result.output


@pytest.fixture
def threads(tmp_path: Path) -> Iterator[Threads]:
    made = Threads(tmp_path / "workspace", warm=0)
    yield made
    made.backend.close()
    assert containers() == []


class TestApart:
    def test_one_sees_nothing_of_another(self, threads: Threads) -> None:
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

    def test_long_outputs_are_kept_where_no_other_looks(self, threads: Threads) -> None:
        """One that has ended, and one that is being printed while the other looks."""
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
        assert "No such file" in shown.output  # of the path itself
        assert "secret-of-a" not in shown.output
        assert ".txt" not in shown.output.replace(ended.spill_path, "")

    def test_links_lead_to_no_other(self, threads: Threads) -> None:
        threads.run("a", "echo secret-of-a > mine")
        inside = f"{threads.root}/threads/a/mine"
        places = f"{inside} ../a/mine /workspace/../a/mine /proc/1/root//../a/mine"
        tries = f"for p in {places}; do ln -sf $p l; cat l; done"
        shown = threads.of("b").run(f"({tries}; ln {inside} h) 2>&1").output
        assert "secret-of-a" not in shown
        assert shown.count("No such file") >= 4

    def test_killing_everything_in_one_costs_the_other_nothing(self, threads: Threads) -> None:
        with ThreadPoolExecutor() as pool:
            threads.run("b", "true")
            slow = pool.submit(threads.of("b").run, "sleep 1; echo done")
            threads.of("a").run("kill -9 -1")
            threads.of("a").run("prlimit --pid 1 --nproc=0 2>/dev/null; :")
            assert slow.result().output == "done\n"

    def test_the_data_is_everybodys_to_read_and_nobodys_to_change(self, threads: Threads) -> None:
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

    def test_what_is_made_lies_in_the_threads_own_folder(self, threads: Threads) -> None:
        threads.run("a", "echo 1 > /results/r; mkdir -p deep/er && echo 2 > deep/er/f")
        folder = threads.root / "threads" / "a"
        assert (folder / "results" / "r").read_text() == "1\n"
        assert (folder / "deep/er/f").read_text() == "2\n"
        assert not (threads.root / "results" / "r").exists()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root's files need to be handed over")
    def test_what_root_puts_into_a_thread_is_the_threads_to_change(self, threads: Threads) -> None:
        threads.run("a", "true")
        threads.run("b", "true")
        for name in ("a", "b"):
            place = threads.root / "threads" / name / "results" / "given.txt"
            place.write_text("1\n")
            place.chmod(0o600)
            assert threads.run(name, "echo 2 >> /results/given.txt; cat /results/given.txt") == "1\n2\n"

    async def test_the_graphs_own_calls_go_to_the_thread_of_the_run(self, threads: Threads) -> None:
        async def node(text: str) -> str:
            done = await threads.backend.aexecute(f"echo {text} >> log; cat log")
            return done.output

        one: RunnableConfig = {"configurable": {"thread_id": "one"}}
        two: RunnableConfig = {"configurable": {"thread_id": "two"}}
        step = RunnableLambda(node)
        await asyncio.gather(step.ainvoke("x", one), step.ainvoke("y", two))
        assert await step.ainvoke("z", one) == "x\nz\n"
        assert await step.ainvoke("z", two) == "y\nz\n"

    def test_calls_outside_of_a_thread_share_one(self, threads: Threads) -> None:
        assert threads.backend.execute("echo 1 > f; pwd").output == "/workspace\n"
        assert threads.backend.execute("cat f").output == "1\n"
        assert threads.of("a").run("cat f").exit_code != 0


class TestNames:
    @pytest.mark.parametrize(
        "thread",
        [
            "..",
            ".",
            "",
            "a/../../b",
            "/etc",
            ".spare-12345678",
            "x" * 5_000,
            "a\0b",
            "é",
            "\ud800",
            "-rf",
            "a b\n",
        ],
    )
    def test_any_id_has_a_folder_of_its_own_below_threads(self, thread: str) -> None:
        name = thread_folder(thread)
        assert "/" not in name
        assert not name.startswith(".")
        assert 0 < len(name.encode()) <= 100

    def test_ids_that_are_alike_are_apart(self) -> None:
        ids = [
            "a",
            "A",
            "a ",
            " a",
            "a/",
            "/a",
            "á",
            "a\0",
            "a\n",
            thread_folder("A"),
            thread_folder("A")[1:],
        ]
        assert len({thread_folder(thread).lower() for thread in ids}) == len(ids)

    def test_an_odd_one_works(self, threads: Threads) -> None:
        threads.run("../../etc", "echo 1 > f")
        assert threads.run("../../etc", "cat f") == "1\n"
        assert len(list((threads.root / "threads").iterdir())) == 1


class TestSpares:
    @pytest.fixture
    def warm(self, tmp_path: Path) -> Iterator[Threads]:
        made = Threads(tmp_path / "workspace", warm=1)
        made.run("first", "true")
        eventually(lambda: len(containers()) == 2)
        eventually(lambda: made.backend._pool and made.backend._pool._spares._ready)
        yield made
        made.backend.close()
        assert containers() == []
        assert not list((tmp_path / "workspace" / "threads").glob(".spare-*"))

    def test_a_new_thread_gets_the_one_that_is_ready(self, warm: Threads) -> None:
        [spare] = set(containers()) - {warm.of("first").container_name}
        warm.run("second", "echo 1 > /results/f; touch g")
        assert warm.of("second").container_name == spare
        folder = warm.root / "threads" / "second"
        assert (folder / "results" / "f").read_text() == "1\n"
        assert (folder / "g").exists()
        eventually(lambda: len(containers()) == 3)  # and another is made ready

    def test_the_label_names_a_thread_only_where_it_is_that_threads(self, warm: Threads) -> None:
        """A spare cannot be given one once it is taken: then it has none, rather than a wrong one."""
        warm.run("second", "true")
        client = connect()
        try:
            labels = {
                thread: client.api.inspect_container(warm.of(thread).container_name)["Config"]["Labels"]
                for thread in ("first", "second")
            }
        finally:
            client.close()
        assert labels["first"][THREAD_LABEL] == "first"
        assert THREAD_LABEL not in labels["second"]
        assert labels["second"][WORKSPACE_LABEL] == str(warm.root)
        # What docs/docker-setup.md says then.
        folder = (warm.root / "threads" / "second").stat().st_ino
        assert warm.run("second", "stat -c %i /workspace") == f"{folder}\n"

    def test_those_that_wait_for_long_are_not_taken_for_leftovers(self, tmp_path: Path) -> None:
        """Neither by this program nor by another on the same workspace; what a killed one has left is."""
        long_ago = time.time() - 3_600
        root = tmp_path / "workspace"
        made = Threads(root, warm=2)
        other = Threads(root, warm=1)
        try:
            made.run("first", "true")
            spares = made.backend._pool and made.backend._pool._spares
            assert spares
            eventually(lambda: len(spares._ready) == 2)
            waiting = [spare.container_name for spare in spares._ready._ready]
            left = root / "threads" / ".spare-00000000"
            left.mkdir()
            for folder in (root / "threads").glob(".spare-*"):
                os.utime(folder, (long_ago, long_ago))
            other.run("of-the-other", "true")
            eventually(lambda: not left.exists())
            for thread in ("second", "third"):  # filling up looks for leftovers as well
                made.run(thread, "echo 1 > f")
                eventually(lambda: len(spares._ready) == 2)
            assert {made.of(thread).container_name for thread in ("second", "third")} == set(waiting)
        finally:
            made.backend.close()
            other.backend.close()
        assert containers() == []
        assert not list((root / "threads").glob(".spare-*"))

    def test_a_thread_that_has_files_already_keeps_them(self, warm: Threads) -> None:
        folder = warm.root / "threads" / "old"
        folder.mkdir()
        (folder / "f").write_text("kept\n")
        assert warm.run("old", "cat f") == "kept\n"

    def test_one_that_has_died_is_not_given(self, warm: Threads) -> None:
        [spare] = set(containers()) - {warm.of("first").container_name}
        client = connect()
        client.api.kill(spare)
        client.close()
        eventually(lambda: spare not in containers())
        assert warm.run("second", "echo works") == "works\n"

    def test_twenty_new_threads_at_once_are_all_served(self, warm: Threads) -> None:
        with ThreadPoolExecutor(20) as pool:
            said = list(pool.map(lambda n: warm.run(f"t{n}", f"echo {n} > f; sleep 0.1; cat f"), range(20)))
        assert said == [f"{n}\n" for n in range(20)]
        names = {warm.of(f"t{n}").container_name for n in range(20)}
        assert len(names) == 20

    def test_without_an_engine_a_spare_says_nothing_and_the_thread_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        lonely = Threads(tmp_path / "workspace", warm=2)
        with pytest.raises(SandboxError, match="socket is not there"):
            lonely.of("a").run("true")
        lonely.backend.close()


class TestIdle:
    @pytest.fixture
    def restful(self, tmp_path: Path) -> Iterator[Threads]:
        made = Threads(tmp_path / "workspace", warm=0, idle_seconds=0.5)
        yield made
        made.backend.close()

    def test_it_is_stopped_and_started_again_unseen(self, restful: Threads) -> None:
        restful.run("a", "echo kept > f")
        [first] = containers()
        eventually(lambda: containers() == [])
        assert restful.run("a", "cat f") == "kept\n"
        assert containers() != [first]

    def test_not_while_a_command_runs(self, restful: Threads) -> None:
        assert restful.run("a", "sleep 1.5; echo done") == "done\n"
        assert restful.run("a", "echo more") == "more\n"

    def test_a_block_is_told_that_its_variables_are_lost(self, restful: Threads) -> None:
        sandbox = restful.of("a")
        assert sandbox.run_python("x = 1; print(x)", session="s").output == "1\n"
        eventually(lambda: containers() == [])
        output = sandbox.run_python("print(2)", session="s").output
        assert output == "[the sandbox was started anew since the last block: its variables are lost]\n2\n"
        assert sandbox.run_python("print(3)", session="s").output == "3\n"

    def test_calls_at_the_very_moment_are_served(self, restful: Threads) -> None:
        """Commands that come just as the sandbox is ended: none is refused, none is lost."""
        sandbox = restful.of("a")
        for number in range(12):
            sandbox.run("true")
            time.sleep(0.5 + (number % 6) * 0.03)
            assert sandbox.run(f"echo {number}").output == f"{number}\n"

    def test_in_scope_shared_too(self, tmp_path: Path) -> None:
        with DockerExecutionBackend(tmp_path / "w", name=NAME, idle_seconds=0.3) as backend:
            backend.execute("echo kept > f")
            eventually(lambda: containers() == [])
            assert backend.execute("cat f").output == "kept\n"

    def test_one_that_runs_is_not_forgotten_among_many(self, threads: Threads) -> None:
        threads.run("a", "echo kept > /tmp/f")
        [first] = containers()
        for number in range(1_500):
            threads.of(f"t{number}")
        gc.collect()
        assert threads.run("a", "cat /tmp/f") == "kept\n"
        assert containers() == [first]

    def test_zero_is_for_ever(self, tmp_path: Path) -> None:
        with DockerExecutionBackend(tmp_path / "w", name=NAME, idle_seconds=0) as backend:
            backend.execute("true")
            time.sleep(1)
            assert len(containers()) == 1

    def test_closing_ends_what_looks_after_it(self, tmp_path: Path) -> None:
        def watchers() -> list[threading.Thread]:
            return [thread for thread in threading.enumerate() if thread.name == "sandbox-idle"]

        with DockerExecutionBackend(tmp_path / "w", name=NAME, idle_seconds=900) as backend:
            backend.execute("true")
            assert watchers()
        assert backend.sandbox not in idle._watched
        eventually(lambda: idle._watched or not watchers())  # others may have left some open
