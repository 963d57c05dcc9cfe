"""Start and end of a sandbox, and the commands that run meanwhile."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from blockbuster import blockbuster_ctx

from libs.backends.docker import DockerExecutionBackend, SandboxBusy, SandboxDied, SandboxError, SandboxLimits
from libs.sandbox.host import awaited_answers
from tests.support.commands.engines import Engines
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

MIB = 2**20
Make = Callable[..., DockerExecutionBackend]


@pytest.fixture
def backend(make_backend: Make) -> Iterator[DockerExecutionBackend]:
    with make_backend() as backend:
        yield backend


class TestStart:
    def test_first_use_starts_a_container_and_close_removes_it(
        self, backend: DockerExecutionBackend, name: str, engines: Engines, new_sandbox: str
    ) -> None:
        root = backend.sandbox.root
        assert engines.containers(name) == {}
        assert not root.exists()
        assert backend.id == f"docker-exec-{name}"
        assert backend.execute("echo kept > kept; echo on").output == "on\n"
        first = backend.sandbox.container_name
        assert list(engines.containers(name)) == [first]
        backend.close()
        assert engines.containers(name) == {}
        assert backend.execute("cat kept").output == f"{new_sandbox}kept\n"
        assert backend.sandbox.container_name != first

    async def test_concurrent_first_calls_start_one_container(
        self, backend: DockerExecutionBackend, name: str, engines: Engines
    ) -> None:
        async def of_thread(index: int) -> str:
            return (await asyncio.to_thread(backend.execute, f"echo {index}")).output

        async def of_task(index: int) -> str:
            return (await backend.aexecute(f"echo {index}")).output

        said = await asyncio.gather(*map(of_thread, range(10)), *map(of_task, range(10)))
        assert said == [f"{index}\n" for index in range(10)] * 2
        assert len(await asyncio.to_thread(engines.containers, name)) == 1

    def test_reset_starts_a_fresh_container(
        self, backend: DockerExecutionBackend, name: str, engines: Engines, new_sandbox: str
    ) -> None:
        backend.execute(
            "echo kept > kept; echo gone > /tmp/gone; rm -r data; ln -s data data; sleep 600 & true"
        )
        first = backend.sandbox.container_name
        backend.reset()
        answer = backend.execute("cat kept; ls /tmp; pgrep -c sleep")
        assert answer.output == f"{new_sandbox}kept\nhome\n0\n"
        assert list(engines.containers(name)) == [backend.sandbox.container_name] != [first]

    def test_close_ends_a_running_command(self, backend: DockerExecutionBackend) -> None:
        begun = threading.Event()
        with ThreadPoolExecutor() as pool:
            running = pool.submit(backend.sandbox.run, "echo; sleep 600", on_output=lambda _: begun.set())
            assert begun.wait(10)
            backend.close()
            with pytest.raises(SandboxDied, match="closed"):
                running.result(10)


class TestDeath:
    """Running commands of a dead container fail. The next command gets a new container."""

    def test_container_killed_during_a_command(
        self, backend: DockerExecutionBackend, name: str, engines: Engines, new_sandbox: str
    ) -> None:
        begun = threading.Event()
        backend.execute("echo kept > kept")
        first = backend.sandbox.container_name
        with ThreadPoolExecutor() as pool:
            running = pool.submit(
                backend.sandbox.run, "echo begun; sleep 600", on_output=lambda _: begun.set()
            )
            told = pool.submit(backend.execute, "sleep 600")
            awaited = pool.submit(lambda: asyncio.run(backend.aexecute("sleep 600")))
            backend.download_files(["/workspace/kept"])
            assert begun.wait(10)
            killed = time.monotonic()
            engines.kill(first)
            with pytest.raises(SandboxDied) as raised:
                running.result(10)
            answers = [told.result(10), awaited.result(10)]
        assert time.monotonic() - killed < 5
        assert "closed" not in str(raised.value)
        assert "starts a new sandbox" in raised.value.hint
        assert [answer.exit_code for answer in answers] == [125, 125]
        assert raised.value.hint in answers[0].output
        assert backend.execute("cat kept; pgrep -c sleep").output == f"{new_sandbox}kept\n0\n"
        assert list(engines.containers(name)) == [backend.sandbox.container_name] != [first]

    def test_memory_of_an_earlier_command_is_not_the_cause_of_the_end(
        self, make_backend: Callable[..., DockerExecutionBackend], engines: Engines
    ) -> None:
        """The Engine's mark of a memory kill stays until the end of the container."""
        with make_backend(limits=SandboxLimits(memory=128 << 20, tmp=16 << 20)) as backend:
            assert backend.execute("python3 -c 'bytearray(1 << 30)'").exit_code == 137
            timer = threading.Timer(0.5, engines.kill, [backend.sandbox.container_name])
            timer.start()
            output = backend.execute("sleep 20").output
            timer.join()
        assert (
            "The sandbox ended: its first process exited with 137; its memory was used up, then or earlier"
            in output
        )

    def test_container_killed_between_two_commands(
        self, backend: DockerExecutionBackend, name: str, engines: Engines, new_sandbox: str
    ) -> None:
        backend.execute("echo kept > kept")
        for _ in range(2):
            engines.kill(backend.sandbox.container_name)
            eventually(lambda: "running" not in engines.containers(name).values())
            time.sleep(0.2)
            assert backend.execute("cat kept").output == f"{new_sandbox}kept\n"

    @pytest.mark.thorough
    async def test_silent_container_is_given_up(
        self,
        backend: DockerExecutionBackend,
        name: str,
        engines: Engines,
        monkeypatch: pytest.MonkeyPatch,
        new_sandbox: str,
    ) -> None:
        """The event loop is not blocked, neither here nor during a start."""
        monkeypatch.setattr(awaited_answers, "_PATIENCE", 1.0)
        with blockbuster_ctx():
            await backend.aexecute("echo kept > kept")
        frozen = backend.sandbox.container_name
        engines.pause(frozen)
        with blockbuster_ctx():
            answer = await backend.aexecute("true", timeout=0.5)
        assert answer.exit_code == 125
        assert "does not answer" in answer.output
        monkeypatch.undo()
        assert (await backend.aexecute("cat kept")).output == f"{new_sandbox}kept\n"
        await asyncio.to_thread(eventually, lambda: frozen not in engines.containers(name))

    @pytest.mark.thorough
    async def test_many_commands_that_leave_background_children(self, make_backend: Make) -> None:
        """Commands that have left background children make room for queued commands."""
        limits = SandboxLimits(pids=1500, cpus=64)
        with make_backend(limits=limits) as backend:
            begun = time.monotonic()
            answers = await asyncio.gather(*(backend.aexecute(f"sleep 30 & echo {i}") for i in range(75)))
            assert [answer.output for answer in answers] == [f"{i}\n" for i in range(75)]
            assert time.monotonic() - begun < 10

    def test_limits_of_the_first_process_cannot_be_changed(self, backend: DockerExecutionBackend) -> None:
        backend.execute("echo kept > kept")
        first = backend.sandbox.container_name
        for limit in ("nofile=3", "as=1", "cpu=1", "data=1", "nproc=1", "fsize=0"):
            answer = backend.execute(f"prlimit --pid 1 --{limit}:{limit.partition('=')[2]}")
            assert answer.exit_code == 1
            assert "Operation not permitted" in answer.output
        assert [backend.execute("cat kept", timeout=5).output for _ in range(3)] == ["kept\n"] * 3
        assert backend.download_files(["/workspace/kept"])[0].content == b"kept\n"
        assert backend.sandbox.container_name == first

    def test_exhausted_memory_ends_only_the_command(self, make_backend: Make) -> None:
        limits = SandboxLimits(memory=128 * MIB, tmp=16 * MIB)
        with make_backend(limits=limits) as backend:
            backend.execute("true")
            first = backend.sandbox.container_name
            for hog in ("python3 -c 'x = bytearray(10**9)'", "tail /dev/zero", "x=$(yes)"):
                answer = backend.execute(hog, timeout=60)
                assert answer.exit_code in (1, 137), (hog, answer)
                assert backend.execute("echo on").output == "on\n"
            assert backend.sandbox.container_name == first


