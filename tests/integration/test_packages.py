"""pip inside a container, through the gateway, from indexes of the host (G3)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from package_servers import Server, html_page, publish, served, through, wheel

from agent.config import load_settings
from agent.egress import REQUESTS, build_gateway
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


NPM_TOKEN = "npm_s3cr3t4711s3cr3t"


@pytest.mark.timeout(1500)  # the first that asks for the image may have to build it
@pytest.mark.skipif(shutil.which("npm") is None, reason="this host has no npm, whose registry it would be")
def test_npm_where_the_image_has_it(
    browser_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EGRESS_PACKAGES=1 and no more: the registry, and the token for it, are those of the host's npm."""
    monkeypatch.chdir(tmp_path)
    with served() as registry, ExitStack() as stack:
        publish(registry, "thing")
        publish(registry, "@corp/other", needs={"thing": "^1.0.0"})
        where = registry.url.removeprefix("http:") + "/npm/"
        (tmp_path / "npmrc").write_text(f"registry=http:{where}\n{where}:_authToken={NPM_TOKEN}\n")
        monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "npmrc"))
        settings = load_settings(None, egress_packages=True, workspace_dir=tmp_path / "workspace")
        gateway = build_gateway(settings)
        stack.callback(gateway.close)
        inside = stack.enter_context(
            DockerSandbox(tmp_path / "workspace", image=browser_image, name="packages", egress=gateway.door)
        )

        install = "mkdir app && cd app && npm init -y > /dev/null && npm install @corp/other 2>&1"
        assert "added 2 packages" in ok(inside.run(install, timeout=120))
        asked = 'cd app && node -p \'require("@corp/other") + require("thing")\''
        assert ok(inside.run(asked)) == "1.0.01.0.0\n"
        assert [headers["authorization"] for *_, headers in registry.asked] == [f"Bearer {NPM_TOKEN}"] * 4

        missing = inside.run("cd app && npm install no-such-thing 2>&1", timeout=120)
        assert missing.exit_code != 0
        assert "no-such-thing is not in the registry that npm on the host is set to" in missing.output
        published = inside.run("cd app && npm publish --//npm.gateway/:_authToken=x 2>&1", timeout=120)
        assert "nothing can be published through it" in published.output

        shown = "".join(
            inside.run(f"{command} 2>&1").output
            for command in (
                "env; npm config list -l; cat app/package-lock.json ~/.npmrc",
                "cat /proc/*/environ | tr '\\0' '\\n'",
                "grep -ra s3cr3t /tmp /workspace /run",
            )
        )
        assert "http://npm.gateway/thing/-/thing-1.0.0.tgz" in shown
        assert "s3cr3t" not in shown
        assert where not in shown
    lines = [json.loads(line) for line in (tmp_path / REQUESTS).read_text().splitlines()]
    assert {line["host"] for line in lines} == {NPM_HOST}
    assert [line["path"] for line in lines][:2] == ["/@corp%2fother", "/thing"]
