"""pip.gateway with indexes that fail, are slow, send large files, use TLS or stand behind a proxy."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.gateway.package_environment import PIP_HOST
from libs.gateway.packages import index_client as outside
from libs.gateway.packages.host_index_settings import NetworkSettings
from libs.gateway.rules.addresses import Address
from tests.servers.gateway_loopback import authority, server_tls
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
    served,
)


def get(proxy: Proxied, path: str) -> bytes:
    return ask(proxy, PIP_HOST, path)[2]


def error_of(proxy: Proxied, path: str) -> str:
    """Return the texts that pip shows for a failed page (body) or file (reason)."""
    _, reason, body, _ = ask(proxy, PIP_HOST, path)
    return f"{reason} {body.decode()}"


def last_line(proxy: Proxied) -> dict[str, object]:
    """Wait for a line in the log, and return the last."""
    deadline = time.monotonic() + 10
    while not (proxy.log.exists() and proxy.log.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return proxy.lines()[-1]


class TestFailures:
    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (Answer(b"who?", status=401), " answers 401: ask the person to look at the credentials"),
            (Answer(b"oh no", status=500), " answers 500"),
            (Answer(b"hello", "text/plain"), " answers with text/plain"),
            (Answer(b" " * (2**20 + 1), "text/html"), " answers with over 1 MiB for a page"),
            (Answer(b"", status=302, headers={"Location": PAGE}), "Exceeded maximum allowed redirects"),
            (
                Answer(b"", status=302, headers={"Location": "file:///etc/passwd"}),
                "leads to file, which is neither http nor https",
            ),
        ],
        ids=["credentials", "fails", "no index", "too large", "redirects", "redirect to a file"],
    )
    def test_failed_page_is_explained(
        self, index: Server, start: StartProxy, monkeypatch: pytest.MonkeyPatch, answer: Answer, said: str
    ) -> None:
        monkeypatch.setattr(outside, "MOST_PAGE", 2**20)
        index.add(PAGE, answer)
        assert said in error_of(start(f"{index.url}/simple"), PAGE)

    def test_unreachable_index_does_not_hide_the_others(self, index: Server, start: StartProxy) -> None:
        with served() as server:
            url = server.url
        assert f"{url} does not answer as it should" in error_of(start(f"{url}/simple"), PAGE)
        assert NAME.encode() in get(start(f"{url}/simple", f"{index.url}/simple"), PAGE)

    def test_slow_page_is_given_up(
        self, index: Server, start: StartProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        over = threading.Event()

        def drops() -> Iterator[bytes]:
            for _ in range(200):
                over.wait(0.05)
                yield b" "

        monkeypatch.setattr(outside, "_PAGE_SECONDS", 0.5)
        index.add(PAGE, Answer(drops(), "text/html"))
        began = time.monotonic()
        assert "an index has not answered within 0.5 s" in error_of(start(f"{index.url}/simple"), PAGE)
        assert time.monotonic() - began < 5
        over.set()

    @pytest.mark.parametrize("stops", [False, True], ids=["breaks off", "stops"])
    def test_partial_file_is_cut_off_and_logged(
        self, index: Server, start: StartProxy, monkeypatch: pytest.MonkeyPatch, stops: bool
    ) -> None:
        over = threading.Event()

        def begin() -> Iterator[bytes]:
            yield CONTENT[:100]
            over.wait(20)

        monkeypatch.setattr(outside, "_TIMES", 0.3)
        whole = {"Content-Length": str(len(CONTENT))}
        index.add(f"/files/{NAME}", Answer(begin()) if stops else Answer(CONTENT[:100], headers=whole))
        proxy = start(f"{index.url}/simple")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            get(proxy, FILE)
        over.set()
        line = last_line(proxy)
        assert line["status"] == 200
        said = "says nothing more: time is up" if stops else "breaks off: "
        assert str(line["reason"]).startswith(f"{index.url} {said}")


class TestTls:
    @pytest.fixture
    def secure(self, tmp_path: Path) -> Iterator[tuple[Server, NetworkSettings]]:
        """An index with an unknown certificate, and settings of pip that trust the certificate."""
        certificate = tmp_path / "authority.pem"
        authority().cert_pem.write_to_path(str(certificate))
        context = server_tls("localhost")

        def wrap(server: object) -> None:
            server.socket = context.wrap_socket(server.socket, server_side=True)  # type: ignore[attr-defined]

        with served(wrap=wrap) as server:
            server.url = server.url.replace("http://127.0.0.1", "https://localhost")
            server.add(PAGE, html_page({NAME: CONTENT}))
            server.add(f"{PAGE}{NAME}", CONTENT)
            yield server, NetworkSettings(trusted=(str(certificate),))

    def test_certificates_of_pips_settings_are_trusted(
        self, secure: tuple[Server, NetworkSettings], start: StartProxy
    ) -> None:
        server, network = secure
        assert get(start(f"{server.url}/simple", network=network), FILE) == CONTENT
        assert "CERTIFICATE_VERIFY_FAILED" in error_of(start(f"{server.url}/simple"), PAGE)
        gone = start(f"{server.url}/simple", network=NetworkSettings(trusted=("/nowhere.pem",)))
        assert "is set to trust cannot be read" in error_of(gone, PAGE)

    def test_linked_host_is_reached_at_its_checked_address(
        self, secure: tuple[Server, NetworkSettings], index: Server, start: StartProxy
    ) -> None:
        """A linked host is reached at its checked address; TLS verifies its name."""

        async def to_loopback(host: str, port: int) -> list[Address]:
            return [Address("127.0.0.1", port)]

        files, network = secure
        index.add(PAGE, html_page({NAME: CONTENT}, before=f"{files.url}{PAGE}"))
        assert get(start(f"{index.url}/simple", network=network, resolve=to_loopback), FILE) == CONTENT
        assert files.asked[0][2]["host"] == files.url.removeprefix("https://")


def test_proxy_of_pips_settings_is_used(start: StartProxy) -> None:
    with served() as proxy:
        proxy.add(f"http://index.example{PAGE}", html_page({NAME: CONTENT}))
        proxy.add(f"http://index.example{PAGE}{NAME}", CONTENT)
        network = NetworkSettings(proxy=proxy.url)
        assert get(start("http://index.example/simple", network=network), FILE) == CONTENT
