"""An Engine that restarts, dies or hangs during commands. The test starts its own Engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import docker
import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import DockerUnavailable, SandboxDied
from libs.sandbox.docker.engine import ANSWER_SECONDS
from libs.sandbox.docker.removal import STOP_SECONDS
from libs.sandbox.host.awaited_answers import _PATIENCE
from tests.load.breaks import IMAGE, LIMITS, SEED, TIMES, of_thread, under_load
from tests.load.crowd import Crowd, Place
from tests.load.left import Held, eventually_gone
from tests.load.own_engine import OwnEngine, own_engine
from tests.support.sandboxes import NEW_SANDBOX

pytestmark = [
    pytest.mark.docker,
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    # docker-py leaves the socket of a refused connection to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    with own_engine(IMAGE) as engine:
        yield engine


@pytest.fixture
def backend(
    engine: OwnEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerExecutionBackend]:
    monkeypatch.setenv("DOCKER_HOST", engine.socket)
    with DockerExecutionBackend(tmp_path, name="restarted", image=IMAGE) as backend:
        yield backend


def at_most_one_container_is_left(engine: OwnEngine) -> None:
    """Check the Engine's list and the running processes."""
    with closing(docker.DockerClient(engine.socket, version="auto")) as own:
        deadline = time.monotonic() + 20
        while len(left := own.containers.list(all=True, ignore_removed=True)) > 1 or (
            len(running := engine.supervisors()) > 1
        ):
            assert time.monotonic() < deadline, ([container.name for container in left], running)
            time.sleep(0.2)


async def test_restart_fails_the_running_command_and_the_next_works(
    engine: OwnEngine, backend: DockerExecutionBackend
) -> None:
    assert (await backend.aexecute("echo kept > kept; echo on")).output == "on\n"
    before = backend.sandbox.container_name  # type: ignore[attr-defined]
    running = asyncio.create_task(backend.aexecute("sleep 60"))
    await asyncio.sleep(0.5)
    await asyncio.to_thread(engine.stop)
    lost = await asyncio.wait_for(running, 20)
    assert lost.exit_code == 125
    assert "The sandbox ended" in lost.output

    meanwhile = await backend.aexecute("true")
    assert meanwhile.exit_code == 125
    assert "No Docker Engine answers" in meanwhile.output

    await asyncio.to_thread(engine.start)
    after = await backend.aexecute("cat kept")
    assert after.output == f"{NEW_SANDBOX}kept\n"
    assert backend.sandbox.container_name != before  # type: ignore[attr-defined]
    await asyncio.to_thread(at_most_one_container_is_left, engine)


