"""pip inside a container, through the gateway, from indexes of the host (G3)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from package_servers import Server, html_page, served, through, wheel

from libs.gateway.addresses import resolve_public
from libs.gateway.gateway import Gateway
from libs.gateway.packages.closed import NoPackages
from libs.gateway.packages.host_settings import Index, PipSettings
from libs.gateway.packages.npm_registry import NpmRegistry
from libs.gateway.packages.pip_index import PipIndex
from libs.gateway.packages.variables import NPM_HOST, PIP_HOST, VARIABLES
from libs.gateway.protocol import Service
from libs.gateway.proxy import Proxy
from libs.gateway.rules import Rules
from libs.sandbox import RunResult
from libs.sandbox.container import DockerSandbox

pytestmark = pytest.mark.docker

PASSWORD = "s3cr3t-4711-5e9b"
NAME, CONTENT = wheel("thing")
OTHER, OTHER_CONTENT = wheel("other", needs=["thing"])


@pytest.fixture(scope="module")
def index() -> Iterator[Server]:
    with served() as server:
        for name, content in ((NAME, CONTENT), (OTHER, OTHER_CONTENT)):
            server.add(f"/simple/{name.partition('-')[0]}/", html_page({name: content}))
            server.add(f"/simple/{name.partition('-')[0]}/{name}", content)
        yield server


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def computer(stack: ExitStack, workspace: Path, service: Service) -> DockerSandbox:
    gateway = Gateway(lambda: Proxy(rules=Rules(), services={PIP_HOST: service}), variables=VARIABLES)
    stack.callback(gateway.close)
    return stack.enter_context(
        DockerSandbox(workspace, image="code-execution-agent", name="packages", egress=gateway.door)
    )


@pytest.fixture(scope="module")
def sandbox(stack: ExitStack, index: Server, tmp_path_factory: pytest.TempPathFactory) -> DockerSandbox:
    """Its host's pip is set to an index that wants a password."""
    settings = PipSettings((Index(f"{index.url}/simple", "Basic bWU6czNjcjN0LTQ3MTEtNWU5Yg=="),))
    return computer(
        stack,
        tmp_path_factory.mktemp("workspace"),
        PipIndex(settings=lambda: settings, resolve=resolve_public, writable=[]),
    )


def ok(done: RunResult) -> str:
    assert done.exit_code == 0, done.output
    return done.output


def test_for_the_user_with_what_it_needs(sandbox: DockerSandbox) -> None:
    ok(sandbox.run("pip install -q other"))
    assert ok(sandbox.run("python -c 'import other, thing; print(thing.VERSION)'")) == "1.0\n"


def test_into_a_venv(sandbox: DockerSandbox) -> None:
    ok(sandbox.run("python -m venv .venv && .venv/bin/pip install -q thing"))
    assert ok(sandbox.run(".venv/bin/python -c 'import thing; print(thing.__file__)'")).startswith(
        "/workspace/.venv/"
    )


def test_in_a_block_that_imports_it_at_once(stack: ExitStack, index: Server, tmp_path: Path) -> None:
    settings = PipSettings((Index(f"{index.url}/simple"),))
    fresh = computer(
        stack, tmp_path, PipIndex(settings=lambda: settings, resolve=resolve_public, writable=[])
    )
    code = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', 'thing'], check=True)\n"
        "import thing\nthing.VERSION"
    )
    assert ok(fresh.run_python(code, session="one", timeout=60)).endswith("'1.0'\n")


def test_no_credentials_are_inside(sandbox: DockerSandbox, index: Server) -> None:
    ok(sandbox.run("pip download -q --no-deps -d /tmp/d thing"))
    assert all(headers["authorization"].startswith("Basic ") for *_, headers in index.asked[-2:])
    find = "env; pip config list; pip -v index versions thing 2>&1; cat /proc/*/environ 2>&1 | tr '\\0' '\\n'"
    shown = (
        ok(sandbox.run(find + "; true"))
        + sandbox.run("grep -ra s3cr3t /tmp /workspace /run 2>/dev/null").output
    )
    assert "s3cr3t" not in shown
    assert "czNj" not in shown
    assert index.url.removeprefix("http://") not in shown


def test_where_packages_are_off(stack: ExitStack, tmp_path: Path) -> None:
    done = computer(stack, tmp_path, NoPackages(PIP_HOST)).run("pip install thing")
    assert done.exit_code != 0
    assert "EGRESS_PACKAGES is 0: ask the person to set EGRESS_PACKAGES=1" in done.output


def test_a_large_one(sandbox: DockerSandbox, index: Server) -> None:
    """Its bytes pass; the host keeps none."""
    name, content = wheel("large", more=b"x" * (60 * 2**20))
    index.add("/simple/large/", html_page({name: content}))
    index.add(f"/simple/large/{name}", content)
    ok(
        sandbox.run(
            "TMPDIR=/workspace pip install -q --target /workspace/large large && rm -r /workspace/large"
        )
    )


def test_from_the_indexes_of_this_machine(stack: ExitStack, tmp_path: Path) -> None:
    fresh = computer(stack, tmp_path, PipIndex(resolve=resolve_public, writable=[]))
    ok(fresh.run("pip install -q --user six"))
    assert ok(fresh.run("python -c 'import six; print(six.__name__)'")) == "six\n"


@pytest.mark.skipif(shutil.which("npm") is None, reason="this host has no npm")
def test_npm_from_the_registry_of_this_machine(tmp_path: Path) -> None:
    """On the host, through a proxy such as the sandbox has: the usual image has no Node."""
    with through({NPM_HOST: NpmRegistry(resolve=resolve_public)}, tmp_path / "log") as proxy:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HTTP_PROXY": proxy.url,
            **VARIABLES,
        }
        command = ["npm", "install", "--prefix", str(tmp_path / "project"), "is-number"]
        subprocess.run(command, env=environment, check=True, timeout=120)
    assert (tmp_path / "project" / "node_modules" / "is-number" / "package.json").is_file()
