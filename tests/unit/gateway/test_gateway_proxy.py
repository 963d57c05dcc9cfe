"""Decisions of the proxy: which hosts are reached, and the messages for refused requests."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from tests.servers.gateway_loopback import QUICK, Names, reached, refused, running, web_site
from tests.servers.http_messages import (
    body_of,
    headers_of,
    last,
    ok,
    page,
    reason_of,
    status_of,
    tunnel,
)

EVERYTHING = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]


async def test_allowed_host_is_reached_and_logged() -> None:
    async with reached(ok(b"hello", b"X-Kind: test")) as (site, proxy):
        answer = await proxy.ask(last(site.where, path="/a?b=c"))
    assert status_of(answer) == 200
    assert body_of(answer) == b"hello"
    assert headers_of(answer)["x-kind"] == "test"
    head = site.requests[0].split(b"\r\n")
    assert head[:2] == [b"GET /a?b=c HTTP/1.1", b"Host: site.test:%d" % site.port]
    (entry,) = proxy.log.entries
    assert (entry.sandbox, entry.thread, entry.decision, entry.status) == (
        "box-1",
        "thread-1",
        "allowed",
        200,
    )
    assert (entry.method, entry.scheme, entry.host, entry.path) == ("GET", "http", "site.test", "/a")
    assert entry.bytes_in > 40
    assert 0 < entry.seconds < 5


# -- invalid hosts, ports and URLs


@pytest.mark.parametrize("host", ["0177.0.0.1", "[::1%25lo]", "user@site.test", "*.test", "a" * 300])
async def test_invalid_hosts_are_refused(host: str) -> None:
    async with running("site.test", "127.0.0.1", "localhost") as proxy:
        for request in (tunnel(f"{host}:443"), last(host)):
            answer = await proxy.ask(request)
            assert status_of(answer) in (400, 403)
            refused(proxy, answer, status_of(answer), "EGRESS_ALLOW", host[:80])
    assert proxy.names.asked == []
    assert {entry.decision for entry in proxy.log.entries} == {"refused"}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        *((f"CONNECT {where}", "EGRESS_ALLOW") for where in ("site.test", "site.test:0", ":443", "[::1")),
        *((f"GET {target}", "HTTP_PROXY") for target in ("/", "*", "site.test:80", "//site.test/")),
        ("GET https://site.test/", "CONNECT"),
        ("GET ftp://site.test/", "only http and https go through"),
        ("GET http://site.test/#part", "fragment"),
        *((f"GET http://{where}/", "port") for where in ("site.test:", "site.test:0", "site.test:99999")),
        *((f"GET {target}", "EGRESS_ALLOW") for target in ("http:///etc/passwd", "http://a:b@site.test/")),
    ],
)
async def test_invalid_targets_are_refused(line: str, word: str) -> None:
    async with running("site.test") as proxy:
        answer = await proxy.ask(f"{line} HTTP/1.1\r\nHost: site.test\r\n\r\n".encode())
    assert status_of(answer) in (400, 403)
    refused(proxy, answer, status_of(answer), word)
    assert proxy.names.asked == []


# -- hosts that EGRESS_ALLOW does not list


@pytest.mark.parametrize("allow", [[], ["site.test", "*.site.test", "https://other.test:8443"]])
@pytest.mark.parametrize("host", ["s3cret.other.test", "[::1]", "[::ffff:127.0.0.1]"])
async def test_unlisted_host_is_refused_without_a_lookup(allow: list[str], host: str) -> None:
    shown = "127.0.0.1" if "ffff" in host else host
    async with running(*allow) as proxy:
        for request in (tunnel(f"{host}:443"), last(host)):
            answer = await proxy.ask(request)
            refused(
                proxy, answer, 403, "EGRESS_ALLOW" if allow else "EGRESS_ALLOW is empty", shown.strip("[]")
            )
    assert proxy.names.asked == []  # a name service could carry data out
    assert proxy.client.unreached == {proxy.log.entries[-1].host}
    assert [entry.decision for entry in proxy.log.entries] == ["refused", "refused"]


@pytest.mark.parametrize("port", ["80", "8443"])
async def test_other_ports_are_refused(port: str) -> None:
    async with running("https://site.test") as proxy:
        answer = await proxy.ask(tunnel(f"site.test:{port}"))
        refused(proxy, answer, 403, f"site.test:{port} is not in EGRESS_ALLOW")


# -- addresses


@pytest.mark.parametrize(
    ("allow", "host", "address"),
    [
        ("site.test", "site.test", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.1", ""),
        ("10.0.0.1", "[::ffff:a00:1]", ""),
    ],
)
async def test_listed_host_at_a_private_address_is_refused(allow: str, host: str, address: str) -> None:
    async with running(allow, names=Names(site_test=["8.8.8.8", address]), private=()) as proxy:
        for request in (tunnel(f"{host}:443"), last(host)):
            answer = await proxy.ask(request)
            refused(proxy, answer, 403, allow.strip("[]"), "private: EGRESS_PRIVATE does not list it")


@pytest.mark.parametrize(
    ("there", "allowed"),
    [("169.254.169.254", False), ("[fd00:ec2::254]", True), ("[::ffff:169.254.169.254]", True)],
)
async def test_redirect_to_cloud_metadata_is_refused(there: str, allowed: bool) -> None:
    moved = f"HTTP/1.1 302 Found\r\nLocation: http://{there}/latest/\r\nContent-Length: 0\r\n\r\n".encode()
    shown = "169.254.169.254" if "169" in there else there
    async with reached(moved, allow=[shown] if allowed else [], private=EVERYTHING) as (site, proxy):
        location = headers_of(await proxy.ask(last(site.where)))["location"]
        answer = await proxy.ask(last(location.removeprefix("http://").partition("/")[0], path="/latest/"))
    named = ["EGRESS_PRIVATE"] if allowed else []
    refused(proxy, answer, 403, shown.strip("[]"), "no setting allows it", *named)


async def test_checked_address_is_the_one_connected_to() -> None:
    names = Names()
    names.changes("site.test", ["127.0.0.2"], ["127.0.0.3"])
    async with web_site(ok(b"first"), host="127.0.0.2") as first:
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.3", first.port)
        async with running(first.where, names=names) as proxy:
            answer = await proxy.ask(last(first.where))
        server.close()
        await server.wait_closed()
    assert body_of(answer) == b"first"
    assert names.asked == ["site.test"]


async def test_name_that_becomes_private_is_refused() -> None:
    names = Names()
    names.changes("site.test", ["127.0.0.2"], ["127.0.0.3"])
    async with (
        web_site(ok(b"first"), host="127.0.0.2") as site,
        running(site.where, names=names, private=[ipaddress.ip_network("127.0.0.2")]) as proxy,
    ):
        # The second request uses the same connection, and its name is looked up again.
        answer = await proxy.ask(page(site.where) + last(site.where))
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    refused(proxy, b"HTTP/1.1 " + second, 403, "site.test", "127.0.0.3, which is private", "EGRESS_PRIVATE")


async def test_unreachable_hosts_are_errors() -> None:
    class Slow(Names):
        async def lookup(self, host: str, port: int) -> list[str]:
            await asyncio.sleep(60)
            return []

    async with running("site.test", "other.test") as proxy:
        refused(proxy, await proxy.ask(tunnel("site.test:443")), 502, "site.test:443 cannot be reached")
        refused(proxy, await proxy.ask(last("other.test")), 502, "other.test is not found")
    async with running("site.test", names=Slow(), timeouts=QUICK) as slow:
        answer = await slow.ask(tunnel("site.test:443"))
        refused(slow, answer, 504, "site.test:443 does not answer within 0.3 s")
    entries = proxy.log.entries + slow.log.entries
    assert [(entry.decision, entry.status) for entry in entries] == [("allowed", n) for n in (502, 502, 504)]


# -- refusals


async def test_hosts_that_were_not_reached_are_noted_up_to_a_limit() -> None:
    async with running("closed.test", names=Names(closed_test=["127.0.0.1"])) as proxy:
        await proxy.ask(last("closed.test:1"))
        for number in range(150):
            await proxy.ask(last(f"n{number}.test"))
    assert "closed.test" in proxy.client.unreached
    assert len(proxy.client.unreached) == 100


async def test_refused_head_request_has_no_body() -> None:
    async with running() as proxy:
        answer = await proxy.ask(last("site.test", method="HEAD"))
    assert (status_of(answer), body_of(answer)) == (403, b"")
    assert reason_of(answer) == "EGRESS_ALLOW is empty: site.test is refused, as every host is"


async def test_program_reads_the_refusal_of_a_large_upload() -> None:
    async with running() as proxy:
        request = page("site.test", b"Content-Length: 2000000", method="POST")
        refused(proxy, await proxy.ask(request + bytes(2_000_000)), 403, "EGRESS_ALLOW is empty")