# Raised as errors, and kept, these would hold on to the sockets.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_restarts_and_hangs_under_load(
    engine: OwnEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like `test_break.py`: calls end with a typed error, the next call works, and no container is left."""
    monkeypatch.setenv("DOCKER_HOST", engine.socket)
    random = Random(f"{SEED}/engine")
    shared = DockerExecutionBackend(tmp_path / "shared", name="loaded", image=IMAGE, limits=LIMITS)
    threads = DockerExecutionBackend(
        tmp_path / "threads", name="loaded", image=IMAGE, limits=LIMITS, scope="thread"
    )
    with shared:
        shared.execute("true")
    before = Held()

    def restart() -> None:
        engine.stop()
        time.sleep(random.uniform(0.0, 0.5))
        engine.start()

    def hang() -> None:
        engine.hang()
        time.sleep(random.uniform(0.0, 1.5))
        engine.go_on()

    with shared, threads:
        places = {
            "shared": Place(shared.sandbox, tmp_path / "shared"),
            "one": Place(of_thread(threads, "one"), tmp_path / "threads" / "threads" / "one"),
        }
        with Crowd(places, seed=SEED, tasks=2) as crowd:
            for break_it in (restart, hang):
                under_load(crowd, random, 5 * TIMES, break_it, places)
    eventually_gone("loaded")
    before.assert_released()


def outcome(call: Callable[[], object]) -> tuple[object, float]:
    """Return the result or the error of a call, and its seconds."""
    begun = time.monotonic()
    try:
        return call(), time.monotonic() - begun
    except Exception as error:  # noqa: BLE001 - the test checks the error
        return error.with_traceback(None), time.monotonic() - begun


async def test_killed_engine(engine: OwnEngine, backend: DockerExecutionBackend) -> None:
    """After SIGKILL, the Engine ends its containers when it starts again."""
    sandbox = backend.sandbox
    assert (await sandbox.arun("echo kept > kept; sleep 600 & echo on")).output == "on\n"
    assert engine.supervisors()
    with ThreadPoolExecutor() as pool:
        begun = time.monotonic()
        waiting = [
            pool.submit(outcome, lambda: sandbox.run("sleep 60")),
            pool.submit(outcome, lambda: sandbox.run_python("import time; time.sleep(60)", session="s")),
            pool.submit(outcome, lambda: asyncio.run(sandbox.arun("sleep 60"))),
        ]
        await asyncio.sleep(0.5)
        await asyncio.to_thread(engine.kill)
        for future in waiting:
            error, _ = await asyncio.wrap_future(future)
            assert isinstance(error, SandboxDied), error
        assert time.monotonic() - begun < 5
    meanwhile, took = await asyncio.to_thread(outcome, lambda: sandbox.run("true"))
    assert isinstance(meanwhile, DockerUnavailable)
    assert "No Docker Engine answers" in str(meanwhile)
    assert took < 2

    await asyncio.to_thread(engine.start)
    assert (await sandbox.arun("cat kept")).output == "kept\n"
    await asyncio.to_thread(at_most_one_container_is_left, engine)


async def test_engine_paused_for_a_while_loses_nothing(
    engine: OwnEngine, backend: DockerExecutionBackend
) -> None:
    """Commands in the sandbox continue, and their results arrive when the Engine continues."""
    sandbox = backend.sandbox
    await sandbox.arun("true")
    engine.hang()
    try:
        begun = time.monotonic()
        running = [asyncio.create_task(sandbox.arun(f"sleep 1; echo {n}", timeout=30)) for n in range(5)]
        writing = asyncio.create_task(sandbox.awrite_file("big", bytes(3_000_000)))
        given_up = asyncio.create_task(sandbox.arun("sleep 30"))
        await asyncio.sleep(0.5)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert time.monotonic() - begun < 3  # cancelling waits at most a second
        await asyncio.sleep(2)
        assert not any(task.done() for task in running)
    finally:
        engine.go_on()
    assert [result.output for result in await asyncio.gather(*running)] == [f"{n}\n" for n in range(5)]
    await writing
    assert (await sandbox.arun("stat -c %s big; pgrep -c sleep")).output == "3000000\n0\n"


# Raised as errors, and kept, these would hold on to the sockets.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_hanging_engine_fails_each_call_in_time(engine: OwnEngine, backend: DockerExecutionBackend) -> None:
    """Running commands fail at their deadlines, later commands soon. Then everything works again."""
    sandbox = backend.sandbox
    sandbox.run("echo kept > kept")
    sandbox.close()
    before = Held()
    sandbox.run("true")
    engine.hang()
    try:
        with ThreadPoolExecutor(16) as pool:
            calls: list[Callable[[], object]] = [
                lambda: sandbox.run("sleep 60", timeout=1),
                lambda: sandbox.run("echo on", timeout=1),
                lambda: asyncio.run(sandbox.arun("echo on", timeout=1)),
                lambda: sandbox.run_python("1", session="s", timeout=1),
            ]
            for error, took in pool.map(outcome, calls):
                assert isinstance(error, SandboxDied), error
                assert took < 1 + _PATIENCE + 2 * STOP_SECONDS + 3
            # Many callers do not wait one after the other.
            for error, took in pool.map(outcome, [lambda: sandbox.run("true")] * 8):
                assert isinstance(error, DockerUnavailable), error
                assert "took too long" in str(error)
                assert "docker info" in error.hint
                assert took < ANSWER_SECONDS + 3

        async def many() -> set[type]:
            told = await asyncio.gather(*(sandbox.arun("true") for _ in range(40)), return_exceptions=True)
            return {type(error) for error in told}

        told, took = outcome(lambda: asyncio.run(many()))
        assert told == {DockerUnavailable}
        assert took < ANSWER_SECONDS + 3
    finally:
        engine.go_on()
    time.sleep(1)
    del error, told
    assert sandbox.run("cat kept").output == "kept\n"
    at_most_one_container_is_left(engine)
    sandbox.close()
    before.assert_released()


async def test_close_while_the_engine_hangs(
    engine: OwnEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that ends does not wait long, and its containers are removed."""
    monkeypatch.setenv("DOCKER_HOST", engine.socket)
    threads = DockerExecutionBackend(
        tmp_path, name="hung", image=IMAGE, limits=LIMITS, scope="thread", warm=0
    )
    for number in range(3):
        await of_thread(threads, f"t{number}").arun("true")
    engine.hang()
    try:
        begun = time.monotonic()
        await asyncio.to_thread(threads.close)
        assert time.monotonic() - begun < 2 * STOP_SECONDS + 5
    finally:
        engine.go_on()
    await asyncio.to_thread(eventually_gone, "hung")
    await asyncio.to_thread(threads.close)
