"""npm.gateway: real npm, through a real proxy, from registries on loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import pytest

from libs.gateway.package_environment import NPM_HOST, VARIABLES
from libs.gateway.packages.host_index_settings import Index, NpmSettings
from libs.gateway.packages.npm_registry import NpmRegistry
from libs.gateway.rules.addresses import resolve_public
from tests.servers.package_servers import Answer, Proxied, Server, ask, publish, served, tarball, through

TOKEN = "npm_s3cr3t4711s3cr3t"


@pytest.fixture
def registry() -> Iterator[Server]:
    with served() as server:
        publish(server, "thing")
        yield server


def serving(settings: NpmSettings, folder: Path, *private: str) -> AbstractContextManager[Proxied]:
    resolve = partial(resolve_public, private=[ip_network(network) for network in private])
    return through({NPM_HOST: NpmRegistry(settings=lambda: settings, resolve=resolve)}, folder / "log")


def of(server: Server, authorization: str = "", scopes: Mapping[str, Index] = {}) -> NpmSettings:
    return NpmSettings(Index(f"{server.url}/npm/", authorization), scopes)


def npm(proxy: Proxied, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run npm in a new project, configured by variables only."""
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
    return ask(proxy, NPM_HOST, path, method)[:3]


def test_install_from_two_registries(registry: Server, tmp_path: Path) -> None:
    publish(registry, "outer", needs={"thing": "^1.0.0"})
    with served() as corp:
        publish(corp, "@corp/inner")
        scopes = {"@corp": Index(f"{corp.url}/npm", f"Bearer {TOKEN}")}
        with serving(of(registry, scopes=scopes), tmp_path) as proxy:
            done = npm(proxy, tmp_path, "install", "@corp/inner", "outer")
        assert done.returncode == 0, done.stderr
        assert {headers.get("authorization") for *_, headers in corp.asked} == {f"Bearer {TOKEN}"}
    assert {headers.get("authorization") for *_, headers in registry.asked} == {None}
    modules = tmp_path / "project" / "node_modules"
    assert (modules / "thing" / "index.js").read_text() == "module.exports = '1.0.0'\n"
    assert (modules / "@corp" / "inner" / "index.js").is_file()
    files = {str(line["path"]): line for line in proxy.lines() if str(line["path"]).endswith(".tgz")}
    assert files.keys() > {"/outer/-/outer-1.0.0.tgz", "/thing/-/thing-1.0.0.tgz"}
    assert {line["status"] for line in files.values()} == {200}
    assert all(line["bytes_in"] for line in files.values())


def test_credentials_go_to_their_registry_only(registry: Server, tmp_path: Path) -> None:
    publish(registry, "thing", description=f"an echo of {TOKEN}")
    with served("127.0.0.2") as elsewhere:
        elsewhere.add("/thing-1.0.0.tgz", tarball("thing"))
        away = Answer(b"", status=302, headers={"Location": f"{elsewhere.url}/thing-1.0.0.tgz"})
        registry.add("/npm/thing/-/thing-1.0.0.tgz", away)
        with serving(of(registry, f"Bearer {TOKEN}"), tmp_path, "127.0.0.2/32") as proxy:
            status, _, body = get(proxy, "/thing")
            assert get(proxy, "/thing/-/thing-1.0.0.tgz")[0] == 200
        assert ["authorization" in headers for *_, headers in elsewhere.asked] == [False]
    assert (status, b"[REDACTED]" in body, TOKEN.encode() in body) == (200, True, False)
    assert {headers.get("authorization") for *_, headers in registry.asked} == {f"Bearer {TOKEN}"}


@pytest.mark.thorough
def test_changed_tarball_is_not_installed(registry: Server, tmp_path: Path) -> None:
    registry.add("/npm/thing/-/thing-1.0.0.tgz", tarball("thing", "6.6.6"))
    with serving(of(registry), tmp_path) as proxy:
        done = npm(proxy, tmp_path, "install", "thing")
    assert done.returncode != 0
    assert "EINTEGRITY" in done.stderr


def test_tarball_at_a_private_address_is_refused(registry: Server, tmp_path: Path) -> None:
    """npm shows the reason."""
    with served("127.0.0.2") as inner:
        publish(inner, "thing")
        registry.answers["/npm/thing"] = inner.answers["/npm/thing"]
        with serving(of(registry), tmp_path) as proxy:
            done = npm(proxy, tmp_path, "install", "thing")
        assert "127.0.0.2 is private: EGRESS_PRIVATE does not list it" in done.stderr
        assert inner.asked == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(b"no", status=401), " answers 401"),
        (Answer(b"hello"), "did not return npm package metadata"),
        (Answer(b'{"versions": {"1.0.0": {}}}'), "did not return npm package metadata"),
        (Answer(b"no", status=404), "thing is not in the registry that npm on the host is set to"),
    ],
    ids=["refuses", "text", "no file", "not there"],
)
def test_failed_answers_of_a_registry(registry: Server, tmp_path: Path, answer: Answer, said: str) -> None:
    registry.add("/npm/thing", answer)
    with serving(of(registry), tmp_path) as proxy:
        status, reason, _ = get(proxy, "/thing")
    assert (status >= 400, said in reason) == (True, True), reason


def test_publishing_is_refused(registry: Server, tmp_path: Path) -> None:
    with serving(of(registry), tmp_path) as proxy:
        assert npm(proxy, tmp_path, "publish").returncode != 0
        for method in ("PUT", "POST", "DELETE"):
            assert get(proxy, "/thing", method)[0] == 405
    assert {method for method, *_ in registry.asked} <= {"GET"}


def test_unlisted_paths_are_not_found(registry: Server, tmp_path: Path) -> None:
    with serving(of(registry), tmp_path) as proxy:
        for path in (
            *("/", "/-/v1/search", "/..", "/..%2f..%2fetc", "/.hidden", "/_private", "/a/b", "/@corp"),
            *("/th%00ing", "/thing/-/other-1.0.0.tgz", "/thing/-/..%2fthing-1.0.0.tgz", "/thing/-/"),
            "/" + "a" * 215,
        ):
            assert get(proxy, path)[0] == 404, path
    assert set(registry.paths()) <= {"/npm/thing"}
