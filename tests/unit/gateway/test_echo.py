"""Answers of a host with a credential: the secret is removed in every form, or the answer is refused."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.redacted_answer import AnswerFilter
from libs.redaction import MARK, SecretFilter

TOKEN = b"ghp_4f9XqT7bZuAb3dEfGh"
KNOWN = SecretFilter({"GITHUB_TOKEN": TOKEN.decode()})


@dataclass
class Got:
    """The answer as a client in the sandbox reads it."""

    status: int = 0
    reason: bytes = b""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    trailers: dict[bytes, bytes] = field(default_factory=dict)
    wire: bytearray = field(default_factory=bytearray)


def passed(pieces: bytes | Iterable[bytes], *, method: str = "GET") -> Got:
    """Pass the bytes of an answer through the filter, and parse the result."""
    outside, inside = h11.Connection(h11.CLIENT), h11.Connection(h11.CLIENT)
    towards = h11.Connection(h11.SERVER)
    request = h11.Request(method=method, target="/", headers=[("Host", "api.example.test")])
    for connection in (outside, inside):
        connection.send(request)
        connection.send(h11.EndOfMessage())
    towards.receive_data(f"{method} / HTTP/1.1\r\nHost: api.example.test\r\n\r\n".encode())
    while not isinstance(towards.next_event(), h11.EndOfMessage):
        pass
    echo = AnswerFilter("api.example.test", KNOWN, method.encode())
    got = Got()
    for piece in [*filter(None, [pieces] if isinstance(pieces, bytes) else pieces), b""]:
        outside.receive_data(piece)
        while True:
            event = outside.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                break
            assert isinstance(event, h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage)
            for shown in echo.feed(event):
                got.wire += towards.send(shown) or b""
    inside.receive_data(bytes(got.wire))
    inside.receive_data(b"")
    while not isinstance(event := inside.next_event(), h11.ConnectionClosed) and event is not h11.PAUSED:
        if isinstance(event, h11.Response):
            got.status, got.reason, got.headers = event.status_code, event.reason, dict(event.headers)
        elif isinstance(event, h11.Data):
            got.body += event.data
        elif isinstance(event, h11.EndOfMessage):
            got.trailers = dict(event.headers)
            break
    assert TOKEN not in got.wire
    return got


def answer(body: bytes = b"", *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def decoded(coding: str, *bodies: bytes) -> Iterator[bytes]:
    """Yield the filtered pieces of an encoded body."""
    echo = AnswerFilter("api.example.test", KNOWN, b"GET")
    list(echo.feed(h11.Response(status_code=200, headers=[("Content-Encoding", coding)])))
    for body in bodies:
        for event in echo.feed(h11.Data(body)):
            assert isinstance(event, h11.Data)
            yield event.data


class TestHead:
    def test_secret_is_removed_from_reason_and_headers(self) -> None:
        token = TOKEN.decode()
        got = passed(
            answer(
                b"hello",
                f"X-Auth: Bearer {token}",
                f"Location: https://other.test/?t={token}&u=1",
                f"Set-Cookie: t={token}; Secure",
                "X-Encoded: Z2hwXzRmOVhxVDdiWnVBYjNkRWZHaA==",
                f"X-{token}: 1",
                "ETag: abc",
                status=f"200 Hello {token}",
            )
        )
        assert (got.status, got.reason) == (200, b"Hello [REDACTED]")
        assert got.headers == {
            b"x-auth": b"Bearer [REDACTED]",
            b"location": b"https://other.test/?t=[REDACTED]&u=1",
            b"set-cookie": b"t=[REDACTED]; Secure",
            b"x-encoded": b"[REDACTED]A==",
            b"etag": b"abc",
            b"transfer-encoding": b"chunked",
        }
        assert got.body == b"hello"

    def test_trailers(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        end = b"0\r\nX-Sum: " + TOKEN + b"\r\nX-Plain: 1\r\n\r\n"
        got = passed(head + b"6\r\nhello \r\n" + end)
        assert got.body == b"hello "
        assert got.trailers == {b"x-sum": MARK, b"x-plain": b"1"}

    def test_protocol_upgrade_is_refused(self) -> None:
        event = h11.InformationalResponse(status_code=101, headers=[("Upgrade", "websocket")])
        with pytest.raises(GatewayError, match="changes the protocol"):
            list(AnswerFilter("api.example.test", KNOWN, b"GET").feed(event))


def test_answers_without_a_body() -> None:
    """Only a length that is still true is kept."""
    got = passed(answer(b"", "X-A: " + TOKEN.decode(), length=1234), method="HEAD")
    assert got.headers == {b"content-length": b"1234", b"x-a": MARK}
    got = passed(answer(b"", "Content-Encoding: br", length=1234), method="HEAD")
    assert b"content-encoding" not in got.headers
    assert got.headers.get(b"content-length") != b"1234"
    got = passed(answer(b"", 'ETag: "x"', "Content-Encoding: br", status="304 Not Modified", length=99))
    assert (got.status, got.headers) == (304, {b"etag": b'"x"'})
    got = passed(answer(b"", status="204 No Content", length=0))
    assert (got.status, got.headers, got.body) == (204, {}, b"")


class TestBody:
    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.sampled_from([b"", b"a", b"\n", b"ghp_", TOKEN, TOKEN[:9], TOKEN[9:], TOKEN.hex().encode()])
        ),
        st.sampled_from(["", "identity", "gzip", "X-GZip", "deflate", "members", " gzip , identity"]),
        st.data(),
    )
    def test_secret_is_removed_however_the_body_is_encoded_and_cut(
        self, parts: list[bytes], coding: str, data: st.DataObject
    ) -> None:
        body = sent = b"".join(parts)
        if coding == "members":
            sent, coding = b"".join(gzip.compress(part) for part in [b"", *parts]), "gzip"
        elif coding == "deflate":
            sent = zlib.compress(body)
        elif "gzip" in coding.lower():
            sent = gzip.compress(body)
        whole = answer(sent, *([f"Content-Encoding: {coding}"] if coding else []))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
        got = passed(whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True))
        assert got.body == KNOWN(body)
        assert b"content-encoding" not in got.headers
        assert b"content-length" not in got.headers

    def test_text_that_begins_no_secret_is_not_held_back(self) -> None:
        echo = AnswerFilter("api.example.test", KNOWN, b"GET")
        list(echo.feed(h11.Response(status_code=200, headers=[("Content-Type", "text/event-stream")])))
        assert [event.data for event in echo.feed(h11.Data(b"data: 1\n\n"))] == [b"data: 1\n\n"]  # type: ignore[union-attr]
        assert list(echo.feed(h11.Data(b"data: ghp_"))) == [h11.Data(b"data: ")]

    @pytest.mark.parametrize("size", [65_536, 140_000])
    def test_bodies_around_the_piece_size(self, size: int) -> None:
        body = (bytes(range(256)) * 1000)[:size]
        assert passed(answer(body)).body == body
        assert passed(answer(zlib.compress(body), "Content-Encoding: deflate")).body == body
        assert passed(answer(gzip.compress(body) * 3, "Content-Encoding: gzip")).body == body * 3
        with pytest.raises(GatewayError, match="is not encoded as gzip"):
            passed(answer(gzip.compress(body) + bytes(36), "Content-Encoding: gzip"))


class TestRefused:
    @pytest.mark.parametrize("coding", ["br", "gzip, gzip", "ü" * 200])
    def test_unknown_coding_is_refused_before_the_head_is_sent(self, coding: str) -> None:
        with pytest.raises(
            GatewayError, match=r"^api\.example\.test: the answer is encoded as .*, which was"
        ) as caught:
            passed(answer(b"x", f"Content-Encoding: {coding}"))
        assert caught.value.status == 502
        assert str(caught.value).isascii()
        assert len(str(caught.value)) < 250

    def test_invalid_encoding_is_refused(self) -> None:
        for body, message in (
            (gzip.compress(b"x") + b"garbage", "is not encoded as gzip"),
            (gzip.compress(b"x" * 100)[:-1], "breaks off"),
        ):
            with pytest.raises(GatewayError, match=message):
                passed(answer(body, "Content-Encoding: gzip"))

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 255)), max_size=3), st.binary(max_size=40))
    def test_damaged_body_never_shows_the_secret(self, damage: list[tuple[int, int]], after: bytes) -> None:
        sent = bytearray(gzip.compress(b"x" * 70_000 + TOKEN) * 2)
        for place, byte in damage:
            sent[place % len(sent)] = byte
        came = bytearray()
        with suppress(GatewayError):
            for piece in decoded("gzip", bytes(sent), after):
                came += piece
        assert TOKEN not in came

    def test_decompression_bomb_is_cut_off_in_little_memory(self) -> None:
        bomb = gzip.compress(bytes(32 << 20))
        came = 0
        tracemalloc.start()
        try:
            with pytest.raises(GatewayError, match="more than 100 times"):
                for piece in decoded("gzip", bomb):
                    assert len(piece) <= 65_536
                    came += len(piece)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()
        assert 10 << 20 < came < 20 << 20
        with pytest.raises(GatewayError, match="more than 100 times"):
            list(decoded("gzip", *[gzip.compress(bytes(1 << 20))] * 64))
