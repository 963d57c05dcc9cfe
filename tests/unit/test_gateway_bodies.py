"""Bodies that virtual hosts send piece by piece."""

from __future__ import annotations

import http.client
import threading
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from package_servers import Proxied, through

from libs.gateway.errors import GatewayError
from libs.gateway.limits import EgressLimits
from libs.gateway.protocol import ServiceRequest, ServiceResponse

PIECE = b"x" * 1000


class Pieces:
    """Four pieces, and what became of them."""

    def __init__(self, length: int | None, *, breaks_off: bool = False) -> None:
        self.length = length
        self.closed = threading.Event()
        self.read = 0
        self._breaks_off = breaks_off

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        for _ in range(4):
            self.read += 1
            yield PIECE
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


def serving(body: Pieces, folder: Path, **limits: int) -> AbstractContextManager[Proxied]:
    async def service(request: ServiceRequest) -> ServiceResponse:
        return ServiceResponse(200, body, reason="a remark")

    return through({"files.gateway": service}, folder / "log", limits=EgressLimits(**limits))


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
