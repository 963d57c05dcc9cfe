"""Packages of programs: installed once for a set, by a sandbox of their own; read-only after that (X5)."""

from __future__ import annotations

import asyncio
import io
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from package_servers import Answer, Server, html_page, served, wheel

from libs.backends.docker.image import image_id
from libs.exec_tool import Dependencies
from libs.exec_tool.dependencies import MOUNT
from libs.exec_tool.runner import CodeRunner
from libs.gateway.addresses import resolve_public
from libs.gateway.gateway import Gateway
from libs.gateway.packages.host_settings import Index, PipSettings
from libs.gateway.packages.pip_index import PipIndex
from libs.gateway.packages.variables import PIP_HOST, VARIABLES
from libs.gateway.proxy import Proxy
from libs.gateway.rules import Rules
from libs.sandbox.container import DockerSandbox
from libs.sandbox.engine import shared_client
from libs.sandbox.errors import ImageMissing
from tests.integration.exec_runners import IMAGE, containers, runner
from tests.waiting import eventually

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
def with_packages(folder: Path, index: Server | None, *, seconds: float = 120) -> Iterator[CodeRunner]:
    """A runner whose packages come from an index; None: nothing may be installed."""
    with ExitStack() as stack:
        installer = None
        if index:
            settings = PipSettings((Index(f"{index.url}/simple"),))
            service = PipIndex(settings=lambda: settings, resolve=resolve_public, writable=[])
            gateway = Gateway(lambda: Proxy(rules=Rules(), services={PIP_HOST: service}), variables=VARIABLES)
            stack.callback(gateway.close)

            def installer(root: Path) -> DockerSandbox:
                return DockerSandbox(root, image=IMAGE, name=INSTALLER, egress=gateway.door)

        packages = Dependencies(folder / "packages", installer)
        yield stack.enter_context(
            runner(
                folder,
                seconds=seconds,
                runner_dependencies=packages,
                mounts=lambda: {MOUNT: packages.make_folder()},
            )
        )
        assert containers(INSTALLER) == []


