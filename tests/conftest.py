"""Fixtures for all tests (a container for a module, a shared server), and the distribution to workers."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from agent.commands.machine.setup_command import build_image, ensure_engine
from agent.config import load_settings
from libs.backends.docker import DockerExecutionBackend
from tests.integration import gvisor
from tests.servers.served import Served, joined_script, served
from tests.support.sandboxes import IMAGE, RUNTIME

ROOT = Path(__file__).parents[1]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs like this, and every program of a test would inherit the setting.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# An example on a busy machine may take longer than the 200 ms of the default profile.
settings.register_profile("tests", deadline=None, max_examples=50)
settings.load_profile("tests")

_FIRST = ("e2e", "integration", "unit")
"""Order of the test folders: slow tests must not start last."""


_DEADLINES = (
    *("attacks/test_attack_end.py", "attacks/test_attack_shell.py", "attacks/test_attack_time.py"),
    *("commands/test_time_out.py", "image/test_owner.py", "interpreter/", "life/test_engine_hangs.py"),
    "life/test_many_at_once.py",
)
"""Files of tests/integration that have short deadlines and keep the processors busy."""


class FilesByServer(LoadFileScheduling):
    """Gives all tests of a file to one worker, and all files that share a server to the same worker.

    Files with short deadlines go to one worker, too, so that they do not delay each other. So do files that
    share a Ray cluster.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file.removeprefix("tests/integration/").startswith(_DEADLINES):
            return "deadlines"
        if file.startswith("tests/integration/cluster/"):
            return "cluster"
        return _server_of(ROOT / file) or file


@cache
def _server_of(file: Path) -> str:
    """Return the shared server that a file's tests use. The scheduling process does not import the tests."""
    text = file.read_text()
    names = (
        ("shared_server", "page_server") if not re.search(r"^SETTINGS\b|def page_server", text, re.M) else ()
    )
    return next((name for name in names if name in text), "")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesByServer:
    return FilesByServer(config, log)


gc.disable()  # what the collection of the tests makes stays


def pytest_collection_finish() -> None:
    """Exclude what the tests have imported from garbage collection: a million objects, 0.4 s each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _FIRST.index(item.path.relative_to(ROOT / "tests").parts[0]))
    if RUNTIME == "runsc":
        gvisor.expect_failures(items)


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Restore the environment after each test: building a graph exports the variables of `.env`."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def shared_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Run one `langgraph dev` with default settings for all modules of a worker that use it.

    The server's model has the conversations of every such module's SCRIPT, so each `when` must be unique. The
    modules share the workspace, so each must use its own file names.
    """
    scripts = {
        item.module.__name__: item.module.SCRIPT
        for item in request.session.items
        if isinstance(item, pytest.Function) and "shared_server" in item.fixturenames
    }
    with served(tmp_path_factory.mktemp("shared"), joined_script(scripts.values())) as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Collect garbage after each module, so that the warning about an open file names the right module."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def backend(workspace: Path) -> Iterator[DockerExecutionBackend]:
    """A container with an empty workspace and the project's skills, shared by the tests of a module."""
    with DockerExecutionBackend(
        workspace, skills_dir=ROOT / "skills", image=IMAGE, runtime=RUNTIME, name="test"
    ) as backend:
        yield backend


@pytest.fixture(scope="session")
def browser_image() -> str:
    """Name of the image with a browser. If the image is not current, the build takes minutes."""
    settings = load_settings(None, sandbox_browser=True)
    ensure_engine(print)
    return build_image(settings.image, print, browser=True).name
