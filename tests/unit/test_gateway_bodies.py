"""Bodies that virtual hosts send piece by piece."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from package_servers import Proxied, through

from libs.gateway.errors import GatewayError
from libs.gateway.limits import EgressLimits, Timeouts
from libs.gateway.protocol import ServiceRequest, ServiceResponse

PIECE = b"x" * 1000


class Pieces:
    """Four pieces, and what became of them."""

    def __init__(self, length: int | None, *, breaks_off: bool = False, pause: float = 0) -> None:
        self.length = length
        self.closed = threading.Event()
        self.read = 0
        self._breaks_off = breaks_off
        self._pause = pause

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        for _ in range(4):
            self.read += 1
            yield PIECE
            await asyncio.sleep(self._pause)
            if self._breaks_off:
                raise GatewayError(502, "the rest is gone")

    async def aclose(self) -> None:
        self.closed.set()


def get(proxy: Proxied, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, "http://files.gateway/")
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def serving(
    body: Pieces, folder: Path, *, idle: float = 300, **limits: int
) -> AbstractContextManager[Proxied]:
    async def service(request: ServiceRequest) -> ServiceResponse:
        return ServiceResponse(200, body, reason="a remark")

    return through(
        {"files.gateway": service},
        folder / "log",
        limits=EgressLimits(**limits),
        timeouts=Timeouts(idle=idle),
    )


@pytest.mark.parametrize("length", [4000, None])
def test_whole(tmp_path: Path, length: int | None) -> None:
    body = Pieces(length)
    with serving(body, tmp_path) as proxy:
        answer, content = get(proxy)
    assert content == PIECE * 4
    assert answer.getheader("Content-Length") == (str(length) if length else None)
    assert body.closed.is_set()
    [line] = proxy.lines()
    assert (line["status"], line["bytes_in"], line["decision"], line["reason"]) == (
        200,
        4000,
        "allowed",
        "a remark",
    )


def test_none_of_it_where_only_the_head_is_asked_for(tmp_path: Path) -> None:
    body = Pieces(4000)
    with serving(body, tmp_path) as proxy:
        answer, content = get(proxy, "HEAD")
    assert (answer.getheader("Content-Length"), content, body.read) == ("4000", b"", 0)
    assert body.closed.is_set()


@pytest.mark.parametrize("length", [4000, None])
def test_one_that_breaks_off_is_seen_to(tmp_path: Path, length: int | None) -> None:
    body = Pieces(length, breaks_off=True)
    with serving(body, tmp_path) as proxy, pytest.raises((http.client.IncompleteRead, ConnectionError)):
        get(proxy)
    assert body.closed.is_set()
    [line] = proxy.lines()
    assert (line["status"], line["reason"]) == (200, "the rest is gone")


def test_one_that_stops_is_given_up(tmp_path: Path) -> None:
    body = Pieces(4000, pause=30)
    began = time.monotonic()
    with (
        serving(body, tmp_path, idle=0.3) as proxy,
        pytest.raises((http.client.IncompleteRead, ConnectionError)),
    ):
        get(proxy)
    assert time.monotonic() - began < 10
    assert body.closed.is_set()
    [line] = proxy.lines()
    assert line["reason"] == "files.gateway is given up: nothing has moved for 0.3 s"


def test_one_that_is_slow_is_not(tmp_path: Path) -> None:
    with serving(Pieces(4000, pause=0.2), tmp_path, idle=0.6) as proxy:
        assert get(proxy)[1] == PIECE * 4


def test_a_program_that_takes_none_of_it_is_given_up(tmp_path: Path) -> None:
    class Flood(Pieces):
        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            for _ in range(1_000):
                yield bytes(100_000)

    body = Flood(None)
    with serving(body, tmp_path, idle=0.3) as proxy:
        host, _, port = proxy.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as program:
            program.sendall(b"GET http://files.gateway/ HTTP/1.1\r\nHost: x\r\n\r\n")
            assert body.closed.wait(10)
    [line] = proxy.lines()
    assert line["reason"] == "files.gateway is given up: nothing has moved for 0.3 s"


def test_a_body_of_a_program_that_never_comes_is_given_up(tmp_path: Path) -> None:
    with serving(Pieces(4000), tmp_path, idle=0.3) as proxy:
        connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=10)
        connection.request("POST", "http://files.gateway/", headers={"Content-Length": "100"})
        answer = connection.getresponse()
        assert (answer.status, answer.reason) == (
            504,
            "files.gateway is given up: nothing has moved for 0.3 s",
        )
        connection.close()


def test_a_body_that_fails_is_written_down(tmp_path: Path) -> None:
    class Broken(Pieces):
        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            yield PIECE
            raise ZeroDivisionError

    body = Broken(4000)
    with serving(body, tmp_path) as proxy, pytest.raises((http.client.IncompleteRead, ConnectionError)):
        get(proxy)
    assert body.closed.is_set()
    [line] = proxy.lines()
    assert line["reason"] == "the gateway failed: the log of the application says why"


def test_more_than_may_be(tmp_path: Path) -> None:
    body = Pieces(4000)
    with serving(body, tmp_path, max_bytes=3999) as proxy:
        answer, _ = get(proxy)
    assert answer.status == 413
    assert "EGRESS_MAX_BYTES" in answer.reason
    assert (body.read, body.closed.is_set()) == (0, True)


def test_more_than_may_be_that_was_not_known(tmp_path: Path) -> None:
    body = Pieces(None)
    with (
        serving(body, tmp_path, max_bytes=2500) as proxy,
        pytest.raises((http.client.IncompleteRead, ConnectionError)),
    ):
        get(proxy)
    assert (body.read, body.closed.is_set()) == (3, True)


def test_a_service_refuses_in_its_own_words(tmp_path: Path) -> None:
    async def service(request: ServiceRequest) -> ServiceResponse:
        raise GatewayError(405, "files.gateway takes nothing")

    with through({"files.gateway": service}, tmp_path / "log") as proxy:
        answer, content = get(proxy)
    assert (answer.status, answer.reason, content) == (
        405,
        "files.gateway takes nothing",
        b"files.gateway takes nothing\n",
    )
    [line] = proxy.lines()
    assert (line["decision"], line["reason"]) == ("refused", "files.gateway takes nothing")
