"""What EGRESS_ALLOW allows, and what of it is refused from the start."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.gateway.rules import Rule, Rules, authority, normal_host

LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
TOP = st.from_regex(r"[a-z][a-z]{1,8}", fullmatch=True)
NAME = st.builds(lambda labels, top: ".".join([*labels, top]), st.lists(LABEL, max_size=4), TOP)


def allows(entry: str, scheme: str, host: str, port: int) -> bool:
    return Rules.parse([entry]).check(scheme, host, port) is None


@pytest.mark.parametrize(
    ("entry", "scheme", "host", "port"),
    [
        ("example.com", "https", "example.com", 443),
        ("example.com", "http", "example.com", 80),
        ("EXAMPLE.com.", "https", "Example.COM", 443),
        ("https://example.com", "https", "example.com", 443),
        ("HTTPS://example.com:8443", "https", "example.com", 8443),
        ("example.com:8080", "http", "example.com", 8080),
        ("example.com:8080", "https", "example.com", 8080),
        ("*.example.com", "https", "www.example.com", 443),
        ("*.example.com", "https", "a.b.c.example.com", 443),
        ("*.b.internal", "http", "a.b.internal", 80),
        ("bücher.example", "https", "xn--bcher-kva.example", 443),
        ("BÜCHER.example", "https", "xn--bcher-kva.example", 443),
        ("ｅｘａｍｐｌｅ。com", "https", "example.com", 443),
        ("my_host.example.com", "http", "my_host.example.com", 80),
        ("192.0.2.7", "https", "192.0.2.7", 443),
        ("[2001:db8::1]", "https", "[2001:DB8:0::1]", 443),
        ("http://[2001:db8::1]:81", "http", "[2001:db8::1]", 81),
        ("127.0.0.1", "https", "[::ffff:127.0.0.1]", 443),
        ("localhost:8000", "http", "localhost", 8000),
    ],
)
def test_allowed(entry: str, scheme: str, host: str, port: int) -> None:
    assert allows(entry, scheme, host, port)


@pytest.mark.parametrize(
    ("entry", "scheme", "host", "port"),
    [
        ("example.com", "https", "www.example.com", 443),
        ("example.com", "https", "example.com.evil.org", 443),
        ("example.com", "https", "evilexample.com", 443),
        ("example.com", "http", "example.com", 443),
        ("example.com", "https", "example.com", 80),
        ("example.com", "https", "example.com", 22),
        ("https://example.com", "http", "example.com", 80),
        ("http://example.com", "https", "example.com", 443),
        ("https://example.com:8443", "https", "example.com", 443),
        ("https://example.com:8443", "http", "example.com", 8443),
        ("*.example.com", "https", "example.com", 443),
        ("*.example.com", "https", "badexample.com", 443),
        ("*.example.com", "https", "www.example.com.evil.org", 443),
        ("192.0.2.7", "https", "192.0.2.70", 443),
        ("127.0.0.1", "https", "localhost", 443),
    ],
)
def test_not_allowed(entry: str, scheme: str, host: str, port: int) -> None:
    assert not allows(entry, scheme, host, port)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("", "empty"),
        ("*", "every host"),
        ("*.", "empty"),
        ("*.com", "too wide"),
        ("*.co.uk", "too wide"),
        ("*.github.io", "too wide"),
        ("*.ck", "too wide"),
        ("*.internal", "too wide"),
        ("*.xn--p1ai", "too wide"),
        ("*.рф", "too wide"),
        ("a.*.b.example", "beginning"),
        ("**.example.com", "beginning"),
        ("*example.com", "beginning"),
        ("*.*.example.com", "beginning"),
        ("*.10.0.0.1", "below"),
        ("*.[2001:db8::1]", "IPv6|below|host"),
        ("https://example.com/", "without"),
        ("example.com/path", "without"),
        ("example.com?q", "without"),
        ("example.com#f", "without"),
        ("user@example.com", "without"),
        ("https://user:pw@example.com", "port|without"),
        ("exam ple.com", "without"),
        ("example.com\\x", "without"),
        ("exa\x00mple.com", "without"),
        ("exa%6dple.com", "without"),
        ("ftp://example.com", "scheme"),
        ("://example.com", "scheme"),
        ("example.com:0", "port"),
        ("example.com:65536", "port"),
        ("example.com:080", "port"),
        ("example.com:+80", "port"),
        ("example.com:", "port"),
        ("example.com:http", "port"),
        ("example.com:８０", "port"),
        ("a..example.com", "name"),
        (".example.com", "name"),
        ("example.com..", "dot"),
        ("-a.example.com", "name"),
        ("a-.example.com", "name"),
        ("a" * 64 + ".com", "name"),
        (".".join(["a" * 60] * 5), "253"),
        ("127.1", "IPv4"),
        ("0x7f.1", "IPv4"),
        ("0177.0.0.1", "IPv4"),
        ("2130706433", "IPv4"),
        ("0x7f000001", "IPv4"),
        ("1.2.3.256", "IPv4"),
        ("1.2.3.4.5", "IPv4"),
        ("１２７.0.0.1.", "-"),
        ("2001:db8::1", "brackets"),
        ("[2001:db8:0::1]", "write the address as"),
        ("[::ffff:127.0.0.1]", "write the address as 127.0.0.1"),
        ("[fe80::1%eth0]", "without"),
        ("[example.com]", "IPv6"),
        ("[::1", "port"),
        ("☃\u200d.com", "no host"),
    ],
)
def test_entries_that_are_refused(entry: str, why: str) -> None:
    if entry.startswith("１"):  # compatibility digits are mapped, and this is then a plain address
        assert Rule.parse(entry).host == "127.0.0.1"
        return
    with pytest.raises(ValueError, match=why):
        Rules.parse([entry])


@pytest.mark.parametrize(
    "host",
    [
        *("", ".", "..", "example.com.", "a..b", " example.com", "example.com ", "exa mple.com", "a\tb.com"),
        *("exam\x00ple.com", "example.com\r\nX: y", "example.com%00", "exam%70le.com", "user@example.com"),
        *("example.com/", "example.com:443", "example.com\\.evil.org", "exämple.com", "*.example.com", "a,b"),
        *("127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.01", "0x7f.1"),
        *(
            "127.0.0.0x1",
            "00000177.0.0.1",
            "1.2.3.256",
            "1.2.3",
            "1.2.3.4.5",
            "0",
            "0x",
            "a.0x1",
            "a.1",
            "٣.1.1.1",
        ),
        *(
            "[::1",
            "::1]",
            "[::1%25lo]",
            "[fe80::1%eth0]",
            "[]",
            "[127.0.0.1]",
            "[::g]",
            "[1::2::3]",
            "[::1]x",
        ),
        *("a" * 64, "x." * 130 + "com", "-a.com", "a-.com", "a.-b.com"),
    ],
)
def test_hosts_of_requests_that_are_none(host: str) -> None:
    with pytest.raises(ValueError, match="it "):
        normal_host(host)
    refused = Rules.parse(["example.com"]).check("https", host, 443)
    assert refused is not None
    assert "EGRESS_ALLOW" in refused
    assert refused.isprintable()
    assert refused.isascii()


@pytest.mark.parametrize(
    ("host", "normal"),
    [
        ("EXAMPLE.com", "example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::FFFF:7F00:1]", "127.0.0.1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("a_b.example.com", "a_b.example.com"),
        ("1.example.com", "1.example.com"),
        ("0x7f.example.com", "0x7f.example.com"),
        ("r3---sn-x.example.com", "r3---sn-x.example.com"),
    ],
)
def test_normal_form(host: str, normal: str) -> None:
    assert normal_host(host) == normal
    assert normal_host(normal) == normal


def test_what_is_said_names_host_and_setting() -> None:
    rules = Rules.parse(["example.com"])
    assert rules.check("https", "other.org", 443) == (
        "other.org:443 is not in EGRESS_ALLOW: ask the person to add https://other.org to it, or do without"
    )
    assert rules.check("http", "other.org", 81) == (
        "other.org:81 is not in EGRESS_ALLOW: ask the person to add http://other.org:81 to it, or do without"
    )
    assert rules.check("https", "[2001:db8::1]", 443) == (
        "[2001:db8::1]:443 is not in EGRESS_ALLOW: "
        "ask the person to add https://[2001:db8::1] to it, or do without"
    )
    assert Rules().check("https", "other.org", 443) == (
        "EGRESS_ALLOW is empty: other.org is refused, as every host is"
    )
    assert not Rules()
    assert rules


def test_several_entries_for_a_host_add_up() -> None:
    rules = Rules.parse(["example.com:81", "http://example.com", "*.example.com", "*.a.example.com:82"])
    assert rules.check("http", "example.com", 81) is None
    assert rules.check("http", "example.com", 80) is None
    assert rules.check("https", "example.com", 443) is not None
    assert rules.check("https", "b.a.example.com", 443) is None
    assert rules.check("https", "b.a.example.com", 82) is None


@given(st.text(max_size=60))
def test_any_text_is_an_entry_or_refused(text: str) -> None:
    try:
        rule = Rule.parse(text)
    except ValueError:
        return
    assert normal_host(rule.host) == rule.host
    assert rule.ends


@given(st.text(alphabet="0123456789abcdefxX.:[]%-_ \x00a*/@", max_size=40))
def test_any_host_is_normal_or_refused(text: str) -> None:
    try:
        host = normal_host(text)
    except ValueError:
        return
    assert normal_host(host) == host
    assert host.isascii()
    assert host == host.lower()


@given(st.text(alphabet="0123456789abcdefxX.", min_size=1, max_size=20))
def test_what_c_reads_as_an_address_is_that_address_or_refused(text: str) -> None:
    try:
        host = normal_host(text)
    except ValueError:
        return
    try:
        packed = socket.inet_aton(host)
    except OSError:
        return
    assert str(ipaddress.IPv4Address(packed)) == host


@given(NAME, NAME, st.integers(1, 65535))
def test_a_host_allows_itself_alone(listed: str, asked: str, port: int) -> None:
    rules = Rules.parse([f"https://{listed}:{port}"])
    assert (rules.check("https", asked, port) is None) == (asked == listed)
    assert rules.check("https", listed.upper(), port) is None
    assert rules.check("http", listed, port) is not None


@given(NAME, st.lists(LABEL, max_size=3))
def test_a_wildcard_allows_what_is_below(below: str, labels: list[str]) -> None:
    try:
        rules = Rules.parse([f"*.{below}"])
    except ValueError:
        return
    asked = ".".join([*labels, below])
    assert (rules.check("https", asked, 443) is None) == bool(labels)
    assert rules.check("https", f"x{below}", 443) is not None


@given(st.ip_addresses())
def test_addresses_are_read_in_every_form_of_python(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    forms = [str(address)]
    if address.version == 6:
        forms = [f"[{address}]", f"[{address.exploded}]", f"[{address.compressed.upper()}]"]
    normal = {normal_host(form) for form in forms}
    assert len(normal) == 1
    entry = authority("https", normal.pop(), 443)
    assert all(allows(entry, "https", form, 443) for form in forms)
