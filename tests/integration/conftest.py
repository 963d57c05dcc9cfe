"""Fixtures for the Docker Engine, both kinds of sandboxes, both databases, and a server with two owners."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import docker
import httpx
import pytest

from libs.backends.docker import DockerExecutionBackend, SandboxLimits
from libs.persistence.thread_database import Database
from libs.sandbox.docker.engine import connect
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from tests.servers.postgres_server import Postgres, postgres
from tests.servers.served import Served, served
from tests.servers.thread_databases import DATABASES, opened
from tests.support.commands.engines import Engines
from tests.support.owners import ALICE, ALICES, BOB, BOBS
from tests.support.sandboxes import IMAGE, NEW_SANDBOX, RUNTIME, Session, make_sandbox


@pytest.fixture
def docker_client() -> Iterator[docker.DockerClient]:
    with closing(connect()) as client:
        yield client


@pytest.fixture
def engines(docker_client: docker.DockerClient) -> Engines:
    """The Engines that run the sandboxes of `make_backend` and `sandbox_with`."""
    return Engines([docker_client])


@pytest.fixture
def make_backend(tmp_path: Path, name: str) -> Callable[..., DockerExecutionBackend]:
    """Makes a backend on `tmp_path / "workspace"`. Takes further arguments of the class."""
    made = partial(DockerExecutionBackend, image=IMAGE, runtime=RUNTIME)
    return lambda **more: made(tmp_path / "workspace", **{"name": name, **more})


@pytest.fixture
def sandbox_with(tmp_path: Path) -> Callable[[SandboxLimits], ChannelSandbox]:
    """Makes a sandbox in a container, with these limits."""
    return partial(make_sandbox, "docker", tmp_path)


@pytest.fixture
def new_sandbox() -> str:
    """First line of an output if the latest call was in another sandbox."""
    return NEW_SANDBOX


@pytest.fixture
def name() -> str:
    """A name for the containers of one test."""
    return f"test-{os.urandom(4).hex()}"


@pytest.fixture(
    scope="module", params=["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.thorough])]
)
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ChannelSandbox]:
    """A sandbox of each kind. `make test` uses the local kind, and Docker for tests marked `ON_BOTH`."""
    with make_sandbox(request.param, tmp_path_factory.mktemp("workspaces") / request.param) as made:
        yield made


@pytest.fixture
def block(sandbox: ChannelSandbox) -> Session:
    return Session(sandbox)


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL server in a folder with a short path, which its sockets need."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with postgres(Path(folder) / "s") as running:
            yield running


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of a SQLite file or a PostgreSQL database (thorough, except in tests on `both_databases`)."""
    if request.param == "sqlite":
        return str(tmp_path / "memory.sqlite")
    running: Postgres = request.getfixturevalue("postgres_server")
    return running.database()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    made = opened(database_url)
    yield made
    made.close()


@pytest.fixture
def another(database_url: str) -> Iterator[Database]:
    """The same database, opened a second time as by another program."""
    made = opened(database_url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with two owners, the module's SCRIPT, and the settings of the module's OWNED."""
    settings = {"AUTH_TOKENS": f"{ALICES},{BOBS}", **getattr(request.module, "OWNED", {})}
    with served(tmp_path_factory.mktemp("owned"), request.module.SCRIPT, **settings) as server:
        yield server


@pytest.fixture(scope="module")
def alice(server: Served) -> Iterator[httpx.Client]:
    with server.client(ALICE) as http:
        yield http


@pytest.fixture(scope="module")
def bob(server: Served) -> Iterator[httpx.Client]:
    with server.client(BOB) as http:
        yield http
