"""pip.gateway: real pip, through a real proxy, from indexes on loopback."""

from __future__ import annotations

import subprocess
import time
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from libs.gateway.package_environment import PIP_HOST, VARIABLES
from libs.gateway.packages.host_index_settings import Index
from libs.gateway.rules.addresses import Address, resolve_public
from tests.servers.package_servers import (
    CONTENT,
    FILE,
    NAME,
    PAGE,
    Answer,
    Proxied,
    Server,
    StartProxy,
    ask,
    html_page,
    metadata,
    pip_service,
    run_pip,
    served,
    through,
    wheel,
)

PASSWORD = "s3cr3t-4711-5e9b"


def install(proxy: Proxied, folder: Path, *what: str) -> subprocess.CompletedProcess[str]:
    """`pip install` into a folder."""
    target = folder / "target"
    arguments = ("install", "--no-cache-dir", "--no-compile", "--target", str(target), *what)
    return run_pip(proxy.url, folder, *arguments, variables=VARIABLES)


def get(proxy: Proxied, path: str, **headers: str) -> tuple[int, str, bytes]:
    return ask(proxy, PIP_HOST, path, **headers)[:3]


async def loopback(host: str, port: int) -> list[Address]:
    """Resolve names, and treat loopback as public."""
    return await resolve_public(host, port, private=[ip_network("127.0.0.0/8")])


class TestInstalling:
    def test_package_is_installed_and_logged(self, index: Server, tmp_path: Path) -> None:
        with through({PIP_HOST: pip_service(f"{index.url}/simple")}, tmp_path / "log") as proxy:
            done = install(proxy, tmp_path, "thing")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "target" / "thing" / "__init__.py").read_text() == "VERSION = '1.0'\n"
        page, file = proxy.lines()
        assert (page["host"], page["path"], page["status"]) == (PIP_HOST, PAGE, 200)
        assert (file["path"], file["status"], file["bytes_in"]) == (FILE, 200, len(CONTENT))

    def test_dependencies_are_read_from_metadata_files(
        self, index: Server, start: StartProxy, tmp_path: Path
    ) -> None:
        name, content = wheel("outer", needs=["thing"])
        index.add("/simple/outer/", html_page({name: content}, attributes='data-core-metadata="true"'))
        index.add(f"/simple/outer/{name}", content)
        index.add(f"/simple/outer/{name}.metadata", metadata("outer", "1.0", ["thing"]))
        done = install(start(f"{index.url}/simple/"), tmp_path, "outer")
        assert done.returncode == 0, done.stderr
        assert {path.name for path in (tmp_path / "target").iterdir()} >= {"thing", "outer"}
        assert f"/simple/outer/{name}.metadata" in index.paths()

    def test_all_indexes_and_find_links_are_searched(
        self, index: Server, start: StartProxy, tmp_path: Path
    ) -> None:
        newer, newest = wheel("thing", "2.0"), wheel("thing", "3.0")
        with served() as other:
            other.add(PAGE, html_page(dict([newer])))
            other.add(f"{PAGE}{newer[0]}", newer[1])
            (tmp_path / "wheels").mkdir()
            (tmp_path / "wheels" / newest[0]).write_bytes(newest[1])
            other.add("/all.html", html_page(dict([wheel("else"), wheel("thing", "2.5")])))
            proxy = start(
                f"{index.url}/simple",
                f"{other.url}/simple",
                pages=[f"{other.url}/all.html", (tmp_path / "wheels").as_uri()],
            )
            listed = get(proxy, PAGE)[2].decode()
            assert [version for version in ("1.0", "2.0", "2.5", "3.0", "else") if version in listed] == [
                *("1.0", "2.0", "2.5", "3.0")
            ]
            assert install(proxy, tmp_path, "thing").returncode == 0
        assert "3.0" in (tmp_path / "target" / "thing" / "__init__.py").read_text()

    def test_file_with_a_wrong_hash_is_not_installed(
        self, index: Server, start: StartProxy, tmp_path: Path
    ) -> None:
        index.add(f"/files/{NAME}", wheel("thing", more=b"evil")[1])
        done = install(start(f"{index.url}/simple"), tmp_path, "thing")
        assert done.returncode != 0
        assert "DO NOT MATCH THE HASHES" in done.stderr


