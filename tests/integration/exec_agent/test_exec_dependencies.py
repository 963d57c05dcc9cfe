"""Packages of programs: each set is installed once, in its own sandbox, and read-only afterwards."""

from __future__ import annotations

import asyncio
import importlib.metadata
import io
import secrets
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.prompts.exec_catalogue import load_catalogue
from libs.exec_tool import Dependencies
from libs.exec_tool.package_sets import MOUNT
from libs.exec_tool.program_runner import CodeRunner
from libs.gateway.gateway_thread import Gateway
from libs.gateway.package_environment import PIP_HOST, VARIABLES
from libs.gateway.packages.host_index_settings import Index, PipSettings
from libs.gateway.packages.pip_index import PipIndex
from libs.gateway.proxy import Proxy
from libs.gateway.rules.addresses import resolve_public
from libs.gateway.rules.allow_list import Rules
from libs.sandbox.docker.container import DockerSandbox
from tests.servers.package_servers import Answer, Server, html_page, served, wheel
from tests.support.exec_tool.exec_runners import IMAGE, containers, runner
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

INSTALLER = f"test-exec-{secrets.token_hex(3)}"
THING, THING_CONTENT = wheel("thing")
NEWER, NEWER_CONTENT = wheel("thing", "2.0")
OTHER, OTHER_CONTENT = wheel("other", needs=["thing<2"])
SHOW = "import thing; print('[\"%s\"]' % thing.VERSION)"


@pytest.fixture(scope="module")
def index() -> Iterator[Server]:
    with served() as server:
        for name, files in {
            "thing": {THING: THING_CONTENT, NEWER: NEWER_CONTENT},
            "other": {OTHER: OTHER_CONTENT},
            "source": {"source-1.0.tar.gz": b"no wheel"},
            "broken": {"broken-1.0-py3-none-any.whl": b"no archive"},
        }.items():
            server.add(f"/simple/{name}/", html_page(files))
            for file, content in files.items():
                server.add(f"/simple/{name}/{file}", content)
        yield server


@contextmanager
def with_packages(folder: Path, index: Server, *, seconds: float = 120) -> Iterator[CodeRunner]:
    """A runner whose packages come from `index`."""
    settings = PipSettings((Index(f"{index.url}/simple"),))
    service = PipIndex(settings=lambda: settings, resolve=resolve_public, writable=[])
    gateway = Gateway(lambda: Proxy(rules=Rules(), services={PIP_HOST: service}), variables=VARIABLES)

    def installer(root: Path) -> DockerSandbox:
        return DockerSandbox(root, image=IMAGE, name=INSTALLER, egress=gateway.door)

    packages = Dependencies(folder / "packages", installer)
    with (
        closing(gateway),
        runner(
            folder,
            seconds=seconds,
            runner_dependencies=packages,
            mounts=lambda: {MOUNT: packages.make_folder()},
        ) as made,
    ):
        yield made
        assert containers(INSTALLER) == []


