"""The virtual host for npm: real npm, through a real proxy, from registries on loopback."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from package_servers import Answer, Proxied, Server, publish, served, tarball, through

from libs.gateway.addresses import resolve_public
from libs.gateway.packages.closed import NoPackages
from libs.gateway.packages.host_settings import Index, NpmSettings
from libs.gateway.packages.npm_registry import NpmRegistry
from libs.gateway.packages.variables import NPM_HOST, VARIABLES

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="this host has no npm")

TOKEN = "npm_s3cr3t4711s3cr3t"


@pytest.fixture
def registry() -> Iterator[Server]:
    with served() as server:
        publish(server, "thing")
        yield server


def serving(settings: NpmSettings, folder: Path) -> AbstractContextManager[Proxied]:
    return through({NPM_HOST: NpmRegistry(settings=lambda: settings, resolve=resolve_public)}, folder / "log")


def of(server: Server, authorization: str = "", scopes: Mapping[str, Index] = {}) -> NpmSettings:
    return NpmSettings(Index(f"{server.url}/npm/", authorization), scopes)


def npm(proxy: Proxied, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run npm in a project of its own, set by variables alone."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    if not (project / "package.json").exists():
        (project / "package.json").write_text('{"name": "project", "version": "1.0.0"}')
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "HTTP_PROXY": proxy.url, **VARIABLES}
    environment |= {"npm_config_globalconfig": os.devnull}
    return subprocess.run(
        ["npm", *arguments], cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )


def get(proxy: Proxied, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, f"http://{NPM_HOST}{path}")
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.read()
    finally:
        connection.close()


def test_a_package_and_what_it_needs(registry: Server, tmp_path: Path) -> None:
    publish(registry, "outer", needs={"thing": "^1.0.0"})
    with serving(of(registry), tmp_path) as proxy:
        done = npm(proxy, tmp_path, "install", "outer")
    assert done.returncode == 0, done.stderr
    assert (
        tmp_path / "project" / "node_modules" / "thing" / "index.js"
    ).read_text() == "module.exports = '1.0.0'\n"
    files = [line for line in proxy.lines() if str(line["path"]).endswith(".tgz")]
    assert sorted(str(line["path"]) for line in files) == [
        "/outer/-/outer-1.0.0.tgz",
        "/thing/-/thing-1.0.0.tgz",
    ]
    assert {line["status"] for line in files} == {200}
    assert all(line["bytes_in"] for line in files)


def test_a_lock_file_holds_by_itself(registry: Server, tmp_path: Path) -> None:
    with serving(of(registry), tmp_path) as proxy:
        assert npm(proxy, tmp_path, "install", "thing").returncode == 0
    with serving(of(registry), tmp_path) as proxy:  # knows nothing of what the other has listed
        done = npm(proxy, tmp_path, "ci", "--cache", str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "project" / "node_modules" / "thing").is_dir()


def test_a_scope_has_its_own_registry(registry: Server, tmp_path: Path) -> None:
    with served() as corp:
        publish(corp, "@corp/inner")
        scopes = {"@corp": Index(f"{corp.url}/npm", f"Bearer {TOKEN}")}
        with serving(of(registry, scopes=scopes), tmp_path) as proxy:
            done = npm(proxy, tmp_path, "install", "@corp/inner", "thing")
        assert done.returncode == 0, done.stderr
        assert {headers.get("authorization") for *_, headers in corp.asked} == {f"Bearer {TOKEN}"}
    assert {headers.get("authorization") for *_, headers in registry.asked} == {None}
    assert (tmp_path / "project" / "node_modules" / "@corp" / "inner" / "index.js").is_file()


def test_credentials_go_to_their_registry_alone(registry: Server, tmp_path: Path) -> None:
    publish(registry, "thing", description=f"an echo of {TOKEN}")
    with serving(of(registry, f"Bearer {TOKEN}"), tmp_path) as proxy:
        status, _, body = get(proxy, "/thing")
        assert npm(proxy, tmp_path, "install", "thing").returncode == 0
    assert (status, b"[REDACTED]" in body, TOKEN.encode() in body) == (200, True, False)
    assert {headers.get("authorization") for *_, headers in registry.asked} == {f"Bearer {TOKEN}"}


def test_a_tarball_that_is_not_what_was_published(registry: Server, tmp_path: Path) -> None:
    registry.add("/npm/thing/-/thing-1.0.0.tgz", tarball("thing", "6.6.6"))
    with serving(of(registry), tmp_path) as proxy:
        done = npm(proxy, tmp_path, "install", "thing")
    assert done.returncode != 0
    assert "EINTEGRITY" in done.stderr


def test_a_tarball_at_a_private_address(registry: Server, tmp_path: Path) -> None:
    with served("127.0.0.2") as inner:
        publish(inner, "thing")
        registry.answers["/npm/thing"] = inner.answers["/npm/thing"]
        with serving(of(registry), tmp_path) as proxy:
            done = npm(proxy, tmp_path, "install", "thing")
        assert "127.0.0.2 is private: EGRESS_PRIVATE does not list it" in done.stderr
        assert inner.asked == []


@pytest.mark.parametrize("status", [401, 500])
def test_a_registry_that_refuses_or_fails(registry: Server, tmp_path: Path, status: int) -> None:
    registry.add("/npm/thing", Answer(b"no", status=status))
    with serving(of(registry), tmp_path) as proxy:
        done = npm(proxy, tmp_path, "install", "thing")
    assert f"{registry.url} answers {status}" in done.stderr


def test_a_package_that_there_is_not(registry: Server, tmp_path: Path) -> None:
    with serving(of(registry), tmp_path) as proxy:
        done = npm(proxy, tmp_path, "install", "nothing")
    assert "nothing is not in the registry that npm on the host is set to" in done.stderr


@pytest.mark.parametrize("body", [b"hello", b"[]", b'{"versions": 1}', b'{"versions": {"1.0.0": {}}}'])
def test_what_is_no_metadata(registry: Server, tmp_path: Path, body: bytes) -> None:
    registry.add("/npm/thing", Answer(body, "application/json"))
    with serving(of(registry), tmp_path) as proxy:
        status, reason, _ = get(proxy, "/thing")
    assert (status, "no metadata of a package" in reason) == (502, True)


@pytest.mark.parametrize("arguments", [("publish",), ("audit",), ("unpublish", "--force", "thing")])
def test_nothing_is_published(registry: Server, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with serving(of(registry), tmp_path) as proxy:
        assert npm(proxy, tmp_path, *arguments).returncode != 0
        assert get(proxy, "/thing", "PUT")[0] == 405
    assert {method for method, *_ in registry.asked} <= {"GET"}


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/-/v1/search",
            "/..",
            "/..%2f..%2fetc",
            "/.hidden",
            "/_private",
            "/a/b",
            "/@corp",
            "/th%00ing",
        ),
        *("/thing/-/other-1.0.0.tgz", "/thing/-/..%2fthing-1.0.0.tgz", "/thing/-/", "/" + "a" * 215),
    ],
)
def test_what_no_registry_lists(registry: Server, tmp_path: Path, path: str) -> None:
    with serving(of(registry), tmp_path) as proxy:
        assert get(proxy, path)[0] == 404
    assert set(registry.paths()) <= {"/npm/thing"}


def test_everything_where_packages_are_off(tmp_path: Path) -> None:
    with through({NPM_HOST: NoPackages(NPM_HOST)}, tmp_path / "log") as proxy:
        done = npm(proxy, tmp_path, "install", "thing")
    assert "EGRESS_PACKAGES is 0: ask the person to set EGRESS_PACKAGES=1" in done.stderr
