"""How a sandbox begins and ends, and what becomes of a command that does so with it (S9, S11)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import docker.errors
import psutil
import pytest
from blockbuster import blockbuster_ctx

from libs.backends.docker import DockerExecutionBackend, SandboxBusy, SandboxDied, SandboxError, SandboxLimits
from tests.load.left import containers
from tests.waiting import eventually

MIB = 2**20


@pytest.fixture
def name() -> str:
    return f"life-{os.urandom(4).hex()}"


@pytest.fixture
def backend(tmp_path: Path, name: str) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(tmp_path / "workspace", name=name) as backend:
        yield backend


@pytest.mark.docker
class TestStart:
    def test_nothing_starts_before_the_first_use(self, tmp_path: Path, name: str) -> None:
        with DockerExecutionBackend(tmp_path / "workspace", name=name) as backend:
            assert containers(name) == {}
            assert not (tmp_path / "workspace").exists()
            assert backend.id == f"docker-exec-{name}"
            assert backend.execute("echo on").output == "on\n"
            (only,) = containers(name)
            assert only == backend.sandbox.container_name
        assert containers(name) == {}

    def test_ten_threads_at_once_start_one(self, backend: DockerExecutionBackend, name: str) -> None:
        together = threading.Barrier(10)

        def first_use(index: int) -> str:
            together.wait()
            return backend.execute(f"echo {index}").output

        with ThreadPoolExecutor(10) as pool:
            assert list(pool.map(first_use, range(10))) == [f"{index}\n" for index in range(10)]
        assert len(containers(name)) == 1

    async def test_two_tasks_at_once_start_one(
        self, backend: DockerExecutionBackend, name: str, docker_client: docker.DockerClient
    ) -> None:
        answers = await asyncio.gather(*(backend.aexecute(f"echo {index}") for index in range(10)))
        assert [answer.output for answer in answers] == [f"{index}\n" for index in range(10)]
        assert len(await asyncio.to_thread(containers, name)) == 1

    async def test_starting_does_not_hold_up_the_event_loop(self, backend: DockerExecutionBackend) -> None:
        gaps: list[float] = []

        async def beat() -> None:
            while True:
                begun = time.monotonic()
                await asyncio.sleep(0.01)
                gaps.append(time.monotonic() - begun)

        longest = []
        for _ in range(3):  # the best of three: the machine may be busy with something else
            gaps.clear()
            heart = asyncio.create_task(beat())
            assert (await backend.aexecute("echo on")).output == "on\n"
            heart.cancel()
            assert len(gaps) > 5
            longest.append(max(gaps))
            await asyncio.to_thread(backend.reset)
        assert min(longest) < 0.15

    def test_use_after_close_starts_another(self, backend: DockerExecutionBackend, name: str) -> None:
        backend.execute("echo kept > kept")
        first = backend.sandbox.container_name
        backend.close()
        assert containers(name) == {}
        assert backend.execute("cat kept").output == "kept\n"
        assert backend.sandbox.container_name != first

    def test_reset_is_a_fresh_one(self, backend: DockerExecutionBackend, name: str) -> None:
        backend.execute("echo kept > kept; echo gone > /tmp/gone; sleep 600 & true")
        first = backend.sandbox.container_name
        backend.reset()
        answer = backend.execute("cat kept; ls /tmp; pgrep -c sleep")
        assert answer.output == "kept\nhome\n0\n"
        assert list(containers(name)) == [backend.sandbox.container_name] != [first]

    def test_closing_ends_a_command_under_way(self, backend: DockerExecutionBackend) -> None:
        backend.execute("true")
        with ThreadPoolExecutor() as pool:
            running = pool.submit(backend.sandbox.run, "sleep 600")
            time.sleep(0.3)
            backend.close()
            with pytest.raises(SandboxDied, match="closed"):
                running.result(10)

    def test_two_backends_share_a_folder_and_nothing_else(
        self, backend: DockerExecutionBackend, name: str
    ) -> None:
        with DockerExecutionBackend(backend.sandbox.root, name=name) as other:
            backend.execute("echo shared > x; echo own > /tmp/x; sleep 600 & true")
            assert other.execute("cat x; ls /tmp; pgrep -c sleep").output == "shared\nhome\n0\n"
            other.close()
            assert backend.execute("cat /tmp/x; pgrep -c sleep").output == "own\n1\n"


@pytest.mark.docker
class TestDeath:
    """One found dead is told for what ran, and replaced for what comes next."""

    def test_killed_in_the_middle_of_a_command(
        self, backend: DockerExecutionBackend, name: str, docker_client: docker.DockerClient
    ) -> None:
        begun = threading.Event()
        backend.execute("echo kept > kept")
        first = backend.sandbox.container_name
        with ThreadPoolExecutor() as pool:
            running = pool.submit(
                backend.sandbox.run, "echo begun; sleep 600", on_output=lambda _: begun.set()
            )
            told = pool.submit(backend.execute, "sleep 600")
            read = pool.submit(backend.download_files, ["/workspace/kept"])
            read.result()
            assert begun.wait(10)
            killed = time.monotonic()
            docker_client.api.kill(first)
            with pytest.raises(SandboxDied) as raised:
                running.result(10)
            answer = told.result(10)
        assert time.monotonic() - killed < 5
        assert "closed" not in str(raised.value)
        assert "same workspace" in raised.value.hint
        assert answer.exit_code == 125
        assert raised.value.hint in answer.output
        assert backend.execute("cat kept; pgrep -c sleep").output == "kept\n0\n"
        assert list(containers(name)) == [backend.sandbox.container_name] != [first]

    def test_killed_between_two_commands(
        self, backend: DockerExecutionBackend, name: str, docker_client: docker.DockerClient
    ) -> None:
        backend.execute("echo kept > kept")
        for _ in range(3):
            docker_client.api.kill(backend.sandbox.container_name)
            eventually(lambda: "running" not in containers(name).values())
            time.sleep(0.2)
            assert backend.execute("cat kept").output == "kept\n"

    async def test_killed_under_an_awaiting_task(
        self, backend: DockerExecutionBackend, docker_client: docker.DockerClient
    ) -> None:
        await backend.aexecute("true")
        task = asyncio.create_task(backend.aexecute("sleep 600"))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(docker_client.api.kill, backend.sandbox.container_name)
        assert (await asyncio.wait_for(task, 10)).exit_code == 125
        assert (await backend.aexecute("echo on")).output == "on\n"

    def test_removed_by_hand(
        self, backend: DockerExecutionBackend, docker_client: docker.DockerClient
    ) -> None:
        backend.execute("true")
        docker_client.api.remove_container(backend.sandbox.container_name, force=True)
        eventually(lambda: backend.execute("echo on").output == "on\n", 5)

    def test_stopping_it_takes_no_patience(
        self, backend: DockerExecutionBackend, docker_client: docker.DockerClient
    ) -> None:
        """As the Engine does with each when it shuts down, ten seconds for those that heed no signal."""
        backend.execute("true")
        begun = time.monotonic()
        docker_client.api.stop(backend.sandbox.container_name)
        assert time.monotonic() - begun < 5
        eventually(lambda: backend.execute("echo on").output == "on\n", 5)

    def test_one_that_does_not_answer_is_given_up(
        self, backend: DockerExecutionBackend, name: str, docker_client: docker.DockerClient
    ) -> None:
        backend.execute("echo kept > kept")
        frozen = backend.sandbox.container_name
        docker_client.api.pause(frozen)
        with pytest.raises(SandboxDied, match="does not answer"):
            backend.sandbox.run("true", timeout=0.5)
        assert backend.execute("cat kept").output == "kept\n"
        eventually(lambda: frozen not in containers(name))

    async def test_giving_it_up_does_not_block_the_event_loop(
        self, backend: DockerExecutionBackend, docker_client: docker.DockerClient
    ) -> None:
        await backend.aexecute("true")
        docker_client.api.pause(backend.sandbox.container_name)
        with blockbuster_ctx():
            answer = await backend.aexecute("true", timeout=0.5)
        assert answer.exit_code == 125
        assert "does not answer" in answer.output
        assert (await backend.aexecute("echo on")).output == "on\n"

    @pytest.mark.parametrize("damage", ["ln -s /nope data", "touch data", "ln -s data data"])
    def test_a_folder_that_a_command_replaced_does_not_keep_it_from_starting(
        self, backend: DockerExecutionBackend, damage: str
    ) -> None:
        backend.execute(f"cd /workspace && rm -rf data && {damage}")
        backend.reset()
        assert backend.execute("echo on").output == "on\n"
        backend.execute("rm /workspace/data")

    def test_more_processors_than_there_are(self, tmp_path: Path, name: str) -> None:
        limits = SandboxLimits(cpus=64)
        with DockerExecutionBackend(tmp_path, name=name, limits=limits) as backend:
            assert backend.execute("echo on").output == "on\n"

    async def test_commands_that_leave_children_make_room_for_those_that_wait(
        self, tmp_path: Path, name: str
    ) -> None:
        limits = SandboxLimits(pids=1500)
        with DockerExecutionBackend(tmp_path, name=name, limits=limits) as backend:
            begun = time.monotonic()
            answers = await asyncio.gather(*(backend.aexecute(f"sleep 30 & echo {i}") for i in range(75)))
            assert [answer.output for answer in answers] == [f"{i}\n" for i in range(75)]
            assert time.monotonic() - begun < 10

    @pytest.mark.parametrize(
        "limit", ["nofile=3", "nofile=20", "as=1", "cpu=1", "data=1", "nproc=1", "fsize=0"]
    )
    def test_limits_of_the_first_process_cannot_be_changed(
        self, backend: DockerExecutionBackend, limit: str
    ) -> None:
        backend.execute("echo kept > kept")
        first = backend.sandbox.container_name  # type: ignore[attr-defined]
        answer = backend.execute(f"prlimit --pid 1 --{limit}:{limit.partition('=')[2]}")
        assert answer.exit_code == 1
        assert "Operation not permitted" in answer.output
        assert [backend.execute("cat kept", timeout=5).output for _ in range(3)] == ["kept\n"] * 3
        assert backend.download_files(["/workspace/kept"])[0].content == b"kept\n"
        assert backend.sandbox.container_name == first  # type: ignore[attr-defined]

    def test_memory_used_up_ends_the_command_not_the_sandbox(self, tmp_path: Path, name: str) -> None:
        limits = SandboxLimits(memory=128 * MIB, tmp=16 * MIB)
        with DockerExecutionBackend(tmp_path, name=name, limits=limits) as backend:
            backend.execute("true")
            first = backend.sandbox.container_name
            for hog in (
                "python3 -c 'x = bytearray(10**9)'",
                "tail /dev/zero",
                "x=$(yes)",
                "python3 -c 'x = [str(i) * 10**6 for i in range(1000)]' & wait $!",
            ):
                answer = backend.execute(hog, timeout=60)
                assert answer.exit_code in (1, 137), (hog, answer)
                assert backend.execute("echo on").output == "on\n"
            assert backend.sandbox.container_name == first

    def test_memory_used_up_by_many(self, tmp_path: Path, name: str) -> None:
        """Whatever the kernel picks, what comes next is answered."""
        limits = SandboxLimits(memory=128 * MIB, tmp=32 * MIB)
        with DockerExecutionBackend(tmp_path, name=name, limits=limits) as backend:
            backend.execute(
                "head -c 60000000 /dev/zero > /tmp/fill; head -c 60000000 /dev/zero > /dev/shm/fill; "
                "hog='x = bytearray(5 * 10**7); import time; time.sleep(5)'; "
                'for i in $(seq 20); do python3 -c "$hog" & done; wait',
                timeout=30,
            )
            backend.reset()
            assert backend.execute("echo on").output == "on\n"


@pytest.mark.docker
class TestSabotage:
    """Commands that attack what runs commands."""

    def test_killing_everything(self, backend: DockerExecutionBackend) -> None:
        backend.execute("true")
        first = backend.sandbox.container_name
        for _ in range(5):
            backend.execute("kill -9 -1; sleep 5", timeout=10)
            assert backend.execute("echo on", timeout=10).output == "on\n"
            assert backend.write(f"/tmp/{os.urandom(4).hex()}", "x").error is None
        assert backend.sandbox.container_name == first

    def test_killing_everything_while_others_run(self, backend: DockerExecutionBackend) -> None:
        backend.execute("true")
        with ThreadPoolExecutor() as pool:
            others = [pool.submit(backend.execute, "sleep 30", timeout=40) for _ in range(4)]
            time.sleep(0.5)
            backend.execute("kill -9 -1")
            assert [other.result(10).exit_code for other in others] == [137] * 4

    def test_stopping_everything(self, backend: DockerExecutionBackend) -> None:
        backend.execute("true")
        for _ in range(3):
            backend.execute("for i in $(seq 20); do kill -STOP -1; done", timeout=10)
            for _ in range(4):
                answer = backend.execute("echo on", timeout=5)
                assert answer.output == "on\n"
            assert backend.write(f"/tmp/{os.urandom(4).hex()}", "x").error is None

    def test_every_signal_to_everything(self, backend: DockerExecutionBackend) -> None:
        backend.execute("true")
        first = backend.sandbox.container_name
        for number in [sig for sig in range(1, 65) if sig not in (32, 33)]:
            backend.execute(f"trap '' {number}; kill -{number} -1", timeout=5)
        for _ in range(4):
            assert backend.execute("echo on", timeout=5).output == "on\n"
        assert backend.sandbox.container_name == first

    def test_no_process_left_is_a_typed_error_with_a_hint(self, tmp_path: Path, name: str) -> None:
        hold = (
            "import os, time\ntry:\n    while True:\n"
            "        if os.fork() == 0:\n            time.sleep(12); os._exit(0)\n"
            "except BlockingIOError:\n    print('full', flush=True)\ntime.sleep(12)"
        )
        limits = SandboxLimits(pids=64)
        with DockerExecutionBackend(tmp_path, name=name, limits=limits) as backend:
            backend.write("/tmp/hold.py", hold)
            # From then on only what bash does by itself can be done.
            wait = "until read -r told < /tmp/told; do :; done"
            backend.execute(
                f"mkfifo /tmp/fifo; touch /tmp/told; python3 /tmp/hold.py > /tmp/told 2>&1 & {wait}"
            )

            def run(_: int) -> SandboxError | None:
                try:
                    backend.sandbox.run("read -rt 1 line <> /tmp/fifo", timeout=5)
                except SandboxBusy as error:
                    return error
                return None

            with ThreadPoolExecutor(8) as pool:
                errors = [error for error in pool.map(run, range(8)) if error]
            assert errors
            assert "process" in str(errors[0])
            assert "SANDBOX_PIDS" in errors[0].hint
            # It is no state to be stuck in.
            eventually(lambda: backend.execute("echo on", timeout=5).output == "on\n", 30)

    def test_a_fork_bomb_in_the_background_is_answered_and_can_be_ended(
        self, backend: DockerExecutionBackend
    ) -> None:
        backend.execute("bomb() { bomb | bomb & }; bomb", timeout=10)
        for _ in range(3):
            begun = time.monotonic()
            answer = backend.execute("echo on", timeout=2)
            assert time.monotonic() - begun < 5
            assert answer.exit_code in (0, 1, 124, 125, 137, 254)
        backend.reset()
        assert backend.execute("echo on", timeout=10).output == "on\n"


@pytest.mark.docker
def test_many_lives_leave_nothing(tmp_path: Path, name: str) -> None:
    """No descriptor, thread or container is left after twenty."""
    this = psutil.Process()

    def one_life() -> None:
        with DockerExecutionBackend(tmp_path, name=name) as backend:
            assert backend.execute("echo on; sleep 600 &").output == "on\n"
            assert backend.upload_files([("/tmp/x", bytes(2_000_000))])[0].error is None

    for _ in range(3):
        one_life()
    time.sleep(0.5)
    descriptors, threads = this.num_fds(), threading.active_count()
    for _ in range(20):
        one_life()
    eventually(lambda: threading.active_count() <= threads, 5)
    eventually(lambda: this.num_fds() <= descriptors + 1, 5)
    assert containers(name) == {}