class TestCredentials:
    def test_credentials_go_to_their_index_only(self, index: Server, start: StartProxy) -> None:
        sent = "Basic bWU6" + "czNjcjN0LTQ3MTEtNWU5Yg=="
        with served("127.0.0.2") as files:
            files.add(f"/{NAME}", CONTENT)
            index.add(PAGE, html_page({NAME: CONTENT}, before=f"{files.url}/"))
            assert get(start(Index(f"{index.url}/simple", sent), resolve=loopback), FILE)[2] == CONTENT
            assert [headers["authorization"] for *_, headers in index.asked] == [sent]
            assert ["authorization" in headers for *_, headers in files.asked] == [False]

    def test_redirect_to_another_host_drops_them(self, index: Server, start: StartProxy) -> None:
        with served("127.0.0.2") as files:
            files.add(f"/{NAME}", CONTENT)
            index.add(f"/files/{NAME}", Answer(b"", status=302, headers={"Location": f"{files.url}/{NAME}"}))
            proxy = start(Index(f"{index.url}/simple", "Bearer " + PASSWORD), resolve=loopback)
            assert get(proxy, FILE)[2] == CONTENT
            assert ["authorization" in headers for *_, headers in index.asked] == [True, True]
            assert ["authorization" in headers for *_, headers in files.asked] == [False]

    def test_credentials_in_a_link_are_used_and_hidden(self, index: Server, start: StartProxy) -> None:
        before = f"{index.url.replace('://', f'://me:{PASSWORD}@')}/files/"
        index.add(PAGE, html_page({NAME: CONTENT}, before=before))
        proxy = start(f"{index.url}/simple")
        assert PASSWORD.encode() not in get(proxy, PAGE)[2]
        assert get(proxy, FILE)[2] == CONTENT
        assert index.asked[-1][2]["authorization"].startswith("Basic ")

    def test_page_that_repeats_them_is_redacted(self, index: Server, start: StartProxy) -> None:
        index.add(PAGE, html_page({NAME: CONTENT}, attributes=f'data-yanked="for {PASSWORD}"'))
        proxy = start(Index(f"{index.url}/simple", "Bearer " + PASSWORD))
        status, _, body = get(proxy, PAGE)
        assert (status, b"for [REDACTED]" in body, PASSWORD.encode() in body) == (200, True, False)


class TestRefused:
    def test_publishing_is_refused(self, index: Server, start: StartProxy) -> None:
        proxy = start(f"{index.url}/simple")
        for method in ("POST", "PUT", "DELETE"):
            status, reason, *_ = ask(proxy, PIP_HOST, "/simple/", method)
            assert (status, "nothing can be published" in reason, index.asked) == (405, True, []), method

    def test_unlisted_paths_are_not_found(self, index: Server, start: StartProxy) -> None:
        proxy = start(f"{index.url}/simple")
        for path in (
            *("/", "/simple/", "/files/", "/files/0/thing/", "/simple/thing/more/", "/simple//"),
            *("/simple/../", "/simple/..%2f..%2fetc/", "/simple/.hidden/", "/simple/th%00ing/"),
            *(f"/files/0/thing/{name}" for name in ("other-1.0.zip", "..%2fsecret", NAME + ".metadata")),
            *(f"/files/{number}/thing/{NAME}" for number in ("1", "-1", "x", "9" * 5_000, "00")),
            "/simple/" + "a" * 101 + "/",
        ):
            assert get(proxy, path)[0] == 404, path
        assert set(index.paths()) <= {PAGE}
        status, reason, _ = get(proxy, "/simple/nothing/")
        assert (status, reason) == (404, "nothing is in none of the indexes that pip on the host is set to")

    def test_link_to_a_private_address_is_refused(self, index: Server, start: StartProxy) -> None:
        with served("127.0.0.2") as inner:
            inner.add(f"/{NAME}", CONTENT)
            index.add(PAGE, html_page({NAME: CONTENT}, before=f"{inner.url}/"))
            _, reason, body = get(start(f"{index.url}/simple"), FILE)
            assert "127.0.0.2 is private: EGRESS_PRIVATE does not list it" in reason
            assert (CONTENT in body, inner.asked) == (False, [])

    def test_link_to_the_address_of_the_index_is_followed(self, index: Server, start: StartProxy) -> None:
        """Index and files may have two names and one private address."""
        before = f"http://localhost:{urlsplit(index.url).port}/files/"
        index.add(PAGE, html_page({NAME: CONTENT}, before=before))
        assert get(start(f"{index.url}/simple"), FILE)[2] == CONTENT

    @pytest.mark.parametrize("of", [PAGE, f"/files/{NAME}"], ids=["page", "file"])
    def test_redirect_to_a_private_address_is_refused(
        self, index: Server, start: StartProxy, tmp_path: Path, of: str
    ) -> None:
        """pip shows the reason and does not try again."""
        with served("127.0.0.2") as inner:
            index.add(of, Answer(b"", status=302, headers={"Location": f"{inner.url}/latest/meta-data"}))
            began = time.monotonic()
            done = install(start(f"{index.url}/simple"), tmp_path, "thing")
            assert time.monotonic() - began < 30
            assert done.returncode != 0
            assert "127.0.0.2 is private: EGRESS_PRIVATE does not list it" in done.stderr
            assert inner.asked == []

    def test_index_in_the_workspace_is_not_served(self, start: StartProxy, tmp_path: Path) -> None:
        (tmp_path / NAME).write_bytes(CONTENT)
        assert get(start(pages=[tmp_path.as_uri()], writable=[tmp_path]), PAGE)[0] == 404
