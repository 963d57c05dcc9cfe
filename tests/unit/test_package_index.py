"""The virtual host for pip: real pip, through a real proxy, from indexes on loopback."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from certificates import self_signed
from package_servers import (
    Answer,
    Proxied,
    Server,
    html_page,
    json_page,
    metadata,
    run_pip,
    served,
    through,
    wheel,
)

from libs.gateway.addresses import Address, resolve_public
from libs.gateway.errors import GatewayError
from libs.gateway.limits import EgressLimits
from libs.gateway.packages import outside
from libs.gateway.packages.closed import NoPackages
from libs.gateway.packages.host_settings import Index, PipSettings, Reach
from libs.gateway.packages.pip_index import PipIndex
from libs.gateway.packages.variables import PIP_HOST, VARIABLES

PASSWORD = "s3cr3t-4711-5e9b"
NAME, CONTENT = wheel("thing")


@pytest.fixture
def index() -> Iterator[Server]:
    """An index with one package."""
    with served() as server:
        server.add("/simple/thing/", html_page({NAME: CONTENT}, before="/files/"))
        server.add(f"/files/{NAME}", CONTENT)
        yield server


Start = Callable[..., Proxied]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a proxy for indexes; ends it."""
    with ExitStack() as stack:

        def begin(
            *indexes: str | Index,
            pages: Sequence[str] = (),
            limits: EgressLimits | None = None,
            reach: Reach | None = None,
            **options: object,
        ) -> Proxied:
            settings = PipSettings(
                tuple(each if isinstance(each, Index) else Index(each) for each in indexes),
                tuple(map(Index, pages)),
                reach or Reach(),
            )
            chosen = {"resolve": resolve_public, "writable": [], **options}
            service = PipIndex(settings=lambda: settings, **chosen)  # type: ignore[arg-type]
            return stack.enter_context(through({PIP_HOST: service}, tmp_path / "log", limits=limits))

        yield begin


def install(proxy: Proxied, folder: Path, *what: str) -> subprocess.CompletedProcess[str]:
    """`pip install` into a folder."""
    target = folder / "target"
    arguments = ("install", "--no-cache-dir", "--no-compile", "--target", str(target), *what)
    return run_pip(proxy.url, folder, *arguments, variables=VARIABLES)


