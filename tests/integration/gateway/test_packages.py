"""pip and npm in a container, through the gateway, from indexes of the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.config import load_settings
from agent.parts.egress_gateway import build_gateway
from libs.gateway.gateway_protocol import Service
from libs.gateway.gateway_thread import Gateway
from libs.gateway.package_environment import PIP_HOST, VARIABLES
from libs.gateway.packages.host_index_settings import Index, PipSettings
from libs.gateway.packages.package_hosts import NoPackages
from libs.gateway.packages.pip_index import PipIndex
from libs.gateway.proxy import Proxy
from libs.gateway.rules.addresses import resolve_public
from libs.gateway.rules.allow_list import Rules
from libs.sandbox import RunResult
from libs.sandbox.docker.container import DockerSandbox
from tests.servers.package_servers import Server, html_page, publish, served, wheel
from tests.support.sandboxes import IMAGE

pytestmark = pytest.mark.docker

PASSWORD = "s3cr3t-4711-5e9b"
NAME, CONTENT = wheel("thing")


@pytest.fixture(scope="module")
def index() -> Iterator[Server]:
    with served() as server:
        server.add("/simple/thing/", html_page({NAME: CONTENT}))
        server.add(f"/simple/thing/{NAME}", CONTENT)
        yield server


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def computer(stack: ExitStack, workspace: Path, service: Service) -> DockerSandbox:
    gateway = Gateway(lambda: Proxy(rules=Rules(), services={PIP_HOST: service}), variables=VARIABLES)
    stack.callback(gateway.close)
    return stack.enter_context(DockerSandbox(workspace, image=IMAGE, name="packages", egress=gateway.door))


@pytest.fixture(scope="module")
def sandbox(stack: ExitStack, index: Server, tmp_path_factory: pytest.TempPathFactory) -> DockerSandbox:
    """A sandbox of a host whose pip uses an index with a password."""
    settings = PipSettings((Index(f"{index.url}/simple", "Basic bWU6czNjcjN0LTQ3MTEtNWU5Yg=="),))
    return computer(
        stack,
        tmp_path_factory.mktemp("workspace"),
        PipIndex(settings=lambda: settings, resolve=resolve_public, writable=[]),
    )


def ok(done: RunResult) -> str:
    assert done.exit_code == 0, done.output
    return done.output


def test_no_credentials_are_inside(sandbox: DockerSandbox, index: Server) -> None:
    ok(sandbox.run("pip install -q thing"))
    assert ok(sandbox.run("python -c 'import thing; print(thing.VERSION)'")) == "1.0\n"
    assert all(headers["authorization"].startswith("Basic ") for *_, headers in index.asked)
    find = "env; pip config list; pip -v index versions thing 2>&1; cat /proc/*/environ 2>&1 | tr '\\0' '\\n'"
    shown = (
        ok(sandbox.run(find + "; true"))
        + sandbox.run("grep -ra s3cr3t4711 /tmp /workspace /run 2>/dev/null").output
    )
    assert "s3cr3t" not in shown
    assert "czNj" not in shown
    assert index.url.removeprefix("http://") not in shown


def test_pip_shows_that_packages_are_off(stack: ExitStack, tmp_path: Path) -> None:
    done = computer(stack, tmp_path, NoPackages(PIP_HOST)).run("pip install thing")
    assert done.exit_code != 0
    assert "EGRESS_PACKAGES is 0: ask the person to set EGRESS_PACKAGES=1" in done.output


@pytest.mark.thorough
def test_install_from_the_indexes_of_this_machine(stack: ExitStack, tmp_path: Path) -> None:
    fresh = computer(stack, tmp_path, PipIndex(resolve=resolve_public, writable=[]))
    ok(fresh.run("pip install -q --user six"))
    assert ok(fresh.run("python -c 'import six; print(six.__name__)'")) == "six\n"


NPM_TOKEN = "npm_s3cr3t4711s3cr3t"


@pytest.mark.thorough
@pytest.mark.timeout(1500)  # the image may have to be built
def test_npm_in_an_image_with_node(
    browser_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With EGRESS_PACKAGES=1, the registry and its token are those of the host's npm."""
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
        look = "env; npm config list -l; cat app/package-lock.json; grep -ra s3cr3t4711 /tmp /workspace /run"
        shown = inside.run(f"{look} 2>&1").output
        assert "http://npm.gateway/thing/-/thing-1.0.0.tgz" in shown
        assert "s3cr3t4711" not in shown
        assert where not in shown