class TestSabotage:
    """Commands that attack the processes of the sandbox."""

    def test_command_that_kills_everything(self, backend: DockerExecutionBackend) -> None:
        backend.execute("true")
        first = backend.sandbox.container_name
        begun = threading.Semaphore(0)
        with ThreadPoolExecutor() as pool:
            others = [
                pool.submit(
                    backend.sandbox.run, "echo; sleep 60", timeout=70, on_output=lambda _: begun.release()
                )
                for _ in range(4)
            ]
            assert all(begun.acquire(timeout=30) for _ in others)
            backend.execute("kill -9 -1; sleep 5", timeout=10)
            assert [other.result(10).exit_code for other in others] == [137] * 4
        for _ in range(2):
            backend.execute("kill -9 -1; sleep 5", timeout=10)
            assert backend.execute("echo on", timeout=10).output == "on\n"
            assert backend.write(f"/tmp/{os.urandom(4).hex()}", "x").error is None
        assert backend.sandbox.container_name == first

    def test_command_that_stops_everything(self, backend: DockerExecutionBackend) -> None:
        backend.execute("true")
        for _ in range(2):
            backend.execute("for i in $(seq 20); do kill -STOP -1; done", timeout=10)
            for _ in range(4):
                assert backend.execute("echo on", timeout=5).output == "on\n"
            assert backend.write(f"/tmp/{os.urandom(4).hex()}", "x").error is None

    @pytest.mark.thorough
    def test_command_that_sends_every_signal_to_everything(self, backend: DockerExecutionBackend) -> None:
        backend.execute("true")
        first = backend.sandbox.container_name
        for number in [sig for sig in range(1, 65) if sig not in (32, 33)]:
            backend.execute(f"trap '' {number}; kill -{number} -1", timeout=5)
        for _ in range(4):
            assert backend.execute("echo on", timeout=5).output == "on\n"
        assert backend.sandbox.container_name == first

    @pytest.mark.thorough
    def test_exhausted_process_limit_is_an_error_with_a_hint(self, make_backend: Make) -> None:
        hold = (
            "import os, time\ntry:\n    while True:\n"
            "        if os.fork() == 0:\n            time.sleep(12); os._exit(0)\n"
            "except BlockingIOError:\n    print('full', flush=True)\ntime.sleep(12)"
        )
        limits = SandboxLimits(pids=64)
        with make_backend(limits=limits) as backend:
            backend.write("/tmp/hold.py", hold)
            # From here on, only builtins of bash work.
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
            # The sandbox recovers.
            eventually(lambda: backend.execute("echo on", timeout=5).output == "on\n", 30)

    def test_fork_bomb_in_the_background_can_be_ended(
        self, backend: DockerExecutionBackend, new_sandbox: str
    ) -> None:
        backend.execute("bomb() { bomb | bomb & }; bomb", timeout=2)
        for _ in range(2):
            begun = time.monotonic()
            answer = backend.execute("echo on", timeout=2)
            assert time.monotonic() - begun < 5
            assert answer.exit_code in (0, 1, 124, 125, 137, 254)
        backend.reset()
        assert backend.execute("echo on", timeout=10).output == f"{new_sandbox}on\n"
