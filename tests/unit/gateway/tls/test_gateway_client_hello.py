"""The server name in a ClientHello: real ones, invalid ones and random bytes."""

from __future__ import annotations

import contextlib
import ssl
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.gateway.tls.client_hello import MOST_HELLO, ClientHello, HelloReader, NoClientHello


@cache
def real_hello(host: str | None, *, newest: bool = True) -> bytes:
    """Return the ClientHello of Python's TLS."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.set_alpn_protocols(["h2", "http/1.1"])
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=host)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


def vector(size: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return len(content).to_bytes(size, "big") + content


def server_name(*names: bytes, kind: int = 0) -> bytes:
    return b"\0\0" + vector(2, vector(2, *(bytes([kind]) + vector(2, name) for name in names)))


def message(*extensions: bytes, version: bytes = b"\3\3", bare: bool = False, after: bytes = b"") -> bytes:
    body = version + bytes(32) + vector(1, bytes(32)) + vector(2, b"\x13\x01") + vector(1, b"\0")
    return b"\1" + vector(3, body, b"" if bare else vector(2, *extensions), after)


def records(content: bytes, size: int = 2**14) -> bytes:
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(b"\x16\3\1" + vector(2, piece) for piece in pieces)


def name_in(data: bytes) -> str | None:
    hello = HelloReader().feed(data)
    assert hello is not None
    return hello.server_name


@pytest.mark.parametrize("newest", [True, False])
def test_real_client_hellos(newest: bool) -> None:
    assert name_in(real_hello("WWW.Example.com", newest=newest)) == "WWW.Example.com"
    assert name_in(real_hello(None, newest=newest)) is None
    assert name_in(real_hello("127.0.0.1", newest=newest)) is None
    assert name_in(records(message(bare=True))) is None


@pytest.mark.parametrize("size", [1, 4, 100])
def test_hello_in_many_records(size: int) -> None:
    whole = records(real_hello("example.com")[5:], size)
    assert name_in(whole) == "example.com"
    reader = HelloReader()
    assert [reader.feed(whole[at : at + 1]) for at in range(len(whole) - 1)] == [None] * (len(whole) - 1)
    assert reader.feed(whole[-1:]) == ClientHello("example.com")


def encrypted_client_hello(public: bytes) -> bytes:
    """Return a ClientHello with an encrypted inner one (RFC 9849, 5)."""
    outer = b"\0" + b"\0\1\0\1" + b"\7" + vector(2, bytes(32)) + vector(2, bytes(200))
    return records(message(server_name(public), b"\xfe\x0d" + vector(2, outer)))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x80\x2e\1\3\1" + bytes(60),  # the hello of SSL 2
        b"\x16\x02\x00\x00\x10",
        records(b"\2" + vector(3, bytes(40))),
        records(message(version=b"\2\0")),
        records(message(after=b"x")),
        records(message(server_name(b"a.example"), server_name(b"a.example"))),
        records(message(server_name(b"a.example", b"b.example"))),
        records(message(server_name(b"a.example", kind=1))),
        records(message(server_name())),
        records(message(server_name(b"a\0.example"))),
        records(message(b"\0\0" + vector(2, b"\0\x09\0\0\x05abc"))),
    ],
)
def test_invalid_hellos_are_refused(data: bytes) -> None:
    with pytest.raises(NoClientHello):
        HelloReader().feed(data)


def test_hello_is_at_most_64_kib() -> None:
    """Also in small records, whose headers count."""
    for hello in (b"\1" + vector(3, bytes(70_000)), b"\1" + vector(3, bytes(60_000))):
        with pytest.raises(NoClientHello, match="65,536"):
            HelloReader().feed(records(hello, 1 if len(hello) < 65_000 else 2**14)[: MOST_HELLO + 1])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=600) | st.tuples(st.integers(0, 10_000), st.integers(0, 127)))
def test_random_bytes_never_raise_another_error(data: bytes | tuple[int, int]) -> None:
    if isinstance(data, tuple):
        at, value = data
        hello = bytearray(real_hello("example.com"))
        hello[at % len(hello)] = value
        data = bytes(hello)
    with contextlib.suppress(NoClientHello):
        HelloReader().feed(data)
