"""An Engine that hangs at one request: calls fail in time, and no container is left.

`test_engine_restart.py` tests an Engine that hangs completely.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.docker import engine, removal
from tests.load.left import containers, eventually_gone
from tests.servers.engine_proxy import EngineProxy
from tests.support.sandboxes import IMAGE
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.docker,
    # docker-py leaves the sockets of missing answers to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ANSWER, WORK = 1.0, 3.0


@pytest.fixture
def held(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EngineProxy]:
    monkeypatch.setattr(engine, "ANSWER_SECONDS", ANSWER)
    monkeypatch.setattr(engine, "WORK_SECONDS", WORK)
    monkeypatch.setattr(removal, "STOP_SECONDS", ANSWER)
    with EngineProxy(tmp_path / "socket", hold_at=request.param) as proxy:
        monkeypatch.setenv("DOCKER_HOST", proxy.address)
        yield proxy


@pytest.mark.thorough
@pytest.mark.parametrize(
    "held",
    [
        b"/start",
        *(
            pytest.param(at, marks=pytest.mark.thorough)
            for at in (b"/version", b"/images/", b"/containers/create", b"/attach?")
        ),
    ],
    indirect=True,
)
def test_start_with_a_hanging_engine_fails_in_time(
    held: EngineProxy, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DockerExecutionBackend(tmp_path / "workspace", name=name, image=IMAGE) as backend:
        for _ in range(10):  # on a busy machine, a start may end by its short limits before the held request
            begun = time.monotonic()
            answer = backend.execute("true")
            if held.reached:
                break
        assert held.reached
        assert answer.exit_code == 125
        assert "took too long" in answer.output
        assert "docker info" in answer.output
        assert time.monotonic() - begun < WORK + 3 * ANSWER + 2
        held.go_on()
        # The requests that were waiting, and a busy machine, may take one more start past its short limits.
        eventually(lambda: backend.execute("echo on").output == "on\n", 20)
        monkeypatch.delenv("DOCKER_HOST")
        eventually(lambda: len(containers(name)) == 1, 10)
    assert containers(name) == {}


@pytest.mark.parametrize("held", [b"/wait?"], indirect=True)
def test_close_with_a_hanging_engine_ends_in_time(
    held: EngineProxy, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = DockerExecutionBackend(tmp_path / "workspace", name=name, image=IMAGE)
    with monkeypatch.context() as patch:  # a start on a busy machine takes longer than the short limits
        patch.setattr(engine, "ANSWER_SECONDS", 20.0)
        patch.setattr(engine, "WORK_SECONDS", 60.0)
        assert backend.execute("echo on").output == "on\n"
    begun = time.monotonic()
    backend.close()
    assert held.reached
    assert time.monotonic() - begun < 2 * ANSWER + 2
    held.go_on()
    monkeypatch.delenv("DOCKER_HOST")
    eventually_gone(name, 10)
