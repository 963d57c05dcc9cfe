"""The answer of a host that was shown a secret: however it repeats it, the secret stays outside (G2)."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.gateway.echo import Echo
from libs.gateway.errors import GatewayError
from libs.gateway.redaction import MARK, SecretFilter

TOKEN = b"ghp_4f9XqT7bZuAb3dEfGh"
KNOWN = SecretFilter({"GITHUB_TOKEN": TOKEN.decode()})


@dataclass
class Got:
    """What a client inside reads."""

    status: int = 0
    reason: bytes = b""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    trailers: dict[bytes, bytes] = field(default_factory=dict)
    before: list[tuple[int, dict[bytes, bytes]]] = field(default_factory=list)
    wire: bytearray = field(default_factory=bytearray)


def passed(pieces: bytes | Iterable[bytes], *, method: str = "GET", version: str = "1.1") -> Got:
    """An answer as it is on the wire, through Echo between two connections of h11, read by a third."""
    outside, inside = h11.Connection(h11.CLIENT), h11.Connection(h11.CLIENT)
    towards = h11.Connection(h11.SERVER)
    request = h11.Request(method=method, target="/", headers=[("Host", "api.example.test")])
    for connection in (outside, inside):
        connection.send(request)
        connection.send(h11.EndOfMessage())
    towards.receive_data(f"{method} / HTTP/{version}\r\nHost: api.example.test\r\n\r\n".encode())
    while not isinstance(towards.next_event(), h11.EndOfMessage):
        pass
    echo = Echo("api.example.test", KNOWN, method.encode())
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
        if isinstance(event, h11.InformationalResponse):
            got.before.append((event.status_code, dict(event.headers)))
        elif isinstance(event, h11.Response):
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


def deflated(body: bytes, window: int = zlib.MAX_WBITS) -> bytes:
    packer = zlib.compressobj(wbits=window)
    return packer.compress(body) + packer.flush()


class TestHead:
    def test_reason_and_headers(self) -> None:
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

    def test_headers_keep_their_case_and_order(self) -> None:
        got = passed(answer(b"", "X-B: 1", "X-a: 2", "X-B: 3"))
        assert got.wire.startswith(b"HTTP/1.1 200 OK\r\nX-B: 1\r\nX-a: 2\r\nX-B: 3\r\n")

    def test_trailers(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        end = b"0\r\nX-Sum: " + TOKEN + b"\r\nX-Plain: 1\r\n\r\n"
        got = passed(head + b"6\r\nhello \r\n" + end)
        assert got.body == b"hello "
        assert got.trailers == {b"x-sum": MARK, b"x-plain": b"1"}

    def test_answers_before_the_answer(self) -> None:
        early = b"HTTP/1.1 103 Early Hints\r\nLink: </" + TOKEN + b">\r\n\r\n"
        got = passed(b"HTTP/1.1 100 Continue\r\n\r\n" + early + answer(b"x"))
        assert got.before == [(100, {}), (103, {b"link": b"</[REDACTED]>"})]
        assert (got.status, got.body) == (200, b"x")

    def test_another_protocol_is_refused(self) -> None:
        event = h11.InformationalResponse(status_code=101, headers=[("Upgrade", "websocket")])
        with pytest.raises(GatewayError, match="changes the protocol"):
            list(Echo("api.example.test", KNOWN, b"GET").feed(event))

    def test_a_client_of_http_1_0_reads_to_the_end(self) -> None:
        got = passed(answer(b"a" + TOKEN + b"b"), version="1.0")
        assert got.body == b"a[REDACTED]b"
        assert b"transfer-encoding" not in got.headers

    def test_a_server_of_http_1_0(self) -> None:
        got = passed([b"HTTP/1.0 200 OK\r\n\r\n", b"a" + TOKEN, b"b"])
        assert got.body == b"a[REDACTED]b"


class TestWithoutBody:
    def test_head_keeps_its_length(self) -> None:
        got = passed(answer(b"", "X-A: " + TOKEN.decode(), length=1234), method="HEAD")
        assert got.headers == {b"content-length": b"1234", b"x-a": MARK}
        assert got.body == b""

    @pytest.mark.parametrize("coding", ["gzip", "br"])
    def test_head_of_what_would_be_decoded(self, coding: str) -> None:
        got = passed(answer(b"", f"Content-Encoding: {coding}", length=1234), method="HEAD")
        assert b"content-encoding" not in got.headers
        assert got.headers.get(b"content-length") != b"1234"

    def test_not_modified(self) -> None:
        got = passed(answer(b"", 'ETag: "x"', "Content-Encoding: br", status="304 Not Modified", length=99))
        assert (got.status, got.headers) == (304, {b"etag": b'"x"'})

    def test_no_content(self) -> None:
        got = passed(answer(b"", status="204 No Content", length=0))
        assert (got.status, got.headers, got.body) == (204, {}, b"")


class TestBody:
    @settings(max_examples=300)
    @given(
        st.lists(
            st.sampled_from([b"", b"a", b"\n", b"ghp_", TOKEN, TOKEN[:9], TOKEN[9:], TOKEN.hex().encode()])
        ),
        st.sampled_from(["", "identity", "gzip", "X-GZip", "deflate", "raw", "members", " gzip , identity"]),
        st.data(),
    )
    def test_however_it_is_encoded_and_cut(
        self, parts: list[bytes], coding: str, data: st.DataObject
    ) -> None:
        body = b"".join(parts)
        header = coding
        if coding == "members":
            sent, header = b"".join(gzip.compress(part) for part in [b"", *parts]), "gzip"
        elif coding == "raw":
            sent, header = deflated(body, -zlib.MAX_WBITS), "deflate"
        elif coding == "deflate":
            sent = deflated(body)
        else:
            sent = gzip.compress(body) if "gzip" in coding.lower() else body
        whole = answer(sent, *([f"Content-Encoding: {header}"] if header else []))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
        got = passed(whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True))
        assert got.body == KNOWN(body)
        assert b"content-encoding" not in got.headers
        assert b"content-length" not in got.headers

    def test_byte_by_byte(self) -> None:
        body = b"before " + TOKEN + b" between " + TOKEN + b" after"
        for whole in (answer(body), answer(gzip.compress(body), "Content-Encoding: gzip")):
            got = passed(whole[at : at + 1] for at in range(len(whole)))
            assert got.body == b"before [REDACTED] between [REDACTED] after"

    def test_in_chunks(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = b"".join(
            b"%x\r\n%s\r\n" % (len(part), part) for part in (TOKEN[:7], TOKEN[7:15], TOKEN[15:])
        )
        assert passed(head + chunks + b"0\r\n\r\n").body == MARK

    def test_what_begins_no_secret_is_passed_on_at_once(self) -> None:
        echo = Echo("api.example.test", KNOWN, b"GET")
        list(echo.feed(h11.Response(status_code=200, headers=[("Content-Type", "text/event-stream")])))
        assert [event.data for event in echo.feed(h11.Data(b"data: 1\n\n"))] == [b"data: 1\n\n"]  # type: ignore[union-attr]
        assert list(echo.feed(h11.Data(b"data: ghp_"))) == [h11.Data(b"data: ")]

    def test_digests_of_what_was_encoded_are_dropped(self) -> None:
        got = passed(
            answer(
                gzip.compress(b"x"),
                "Content-Encoding: gzip",
                "Content-MD5: a",
                "Digest: b",
                "Content-Digest: c",
            )
        )
        assert got.headers == {b"transfer-encoding": b"chunked"}

    def test_bytes_that_are_no_text_stay(self) -> None:
        body = bytes(range(256)) * 1000
        assert passed(answer(body)).body == body
        assert passed(answer(gzip.compress(body), "Content-Encoding: gzip")).body == body

    @pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 131_072, 1_000_000])
    def test_sizes_around_a_piece(self, size: int) -> None:
        body = b"\0" * size
        assert passed(answer(gzip.compress(body), "Content-Encoding: gzip")).body == body
        assert passed(answer(deflated(body), "Content-Encoding: deflate")).body == body

    @pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 140_000])
    def test_what_follows_a_member_that_came_in_pieces(self, size: int) -> None:
        """Where zlib had not read all of its input, and then came to the end of the member in it."""
        body = b"x" * size
        assert passed(answer(gzip.compress(body) * 3, "Content-Encoding: gzip")).body == body * 3
        with pytest.raises(GatewayError, match="is not encoded as gzip"):
            passed(answer(gzip.compress(body) + bytes(36), "Content-Encoding: gzip"))
        with pytest.raises(GatewayError, match="goes on after the end"):
            passed(answer(deflated(body) + bytes(36), "Content-Encoding: deflate"))


class TestWhatCannotBeSearched:
    @pytest.mark.parametrize(
        "coding", ["br", "zstd", "compress", "gzip, gzip", "aws-chunked", "gzip;q=1", "ü" * 200]
    )
    def test_other_codings_are_refused_before_anything_is_sent(self, coding: str) -> None:
        with pytest.raises(
            GatewayError, match=r"^api\.example\.test: the answer is encoded as .*, which was"
        ) as caught:
            passed(answer(b"x", f"Content-Encoding: {coding}"))
        assert caught.value.status == 502
        assert str(caught.value).isascii()
        assert len(str(caught.value)) < 250

    @pytest.mark.parametrize(
        ("coding", "body", "message"),
        [
            ("gzip", b"this is not gzip at all", "is not encoded as gzip"),
            ("gzip", gzip.compress(b"x") + b"garbage", "is not encoded as gzip"),
            ("gzip", gzip.compress(b"x" * 100)[:-1], "breaks off"),
            ("gzip", b"\x1f", "breaks off"),
            ("deflate", b"\xff" * 10, "is not encoded as deflate"),
            ("deflate", b"x", "breaks off"),
            ("deflate", deflated(b"x") + b"more", "goes on after the end"),
            ("deflate", deflated(b"x" * 100)[:-1], "breaks off"),
        ],
    )
    def test_what_is_not_what_it_says(self, coding: str, body: bytes, message: str) -> None:
        with pytest.raises(GatewayError, match=message):
            passed(answer(body, f"Content-Encoding: {coding}"))

    @settings(max_examples=300)
    @given(
        st.lists(st.sampled_from([b"a", TOKEN, TOKEN[:9], b"x" * 65_514, b"y" * 70_000]), max_size=5),
        st.sampled_from(
            [("gzip", zlib.MAX_WBITS | 16), ("deflate", zlib.MAX_WBITS), ("deflate", -zlib.MAX_WBITS)]
        ),
        st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=3),
        st.binary(max_size=40) | st.just(bytes(36)),
        st.integers(1, 5),
    )
    def test_whatever_is_wrong_with_it_it_ends(
        self,
        parts: list[bytes],
        coding: tuple[str, int],
        wrong: list[tuple[float, int]],
        after: bytes,
        cuts: int,
    ) -> None:
        sent = bytearray(deflated(b"".join(parts), coding[1]) * 2)
        for place, byte in wrong:
            sent[int(place * len(sent))] = byte
        sent += after
        echo = Echo("api.example.test", KNOWN, b"GET")
        list(echo.feed(h11.Response(status_code=200, headers=[("Content-Encoding", coding[0])])))
        came = bytearray()
        step = len(sent) // cuts + 1
        with suppress(GatewayError):
            for at in range(0, len(sent), step):
                for shown in echo.feed(h11.Data(bytes(sent[at : at + step]))):
                    assert isinstance(shown, h11.Data)
                    came += shown.data
        assert TOKEN not in came

    def test_an_empty_body_needs_no_coding(self) -> None:
        assert passed(answer(b"", "Content-Encoding: gzip")).body == b""

    @pytest.mark.parametrize("window", [zlib.MAX_WBITS | 16, zlib.MAX_WBITS])
    def test_a_bomb_ends_and_never_is_in_memory(self, window: int) -> None:
        bomb = deflated(bytes(64 << 20), window)
        assert len(bomb) < 100_000
        coding = "deflate" if window == zlib.MAX_WBITS else "gzip"
        echo = Echo("api.example.test", KNOWN, b"GET")
        list(echo.feed(h11.Response(status_code=200, headers=[("Content-Encoding", coding)])))
        came = 0
        tracemalloc.start()
        try:
            with pytest.raises(GatewayError, match="more than 100 times"):
                for shown in echo.feed(h11.Data(bomb)):
                    assert isinstance(shown, h11.Data)
                    assert len(shown.data) <= 65_536
                    came += len(shown.data)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()
        assert 10 << 20 < came < 20 << 20

    def test_a_bomb_of_many_members_ends_too(self) -> None:
        member = gzip.compress(bytes(1 << 20))
        echo = Echo("api.example.test", KNOWN, b"GET")
        list(echo.feed(h11.Response(status_code=200, headers=[("Content-Encoding", "gzip")])))
        with pytest.raises(GatewayError, match="more than 100 times"):
            for _ in range(64):
                for _ in echo.feed(h11.Data(member)):
                    pass

    def test_a_large_answer_that_is_no_bomb(self) -> None:
        body = b"0123456789abcdef" * (2 << 20)
        sent = gzip.compress(body[: 20 << 20], 0) + gzip.compress(body[20 << 20 :], 9)
        echo = Echo("api.example.test", KNOWN, b"GET")
        list(echo.feed(h11.Response(status_code=200, headers=[("Content-Encoding", "gzip")])))
        came = b"".join(shown.data for shown in echo.feed(h11.Data(sent)) if isinstance(shown, h11.Data))
        assert came == body
        list(echo.feed(h11.EndOfMessage()))
