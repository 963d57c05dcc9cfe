"""The Engine; and what comes in two kinds, to be used alike: sandboxes, databases for what threads keep."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from libs.persistence.database import Database
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.engine import connect
from tests.integration.sandboxes import DOCKER, make_sandbox
from tests.postgres_server import Postgres, postgres
from tests.thread_databases import opened


@pytest.fixture
def docker_client() -> Iterator[docker.DockerClient]:
    with closing(connect()) as client:
        yield client


@pytest.fixture(scope="module", params=["local", DOCKER])
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ChannelSandbox]:
    with make_sandbox(request.param, tmp_path_factory.mktemp("workspaces") / request.param) as made:
        yield made


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL of its own; its sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with postgres(Path(folder) / "s") as running:
            yield running


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where: a file, or a database of its own."""
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
    """The same one, as another program has it."""
    made = opened(database_url)
    yield made
    made.close()