@pytest.fixture(scope="module")
def run(index: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    with with_packages(tmp_path_factory.mktemp("exec"), index) as made:
        yield made


def test_set_is_installed_once(run: CodeRunner, index: Server) -> None:
    first = run.run(SHOW, dependencies=["thing<2"])
    assert (first.error, first.result) == (None, ["1.0"])
    assert first.metrics.cache_hit is False
    assert first.metrics.install > 0
    asked = len(index.asked)
    again = run.run(SHOW, dependencies=["Thing <2"])
    assert (again.result, again.metrics.cache_hit) == (["1.0"], True)
    assert len(index.asked) == asked
    assert again.metrics.install < first.metrics.install / 2


def installed(name: str) -> tuple[str, bytes]:
    """Return the wheel of a pure Python package that is installed beside the tests."""
    package = importlib.metadata.distribution(name)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in package.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.write(str(file.locate()), str(file))
    return f"{name}-{package.version}-py3-none-any.whl", buffer.getvalue()


@pytest.mark.thorough
def test_good_programs_with_packages_run(run: CodeRunner, index: Server) -> None:
    name, content = installed("croniter")
    index.add("/simple/croniter/", html_page({name: content}))
    index.add(f"/simple/croniter/{name}", content)
    [good] = [good for good in load_catalogue().good if good.dependencies]
    result = run.run(good.code, **good.inputs)
    assert result.error is None, result.stderr
    assert result.result == {
        "ok": True,
        "answer": "The first run is 2026-01-01T09:30:00.",
        "runs": ["2026-01-01T09:30:00", "2026-01-02T09:30:00", "2026-01-05T09:30:00"],
    }


def test_packages_are_not_offered_where_nothing_may_be_installed(tmp_path: Path) -> None:
    """Sets that were installed before can still be used."""
    packages = Dependencies(tmp_path / "packages", None)
    with runner(tmp_path, runner_dependencies=packages) as run:
        error = run.run("import nosuchthing").error
    assert error
    assert (error.kind, error.hint[:33]) == ("dependency", "This runner installs no packages:")


def test_cache_is_read_only(run: CodeRunner) -> None:
    code = (
        "import json, os, thing\nsaid = []\n"
        "for path in (os.path.dirname(thing.__file__) + '/x', '/deps/x', thing.__file__):\n"
        "    try:\n        open(path, 'w').write('import os')\n"
        "    except OSError as error:\n        said.append(error.errno)\n"
        "print(json.dumps(said))"
    )
    assert run.run(code, dependencies=["thing<2"]).result == [30, 30, 30]


@pytest.mark.thorough
def test_program_cannot_reach_the_index(run: CodeRunner, index: Server) -> None:
    asked = len(index.asked)
    assert run.run("pip install other", language="bash").error
    assert len(index.asked) == asked


@pytest.mark.parametrize(
    "name", ["source", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("broken", "thing>=3"))]
)
def test_failed_installation_is_a_dependency_error(run: CodeRunner, name: str) -> None:
    result = run.run("print(1)", dependencies=[name])
    assert result.error and result.error.kind == "dependency"
    assert name.partition(">")[0] in result.error.message
    assert result.metrics.exit_code is None


@pytest.mark.thorough
def test_failed_set_is_tried_again(run: CodeRunner, index: Server) -> None:
    assert run.run("print(1)", dependencies=["late"]).error
    name, content = wheel("late")
    index.add("/simple/late/", html_page({name: content}))
    index.add(f"/simple/late/{name}", content)
    assert run.run("import late; print(1)", dependencies=["late"]).result == 1
    packages = run._executor.dependencies
    assert packages
    assert [path for path in packages.cache.iterdir() if path.name.startswith(".")] == []


@contextmanager
def slow_index() -> Iterator[Server]:
    """An index whose answer never ends."""

    def endless() -> Iterator[bytes]:
        while True:
            time.sleep(0.2)
            yield b" "

    with served() as slow:
        slow.add("/simple/thing/", Answer(endless(), "text/html"))
        yield slow


async def test_cancelling_ends_an_installation(tmp_path: Path) -> None:
    with slow_index() as slow, with_packages(tmp_path, slow) as run:
        running = asyncio.create_task(run.arun(SHOW, dependencies=["thing"]))
        await asyncio.to_thread(eventually, lambda: slow.asked)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.to_thread(eventually, lambda: containers(INSTALLER) == [], 10)
        await asyncio.to_thread(eventually, lambda: list((tmp_path / "packages").iterdir()) == [])


@pytest.mark.thorough
def test_installation_uses_the_time_of_the_execution(tmp_path: Path) -> None:
    with slow_index() as slow, with_packages(tmp_path, slow, seconds=3) as run:
        begun = time.monotonic()
        error = run.run(SHOW, dependencies=["thing"]).error
        assert time.monotonic() - begun < 17
    assert error and error.kind == "timeout"
    assert "EXEC_SECONDS" in error.hint
