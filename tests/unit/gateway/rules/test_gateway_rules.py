"""EGRESS_ALLOW: which hosts an entry allows, and which entries are invalid."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.gateway.rules.allow_list import Rule, Rules, normal_host

few = settings(max_examples=50, deadline=None)


def allows(entry: str, scheme: str, host: str, port: int) -> bool:
    return Rules.parse([entry]).check(scheme, host, port) is None


@pytest.mark.parametrize(
    ("entry", "scheme", "host", "port"),
    [
        ("example.com", "https", "example.com", 443),
        ("example.com", "http", "example.com", 80),
        ("EXAMPLE.com.", "https", "Example.COM", 443),
        ("HTTPS://example.com:8443", "https", "example.com", 8443),
        ("*.example.com", "https", "a.b.c.example.com", 443),
        ("BÜCHER.example", "https", "xn--bcher-kva.example", 443),
        ("ｅｘａｍｐｌｅ。com", "https", "example.com", 443),
        ("[2001:db8::1]", "https", "[2001:DB8:0::1]", 443),
        ("127.0.0.1", "https", "[::ffff:127.0.0.1]", 443),
        ("localhost:8000", "http", "localhost", 8000),
    ],
)
def test_allowed_hosts(entry: str, scheme: str, host: str, port: int) -> None:
    assert allows(entry, scheme, host, port)


@pytest.mark.parametrize(
    ("entry", "scheme", "host", "port"),
    [
        ("example.com", "https", "www.example.com", 443),
        ("example.com", "https", "example.com.evil.org", 443),
        ("example.com", "https", "example.com", 80),
        ("https://example.com", "http", "example.com", 80),
        ("https://example.com:8443", "https", "example.com", 443),
        ("*.example.com", "https", "example.com", 443),
        ("127.0.0.1", "https", "localhost", 443),
    ],
)
def test_hosts_that_are_not_allowed(entry: str, scheme: str, host: str, port: int) -> None:
    assert not allows(entry, scheme, host, port)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        (["", "*."], "empty"),
        (["*"], "every host"),
        (["*.com", "*.co.uk", "*.github.io", "*.ck", "*.internal", "*.xn--p1ai", "*.рф"], "too wide"),
        (["a.*.b.example", "**.example.com", "*example.com", "*.*.example.com"], "beginning"),
        (["*.10.0.0.1"], "below"),
        (["*.[2001:db8::1]", "[example.com]"], "IPv6|below|host"),
        (["https://example.com/", "example.com/path", "example.com?q", "example.com#f"], "without"),
        (
            ["user@example.com", "exam ple.com", "example.com\\x", "exa\x00mple.com", "exa%6dple.com"],
            "without",
        ),
        (["https://user:pw@example.com"], "port|without"),
        (["ftp://example.com", "://example.com"], "scheme"),
        ([f"example.com:{port}" for port in ("0", "65536", "080", "+80", "", "http", "８０")], "port"),
        (["a..example.com", ".example.com", "-a.example.com", "a-.example.com", "a" * 64 + ".com"], "name"),
        (["example.com.."], "dot"),
        ([".".join(["a" * 60] * 5)], "253"),
        (["127.1", "0x7f.1", "0177.0.0.1", "2130706433", "0x7f000001", "1.2.3.256", "1.2.3.4.5"], "IPv4"),
        (["2001:db8::1"], "brackets"),
        (["[2001:db8:0::1]"], "write the address as"),
        (["[::ffff:127.0.0.1]"], "write the address as 127.0.0.1"),
        (["[fe80::1%eth0]"], "without"),
        (["[::1"], "port"),
        (["☃\u200d.com"], "not a host"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_entries_are_refused(entries: list[str], why: str) -> None:
    for entry in entries:
        with pytest.raises(ValueError, match=why):
            Rules.parse([entry])


def test_invalid_hosts_of_requests() -> None:
    for host in (
        *(
            "",
            "..",
            "example.com.",
            "a..b",
            "-a.com",
            "a" * 64,
            "x." * 130 + "com",
            " example.com",
            "a\tb.com",
        ),
        *("example.com\r\nX: y", "example.com%00", "user@example.com", "example.com:443", "*.example.com"),
        *("example.com\\.evil.org", "exämple.com", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x"),
        *("127.0.0.01", "1.2.3.256", "a.0x1", "a.1", "٣.1.1.1"),
        *("[::1", "::1]", "[::1%25lo]", "[]", "[127.0.0.1]", "[1::2::3]", "[::1]x"),
    ):
        with pytest.raises(ValueError, match="it "):
            normal_host(host)
        refused = Rules.parse(["example.com"]).check("https", host, 443)
        assert refused is not None
        assert "EGRESS_ALLOW" in refused
        assert refused.isprintable()
        assert refused.isascii()


def test_refusal_names_host_and_setting() -> None:
    assert Rules.parse(["example.com"]).check("https", "[2001:db8::1]", 443) == (
        "[2001:db8::1]:443 is not in EGRESS_ALLOW: "
        "ask the person to add https://[2001:db8::1] to it, or do without"
    )


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"])
def test_address_that_no_setting_allows_is_named_so(host: str) -> None:
    """Nobody is asked to list the address at which clouds give credentials."""
    rules = Rules.parse(["example.com", "169.254.169.254:81"])
    refused = rules.check("http", host, 80)
    assert refused is not None
    assert refused.endswith(" is where clouds hand out credentials: no setting allows it")
    assert rules.check("http", "169.254.169.254", 81) is None  # refused when the address is looked at


def test_several_entries_for_a_host_add_up() -> None:
    rules = Rules.parse(["example.com:81", "http://example.com", "*.example.com", "*.a.example.com:82"])
    assert rules.check("http", "example.com", 81) is None
    assert rules.check("http", "example.com", 80) is None
    assert rules.check("https", "example.com", 443) is not None
    assert rules.check("https", "b.a.example.com", 443) is None
    assert rules.check("https", "b.a.example.com", 82) is None


@few
@given(st.text(max_size=60))
def test_any_text_is_a_valid_entry_or_refused(text: str) -> None:
    try:
        rule = Rule.parse(text)
    except ValueError:
        return
    assert normal_host(rule.host) == rule.host
    assert rule.ends


@few
@given(st.text(alphabet="0123456789abcdefxX.", min_size=1, max_size=20))
def test_host_that_c_reads_as_an_address_is_normalized_or_refused(text: str) -> None:
    try:
        host = normal_host(text)
    except ValueError:
        return
    try:
        packed = socket.inet_aton(host)
    except OSError:
        return
    assert str(ipaddress.IPv4Address(packed)) == host