def get(
    proxy: Proxied, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, bytes, dict[str, str]]:
    """Ask the virtual host itself: status, reason, body, headers."""
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, f"http://{PIP_HOST}{path}", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def last_line(proxy: Proxied) -> dict[str, object]:
    """The last line of the log, once there is one."""
    deadline = time.monotonic() + 10
    while not (proxy.log.exists() and proxy.log.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return proxy.lines()[-1]


class TestInstalling:
    @pytest.mark.parametrize("kind", ["html", "json"])
    def test_a_package(self, index: Server, start: Start, tmp_path: Path, kind: str) -> None:
        if kind == "json":
            index.add("/simple/thing/", json_page("thing", {NAME: CONTENT}, before="../../files/"))
        done = install(start(f"{index.url}/simple"), tmp_path, "thing")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "target" / "thing" / "__init__.py").read_text() == "VERSION = '1.0'\n"

    def test_what_it_needs_read_from_metadata_alone(
        self, index: Server, start: Start, tmp_path: Path
    ) -> None:
        name, content = wheel("outer", needs=["thing"])
        index.add("/simple/outer/", html_page({name: content}, attributes='data-core-metadata="true"'))
        index.add(f"/simple/outer/{name}", content)
        index.add(f"/simple/outer/{name}.metadata", metadata("outer", "1.0", ["thing"]))
        done = install(start(f"{index.url}/simple/"), tmp_path, "outer")
        assert done.returncode == 0, done.stderr
        assert {path.name for path in (tmp_path / "target").iterdir()} >= {"thing", "outer"}
        assert f"/simple/outer/{name}.metadata" in index.paths()

    def test_the_best_of_all_indexes_and_pages(self, index: Server, start: Start, tmp_path: Path) -> None:
        newer, newest = wheel("thing", "2.0"), wheel("thing", "3.0")
        with served() as other:
            other.add("/simple/thing/", html_page(dict([newer])))
            other.add(f"/simple/thing/{newer[0]}", newer[1])
            (tmp_path / "wheels").mkdir()
            (tmp_path / "wheels" / newest[0]).write_bytes(newest[1])
            other.add("/all.html", html_page(dict([wheel("else"), wheel("thing", "2.5")])))
            proxy = start(
                f"{index.url}/simple",
                f"{other.url}/simple",
                pages=[f"{other.url}/all.html", (tmp_path / "wheels").as_uri()],
            )
            listed = get(proxy, "/simple/thing/")[2].decode()
            assert [version in listed for version in ("1.0", "2.0", "2.5", "3.0", "else")] == [True] * 4 + [
                False
            ]
            assert install(proxy, tmp_path, "thing").returncode == 0
        assert "3.0" in (tmp_path / "target" / "thing" / "__init__.py").read_text()

    def test_from_an_index_on_the_disk(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / "mirror" / "files").mkdir(parents=True)
        (tmp_path / "mirror" / "files" / NAME).write_bytes(CONTENT)
        page = tmp_path / "mirror" / "simple" / "thing" / "index.html"
        page.parent.mkdir(parents=True)
        digest = hashlib.sha256(CONTENT).hexdigest()
        page.write_text(f'<a href="../../files/{NAME}#sha256={digest}">{NAME}</a>')
        done = install(start((tmp_path / "mirror" / "simple").as_uri()), tmp_path, "thing")
        assert done.returncode == 0, done.stderr

    def test_a_file_whose_hash_is_not_its_own(self, index: Server, start: Start, tmp_path: Path) -> None:
        index.add(f"/files/{NAME}", wheel("thing", more=b"evil")[1])
        done = install(start(f"{index.url}/simple"), tmp_path, "thing")
        assert done.returncode != 0
        assert "DO NOT MATCH THE HASHES" in done.stderr

    def test_every_request_is_logged(self, index: Server, tmp_path: Path) -> None:
        settings = PipSettings((Index(f"{index.url}/simple"),))
        service = PipIndex(settings=lambda: settings, resolve=resolve_public, writable=[])
        with through({PIP_HOST: service}, tmp_path / "log") as proxy:
            assert install(proxy, tmp_path, "thing").returncode == 0
        page, file = proxy.lines()
        assert (page["host"], page["path"], page["status"]) == (PIP_HOST, "/simple/thing/", 200)
        assert (file["path"], file["status"], file["bytes_in"]) == (
            f"/files/0/thing/{NAME}",
            200,
            len(CONTENT),
        )
        assert {line["sandbox"] for line in (page, file)} == {"sandbox"}


class TestCredentials:
    def test_go_to_their_index_alone(self, index: Server, start: Start, tmp_path: Path) -> None:
        with served("127.0.0.2") as files:
            files.add(f"/{NAME}", CONTENT)
            index.add("/simple/thing/", html_page({NAME: CONTENT}, before=f"{files.url}/"))
            proxy = start(
                Index(f"{index.url}/simple", "Basic bWU6" + "czNjcjN0LTQ3MTEtNWU5Yg=="), resolve=loopback
            )
            done = install(proxy, tmp_path, "thing")
            assert done.returncode == 0, done.stderr
            assert [headers["authorization"] for *_, headers in index.asked] == [
                "Basic bWU6czNjcjN0LTQ3MTEtNWU5Yg=="
            ]
            assert ["authorization" in headers for *_, headers in files.asked] == [False]

    def test_a_redirect_elsewhere_loses_them(self, index: Server, start: Start, tmp_path: Path) -> None:
        with served("127.0.0.2") as files:
            files.add(f"/{NAME}", CONTENT)
            index.add(f"/files/{NAME}", Answer(b"", status=302, headers={"Location": f"{files.url}/{NAME}"}))
            proxy = start(Index(f"{index.url}/simple", "Bearer " + PASSWORD), resolve=loopback)
            assert install(proxy, tmp_path, "thing").returncode == 0
            assert ["authorization" in headers for *_, headers in index.asked] == [True, True]
            assert ["authorization" in headers for *_, headers in files.asked] == [False]

    def test_those_in_a_link_are_used_and_not_shown(
        self, index: Server, start: Start, tmp_path: Path
    ) -> None:
        before = f"{index.url.replace('://', f'://me:{PASSWORD}@')}/files/"
        index.add("/simple/thing/", html_page({NAME: CONTENT}, before=before))
        proxy = start(f"{index.url}/simple")
        assert PASSWORD.encode() not in get(proxy, "/simple/thing/")[2]
        assert install(proxy, tmp_path, "thing").returncode == 0
        assert index.asked[-1][2]["authorization"].startswith("Basic ")

    @pytest.mark.parametrize("accept", ["text/html", "application/vnd.pypi.simple.v1+json"])
    def test_an_echo_is_redacted(self, index: Server, start: Start, accept: str) -> None:
        index.add("/simple/thing/", html_page({NAME: CONTENT}, attributes=f'data-yanked="for {PASSWORD}"'))
        proxy = start(Index(f"{index.url}/simple", "Bearer " + PASSWORD))
        status, _, body, _ = get(proxy, "/simple/thing/", Accept=accept)
        assert (status, b"for [REDACTED]" in body, PASSWORD.encode() in body) == (200, True, False)

    def test_what_programs_send_goes_nowhere(self, index: Server, start: Start) -> None:
        proxy = start(f"{index.url}/simple")
        get(proxy, "/simple/thing/?stolen=1", Authorization="Basic x", Cookie="stolen", Referer="stolen")
        [(_, path, headers)] = index.asked
        assert (path, "authorization" in headers, "stolen" in str(headers)) == (
            "/simple/thing/",
            False,
            False,
        )