@pytest.fixture(scope="module")
def run(index: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    with with_packages(tmp_path_factory.mktemp("exec"), index) as made:
        yield made


def test_installed_once_for_a_set(run: CodeRunner, index: Server) -> None:
    first = run.run(SHOW, dependencies=["thing<2"])
    assert (first.error, first.result) == (None, ["1.0"])
    assert first.metrics.cache_hit is False
    assert first.metrics.install > 0
    asked = len(index.asked)
    again = run.run(SHOW, dependencies=["Thing <2"])
    assert (again.result, again.metrics.cache_hit) == (["1.0"], True)
    assert len(index.asked) == asked
    assert again.metrics.install < 0.25  # 10 ms on a machine that does nothing else: see the benchmark


def test_other_versions_are_another_set(run: CodeRunner) -> None:
    assert run.run(SHOW, dependencies=["thing==2.0"]).result == ["2.0"]
    assert run.run(SHOW, dependencies=["thing==1.0"]).result == ["1.0"]
    assert run.run(SHOW).error


def test_with_what_they_need(run: CodeRunner) -> None:
    result = run.run("import other, thing; print('[\"%s\"]' % thing.VERSION)", dependencies=["other"])
    assert (result.error, result.result) == (None, ["1.0"])


def test_packages_of_the_image_are_there_beside_them(run: CodeRunner) -> None:
    assert run.run("import pandas, thing; print(1)", dependencies=["thing<2"]).result == 1


def test_what_the_image_has_is_not_installed_again(run: CodeRunner, index: Server) -> None:
    asked = len(index.asked)
    assert run.run("import pandas; print(1)", dependencies=["pandas"]).result == 1
    assert len(index.asked) == asked


def test_the_cache_can_only_be_read(run: CodeRunner) -> None:
    code = (
        "import json, os, thing\nsaid = []\n"
        "for path in (os.path.dirname(thing.__file__) + '/x', '/deps/x', thing.__file__):\n"
        "    try:\n        open(path, 'w').write('import os')\n"
        "    except OSError as error:\n        said.append(error.errno)\n"
        "print(json.dumps(said))"
    )
    assert run.run(code, dependencies=["thing<2"]).result == [30, 30, 30]


def test_the_program_itself_reaches_no_index(run: CodeRunner, index: Server) -> None:
    asked = len(index.asked)
    assert run.run("pip install other", language="bash").error
    assert len(index.asked) == asked


@pytest.mark.parametrize("name", ["no-such-package", "source", "broken", "thing>=3"])
def test_what_cannot_be_installed(run: CodeRunner, name: str) -> None:
    result = run.run("print(1)", dependencies=[name])
    assert result.error and result.error.kind == "dependency"
    assert name.partition(">")[0] in result.error.message
    assert result.metrics.exit_code is None


def test_a_set_that_failed_is_tried_again(run: CodeRunner, index: Server) -> None:
    assert run.run("print(1)", dependencies=["late"]).error
    name, content = wheel("late")
    index.add("/simple/late/", html_page({name: content}))
    index.add(f"/simple/late/{name}", content)
    assert run.run("import late; print(1)", dependencies=["late"]).result == 1


def test_nothing_is_left_of_installing(run: CodeRunner, tmp_path_factory: pytest.TempPathFactory) -> None:
    run.run("print(1)", dependencies=["thing<2"])
    run.run("print(1)", dependencies=["no-such-package"])
    assert run._dependencies
    left = [path.name for path in run._dependencies.cache.iterdir() if path.name.startswith(".")]
    assert left == []


def test_where_nothing_may_be_installed(tmp_path: Path, index: Server) -> None:
    with with_packages(tmp_path, index) as run:
        assert run.run(SHOW, dependencies=["thing<2"]).result == ["1.0"]
    with with_packages(tmp_path, None) as run:
        assert run.run(SHOW, dependencies=["thing<2"]).result == ["1.0"]
        error = run.run(SHOW, dependencies=["other"]).error
    assert error and error.kind == "dependency"
    assert "EGRESS_PACKAGES is 0" in error.message
    assert "EGRESS_PACKAGES=1" in error.hint


@contextmanager
def slow_index() -> Iterator[Server]:
    """One that goes on answering for ever."""

    def endless() -> Iterator[bytes]:
        while True:
            time.sleep(0.2)
            yield b" "

    with served() as slow:
        slow.add("/simple/thing/", Answer(endless(), "text/html"))
        yield slow


async def test_cancelling_ends_an_installation_at_once(tmp_path: Path) -> None:
    with slow_index() as slow, with_packages(tmp_path, slow) as run:
        running = asyncio.create_task(run.arun(SHOW, dependencies=["thing"]))
        await asyncio.to_thread(eventually, lambda: slow.asked)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.to_thread(eventually, lambda: containers(INSTALLER) == [], 10)
        await asyncio.to_thread(eventually, lambda: list((tmp_path / "packages").iterdir()) == [])


def test_one_budget_for_installing_and_running(tmp_path: Path) -> None:
    with slow_index() as slow, with_packages(tmp_path, slow, seconds=6) as run:
        begun = time.monotonic()
        error = run.run(SHOW, dependencies=["thing"]).error
        assert time.monotonic() - begun < 20
    assert error and error.kind == "timeout"
    assert "EXEC_SECONDS" in error.hint


def test_each_build_of_the_image_has_sets_of_its_own() -> None:
    client = shared_client()
    other, *_ = client.images.build(fileobj=io.BytesIO(f"FROM {IMAGE}\nLABEL other=1\n".encode()), rm=True)
    try:
        assert image_id(client, str(other.id)) == other.id != image_id(client, IMAGE)
    finally:
        client.images.remove(str(other.id))
    with pytest.raises(ImageMissing, match="is not there"):
        image_id(client, str(other.id))
