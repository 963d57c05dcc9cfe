"""Which server a TLS client asks for: real hellos, and whatever else may come."""

from __future__ import annotations

import contextlib
import ssl
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.gateway.client_hello import MOST_HELLO, NoClientHello, read_client_hello


@cache
def real_hello(host: str | None, *, newest: bool = True) -> bytes:
    """What Python's TLS sends first."""
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
    hello = read_client_hello(data)
    assert hello is not None
    return hello.server_name


@pytest.mark.parametrize("newest", [True, False])
def test_real_hellos(newest: bool) -> None:
    assert name_in(real_hello("example.com", newest=newest)) == "example.com"
    assert name_in(real_hello("WWW.Example.com", newest=newest)) == "WWW.Example.com"
    assert name_in(real_hello(None, newest=newest)) is None
    assert name_in(real_hello("127.0.0.1", newest=newest)) is None


@given(st.data())
def test_more_is_asked_for_until_it_is_whole(data: st.DataObject) -> None:
    whole = real_hello("example.com")
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert read_client_hello(whole[:cut]) is None
    assert name_in(whole + whole[:cut]) == "example.com"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100])
def test_a_hello_in_many_records(size: int) -> None:
    whole = records(real_hello("example.com")[5:], size)
    assert name_in(whole) == "example.com"
    assert read_client_hello(whole[:-1]) is None


def test_what_may_be_left_out() -> None:
    assert name_in(records(message(bare=True))) is None
    assert name_in(records(message())) is None
    assert name_in(records(message(b"\0\x10" + vector(2, b"x"), server_name(b"a.example")))) == "a.example"


def encrypted_client_hello(public: bytes) -> bytes:
    """A hello with another one in it that only a server of `public` can read (RFC 9849, 5)."""
    outer = b"\0" + b"\0\1\0\1" + b"\7" + vector(2, bytes(32)) + vector(2, bytes(200))
    return records(message(server_name(public), b"\xfe\x0d" + vector(2, outer)))


def test_one_with_another_in_it_counts_by_what_can_be_read() -> None:
    """Browsers send such an extension whether there is one in it or not: it cannot be refused."""
    assert name_in(encrypted_client_hello(b"front.example")) == "front.example"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "not TLS"),
        (b"SSH-2.0-x\r\n", "not TLS"),
        (b"\x80\x2e\x01\x03\x01", "not TLS"),
        (b"\x16\x02\x00\x00\x10", "not TLS"),
        (b"\x15\x03\x01\x00\x02\x01\x00", "not TLS"),
        (b"\x17\x03\x03\x00\x02ab", "not TLS"),
        (b"\x16\x03\x01\x00\x00", "record"),
        (b"\x16\x03\x01\x40\x01", "record"),
        (records(b"\2" + vector(3, bytes(40))), "no ClientHello"),
        (b"\x16\x03\x01\x02\x00\x02", "no ClientHello"),
        (b"\x16\x03\x01\x02\x00\x01\x02\x00\x00", "bytes"),
        (records(message() + b"x"), "follows"),
        (records(message(version=b"\2\0")), "version"),
        (records(message(after=b"x")), "before"),
        (records(message(server_name(b"a.example"), server_name(b"a.example"))), "twice"),
        (records(message(b"\0\x17\0\0", b"\0\x17\0\0")), "twice"),
        (records(message(server_name(b"a.example", b"b.example"))), "other than one"),
        (records(message(server_name(b"a.example", kind=1))), "other than one"),
        (records(message(server_name())), "past"),
        (records(message(server_name(b""))), "no host"),
        (records(message(server_name(b"a\0.example"))), "no host"),
        (records(message(server_name(b"\xc3\xa4.example"))), "no host"),
        (records(message(b"\0\0" + vector(2, b"\0\x09\0\0\x05abc"))), "past"),
        (records(message(b"\0\0\0\x09abc")), "past"),
        (records(b"\1" + vector(3, b"\3\3" + bytes(10))), "past"),
    ],
)
def test_what_is_no_hello(data: bytes, why: str) -> None:
    with pytest.raises(NoClientHello, match=why):
        read_client_hello(data)


def test_a_hello_has_an_end() -> None:
    with pytest.raises(NoClientHello, match="65,536"):
        read_client_hello(
            records(message(b"\0\x15" + vector(2, bytes(65_500)), b"\0\x16" + vector(2, bytes(5))))
        )
    # Tiny records hold little, and count whole.
    with pytest.raises(NoClientHello, match="65,536"):
        read_client_hello(records(b"\1" + vector(3, bytes(60_000)), 1)[: MOST_HELLO + 1])


@given(st.binary(max_size=600))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(NoClientHello):
        read_client_hello(data)


@given(st.integers(0, 10_000), st.integers(0, 255), st.booleans())
def test_any_byte_changed(at: int, value: int, newest: bool) -> None:
    hello = bytearray(real_hello("example.com", newest=newest))
    hello[at % len(hello)] = value
    with contextlib.suppress(NoClientHello):
        read_client_hello(bytes(hello))