async def loopback(host: str, port: int) -> list[Address]:
    """Lets what is on loopback pass for public."""
    return await resolve_public(host, port, private=[ip_network("127.0.0.0/8")])


class TestWhatIsRefused:
    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    def test_publishing(self, index: Server, start: Start, method: str) -> None:
        status, reason, *_ = get(start(f"{index.url}/simple"), "/simple/", method)
        assert (status, "nothing can be published" in reason, index.asked) == (405, True, [])

    @pytest.mark.parametrize(
        "path",
        [
            *("/", "/simple/", "/files/", "/files/0/thing/", "/simple/thing/more/", "/simple//"),
            *(
                "/simple/../",
                "/simple/..%2f..%2fetc/",
                "/simple/.hidden/",
                "/simple/th%00ing/",
                "/simple/a%20b/",
            ),
            *(
                f"/files/0/thing/{name}"
                for name in ("other-1.0.zip", "..%2fsecret", "..", NAME + ".metadata")
            ),
            *(f"/files/{number}/thing/{NAME}" for number in ("1", "-1", "x", "9" * 5_000, "00")),
            "/simple/" + "a" * 101 + "/",
        ],
    )
    def test_what_no_index_lists(self, index: Server, start: Start, path: str) -> None:
        assert get(start(f"{index.url}/simple"), path)[0] == 404
        assert set(index.paths()) <= {"/simple/thing/"}

    def test_a_link_to_a_private_address(self, index: Server, start: Start, tmp_path: Path) -> None:
        with served("127.0.0.2") as inner:
            inner.add(f"/{NAME}", CONTENT)
            index.add("/simple/thing/", html_page({NAME: CONTENT}, before=f"{inner.url}/"))
            done = install(start(f"{index.url}/simple"), tmp_path, "thing")
            assert "127.0.0.2 is private: EGRESS_PRIVATE does not list it" in done.stderr
            assert inner.asked == []

    def test_but_not_to_that_of_the_index_itself(self, index: Server, start: Start, tmp_path: Path) -> None:
        """Index and files may have two names, and one private address."""
        port = urlsplit(index.url).port
        page = html_page({NAME: CONTENT}, before=f"http://localhost:{port}/files/")
        index.add("/simple/thing/", page)
        index.add(f"/files/{NAME}", CONTENT)
        done = install(start(f"{index.url}/simple"), tmp_path, "thing")
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("of", ["page", "file"])
    def test_a_redirect_to_a_private_address(
        self, index: Server, start: Start, tmp_path: Path, of: str
    ) -> None:
        with served("127.0.0.2") as inner:
            away = Answer(b"", status=302, headers={"Location": f"{inner.url}/latest/meta-data"})
            index.add("/simple/thing/" if of == "page" else f"/files/{NAME}", away)
            done = install(start(f"{index.url}/simple"), tmp_path, "thing")
            assert "127.0.0.2 is private: EGRESS_PRIVATE does not list it" in done.stderr
            assert inner.asked == []

    def test_a_redirect_to_another_scheme(self, index: Server, start: Start, tmp_path: Path) -> None:
        index.add(f"/files/{NAME}", Answer(b"", status=302, headers={"Location": "file:///etc/passwd"}))
        done = install(start(f"{index.url}/simple"), tmp_path, "thing")
        assert "neither http nor https" in done.stderr

    def test_an_index_in_the_workspace(self, start: Start, tmp_path: Path) -> None:
        (tmp_path / NAME).write_bytes(CONTENT)
        proxy = start(pages=[tmp_path.as_uri()], writable=[tmp_path])
        assert get(proxy, "/simple/thing/")[0] == 404

    def test_everything_where_packages_are_off(self, tmp_path: Path) -> None:
        with through({PIP_HOST: NoPackages(PIP_HOST)}, tmp_path / "log") as proxy:
            done = install(proxy, tmp_path, "thing")
            assert "EGRESS_PACKAGES is 0: ask the person to set EGRESS_PACKAGES=1" in done.stderr
            status, reason, *_ = get(proxy, "/files/0/thing/x.zip")
        assert (status, "EGRESS_PACKAGES is 0" in reason) == (403, True)


class TestFailures:
    """What pip shows to whoever installs."""

    def failure(self, proxy: Proxied, folder: Path) -> str:
        began = time.monotonic()
        done = install(proxy, folder, "thing")
        assert done.returncode != 0
        assert time.monotonic() - began < 30
        return done.stderr

    @pytest.mark.parametrize("status", [401, 403])
    def test_credentials_that_are_wrong(
        self, index: Server, start: Start, tmp_path: Path, status: int
    ) -> None:
        index.add("/simple/thing/", Answer(b"who are you?", status=status))
        said = self.failure(start(f"{index.url}/simple"), tmp_path)
        assert f"{index.url} answers {status}: ask the person to look at the credentials" in said

    def test_one_that_fails(self, index: Server, start: Start, tmp_path: Path) -> None:
        index.add("/simple/thing/", Answer(b"oh no", status=500))
        assert f"{index.url} answers 500" in self.failure(start(f"{index.url}/simple"), tmp_path)

    def test_one_that_is_down(self, start: Start, tmp_path: Path) -> None:
        with served() as server:
            url = server.url
        said = self.failure(start(f"{url}/simple"), tmp_path)
        assert f"{url} does not answer as it should" in said

    def test_one_that_says_nothing(
        self, index: Server, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        over = threading.Event()

        def silence() -> Iterator[bytes]:
            over.wait(20)
            yield b""

        monkeypatch.setattr(outside, "_TIMES", 0.3)
        index.add("/simple/thing/", Answer(silence(), "text/html"))
        said = self.failure(start(f"{index.url}/simple"), tmp_path)
        over.set()
        assert f"{index.url} says nothing more: time is up" in said

    def test_one_that_trickles(
        self, index: Server, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def drops() -> Iterator[bytes]:
            for _ in range(200):
                time.sleep(0.1)
                yield b" "

        monkeypatch.setattr(outside, "_PAGE_SECONDS", 1.0)
        index.add("/simple/thing/", Answer(drops(), "text/html"))
        assert "an index has not answered within 1 s" in self.failure(start(f"{index.url}/simple"), tmp_path)

    def test_a_project_that_there_is_not(self, index: Server, start: Start, tmp_path: Path) -> None:
        proxy = start(f"{index.url}/simple")
        done = install(proxy, tmp_path, "nothing")
        assert "No matching distribution found for nothing" in done.stderr
        status, reason, *_ = get(proxy, "/simple/nothing/")
        assert (status, reason) == (404, "nothing is in none of the indexes that pip on the host is set to")

    def test_something_that_is_no_index(self, index: Server, start: Start, tmp_path: Path) -> None:
        index.add("/simple/thing/", Answer(b"hello", "text/plain"))
        assert "127.0.0.1 answers with text/plain" in self.failure(start(f"{index.url}/simple"), tmp_path)

    def test_a_page_that_is_too_large(
        self, index: Server, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outside, "MOST_PAGE", 2**20)
        index.add("/simple/thing/", Answer(b" " * (2**20 + 1), "text/html"))
        assert "answers with over 1 MiB for a page" in self.failure(start(f"{index.url}/simple"), tmp_path)

    def test_a_file_that_fails(self, index: Server, start: Start, tmp_path: Path) -> None:
        index.add(f"/files/{NAME}", Answer(b"oh no", status=503))
        assert f"{index.url} answers 503" in self.failure(start(f"{index.url}/simple"), tmp_path)

    def test_a_file_that_breaks_off(self, index: Server, start: Start) -> None:
        index.add(f"/files/{NAME}", Answer(CONTENT[:100], headers={"Content-Length": str(len(CONTENT))}))
        proxy = start(f"{index.url}/simple")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            get(proxy, f"/files/0/thing/{NAME}")
        line = last_line(proxy)
        assert line["status"] == 200
        assert str(line["reason"]).startswith(f"{index.url} breaks off: ")

    def test_a_file_that_stops(self, index: Server, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        over = threading.Event()

        def stops() -> Iterator[bytes]:
            yield CONTENT[:100]
            over.wait(20)

        monkeypatch.setattr(outside, "_TIMES", 0.5)
        index.add(f"/files/{NAME}", Answer(stops()))
        proxy = start(f"{index.url}/simple")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            get(proxy, f"/files/0/thing/{NAME}")
        over.set()
        assert last_line(proxy)["reason"] == f"{index.url} says nothing more: time is up"

    def test_one_of_two_is_down(self, index: Server, start: Start, tmp_path: Path) -> None:
        with served() as server:
            url = server.url
        proxy = start(f"{url}/simple", f"{index.url}/simple")
        assert install(proxy, tmp_path, "thing").returncode == 0

    def test_a_redirect_to_itself(self, index: Server, start: Start, tmp_path: Path) -> None:
        index.add("/simple/thing/", Answer(b"", status=302, headers={"Location": "/simple/thing/"}))
        assert "redirects over 10 times" in self.failure(start(f"{index.url}/simple"), tmp_path)

    def test_pip_does_not_say(self, tmp_path: Path) -> None:
        def settings() -> PipSettings:
            raise GatewayError(502, "pip on the host does not say")

        with through(
            {PIP_HOST: PipIndex(settings=settings, resolve=resolve_public, writable=[])}, tmp_path / "log"
        ) as proxy:
            assert "pip on the host does not say" in self.failure(proxy, tmp_path)


class TestLargeFiles:
    def test_come_as_they_are_sent(self, index: Server, start: Start) -> None:
        """What has come of a file is handed on before the rest has come."""
        taken, in_time = threading.Event(), list[bool]()

        def slowly() -> Iterator[bytes]:
            yield b"x" * 100_000
            in_time.append(taken.wait(20))
            yield b"y" * 100_000

        index.add(f"/files/{NAME}", Answer(slowly()))
        connection = http.client.HTTPConnection(
            start(f"{index.url}/simple").url.removeprefix("http://"), timeout=30
        )
        connection.request("GET", f"http://{PIP_HOST}/files/0/thing/{NAME}")
        answer = connection.getresponse()
        assert answer.read(100_000) == b"x" * 100_000
        taken.set()
        assert answer.read() == b"y" * 100_000
        assert in_time == [True]
        connection.close()

    def test_wait_for_whoever_takes_them(self, index: Server, start: Start) -> None:
        """Of a file that nobody takes, no more is fetched than a few buffers hold."""
        sent = [0]

        def flood() -> Iterator[bytes]:
            for _ in range(400):
                yield b"x" * 2**20
                sent[0] += 1

        index.add(f"/files/{NAME}", Answer(flood()))
        connection = http.client.HTTPConnection(
            start(f"{index.url}/simple").url.removeprefix("http://"), timeout=30
        )
        connection.request("GET", f"http://{PIP_HOST}/files/0/thing/{NAME}")
        answer = connection.getresponse()
        time.sleep(1)
        assert sent[0] < 50
        answer.close()
        connection.close()

    def test_more_than_may_be_is_refused_at_once(self, index: Server, start: Start, tmp_path: Path) -> None:
        big = wheel("thing", more=b"x" * 200_000)
        index.add("/simple/thing/", html_page({NAME: big[1]}, before="/files/"))
        index.add(f"/files/{NAME}", big[1])
        done = install(
            start(f"{index.url}/simple", limits=EgressLimits(max_bytes=100_000)), tmp_path, "thing"
        )
        assert "100,000 bytes that EGRESS_MAX_BYTES allows" in done.stderr

    def test_of_unknown_length_are_cut_off(self, index: Server, start: Start) -> None:
        index.add(f"/files/{NAME}", Answer(iter([b"x" * 150_000] * 2)))
        proxy = start(f"{index.url}/simple", limits=EgressLimits(max_bytes=100_000))
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            get(proxy, f"/files/0/thing/{NAME}")

    def test_only_how_large(self, index: Server, start: Start) -> None:
        status, _, body, headers = get(start(f"{index.url}/simple"), f"/files/0/thing/{NAME}", "HEAD")
        assert (status, body, headers["Content-Length"]) == (200, b"", str(len(CONTENT)))


@contextmanager
def with_tls(folder: Path) -> Iterator[tuple[Server, Path]]:
    """An index with a certificate that nobody knows."""
    certificate, key = self_signed(folder, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def wrap(server: object) -> None:
        server.socket = context.wrap_socket(server.socket, server_side=True)  # type: ignore[attr-defined]

    with served(wrap=wrap) as server:
        server.url = server.url.replace("http://127.0.0.1", "https://localhost")
        server.add("/simple/thing/", html_page({NAME: CONTENT}))
        server.add(f"/simple/thing/{NAME}", CONTENT)
        yield server, certificate


class TestTls:
    def test_a_certificate_that_pip_is_set_to_trust(self, start: Start, tmp_path: Path) -> None:
        with with_tls(tmp_path) as (server, certificate):
            done = install(
                start(f"{server.url}/simple", reach=Reach(trusted=(str(certificate),))), tmp_path, "thing"
            )
            assert done.returncode == 0, done.stderr

    def test_one_that_nobody_trusts(self, start: Start, tmp_path: Path) -> None:
        with with_tls(tmp_path) as (server, _):
            done = install(start(f"{server.url}/simple"), tmp_path, "thing")
        assert "CERTIFICATE_VERIFY_FAILED" in done.stderr

    def test_a_name_that_is_reached_by_its_address(self, start: Start, tmp_path: Path) -> None:
        """A host that an index leads to is reached at the address looked at; TLS is with its name."""
        with with_tls(tmp_path) as (files, certificate), served() as first:
            first.add("/simple/thing/", html_page({NAME: CONTENT}, before=f"{files.url}/simple/thing/"))
            reach = Reach(trusted=(str(certificate),))
            done = install(start(f"{first.url}/simple", reach=reach, resolve=to_loopback), tmp_path, "thing")
            assert done.returncode == 0, done.stderr
            assert files.asked[0][2]["host"] == files.url.removeprefix("https://")

    def test_a_file_of_certificates_that_is_not_there(
        self, index: Server, start: Start, tmp_path: Path
    ) -> None:
        done = install(
            start(f"{index.url}/simple", reach=Reach(trusted=("/nowhere.pem",))), tmp_path, "thing"
        )
        assert "is set to trust cannot be read" in done.stderr


async def to_loopback(host: str, port: int) -> list[Address]:
    return [Address("127.0.0.1", port)]


def test_the_proxy_of_the_host(index: Server, start: Start, tmp_path: Path) -> None:
    """Where pip is set to a proxy, the index is reached through it."""
    with served() as proxy:
        proxy.add("http://index.example/simple/thing/", html_page({NAME: CONTENT}))
        proxy.add(f"http://index.example/simple/thing/{NAME}", CONTENT)
        done = install(start("http://index.example/simple", reach=Reach(proxy=proxy.url)), tmp_path, "thing")
        assert done.returncode == 0, done.stderr
