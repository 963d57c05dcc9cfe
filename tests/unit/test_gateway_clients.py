"""Programs as they are, told of the proxy as they are told of any: what they fetch, and what they show."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx
import pytest

from tests.unit.gateway_loopback import (
    Names,
    Running,
    authority,
    body_of,
    client_tls,
    headers_of,
    ok,
    read_message,
    running,
    server_tls,
    serving,
    web_site,
)

SIZE = Path(sys.executable).stat().st_size
NAMES = {"site_test": ["127.0.0.1"]}

REQUESTS = """
import requests, sys
try:
    with requests.Session() as session:
        for _ in range(2):
            print(session.get(sys.argv[1], verify=sys.argv[2], timeout=20).text)
except requests.RequestException as error:
    print("error:", error)
"""
URLLIB = """
import ssl, sys, urllib.request
try:
    context = ssl.create_default_context(cafile=sys.argv[2])
    print(urllib.request.urlopen(sys.argv[1], context=context, timeout=20).read().decode())
except OSError as error:
    print("error:", error)
"""


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority().cert_pem.write_to_path(str(path))
    return path


async def run(proxy: Running, *command: str) -> str:
    """What a program prints that is told of the proxy as programs in the sandbox are."""
    variables = dict.fromkeys(
        ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy.url
    )
    process = await asyncio.create_subprocess_exec(
        *command,
        env={"PATH": "/usr/bin:/bin", "NO_PROXY": "localhost,127.0.0.1,::1", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        stdin=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(30):
        output, _ = await process.communicate()
    return output.decode()


CLIENTS = {
    "curl": lambda url, ca: ("curl", "-sS", "--cacert", ca, url),
    "curl of HTTP/1.0": lambda url, ca: ("curl", "-sS", "--cacert", ca, "--proxy1.0", "$PROXY", url),
    "requests": lambda url, ca: (sys.executable, "-c", REQUESTS, url, ca),
    "urllib": lambda url, ca: (sys.executable, "-c", URLLIB, url, ca),
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_pages_over_http_and_https(name: str, trusted: Path) -> None:
    for scheme, tls in (("http", None), ("https", server_tls("site.test"))):
        async with (
            web_site(ok(b"a page"), tls=tls) as site,
            running(f"{scheme}://site.test:{site.port}", names=Names(**NAMES)) as proxy,
        ):
            command = CLIENTS[name](f"{scheme}://site.test:{site.port}/a?b", str(trusted))
            assert "a page" in await run(proxy, *(part.replace("$PROXY", proxy.url) for part in command))
        assert site.requests[0].startswith(b"GET /a?b HTTP/1.1\r\n")


@pytest.mark.parametrize("name", CLIENTS)
async def test_the_reason_is_shown(name: str, trusted: Path) -> None:
    """Where a tunnel is refused most programs show the status line, or a part of it, and no more."""
    async with running("other.test", names=Names(**NAMES)) as proxy:
        for scheme in ("http", "https"):
            command = CLIENTS[name](f"{scheme}://site.test/", str(trusted))
            shown = await run(proxy, *(part.replace("$PROXY", proxy.url) for part in command))
            if name.startswith("curl") and scheme == "https":
                assert "403" in shown
            elif scheme == "https":
                assert "403 site.test:443 is not in EGRESS_ALLOW" in shown
            elif name != "urllib":
                assert "site.test:80 is not in EGRESS_ALLOW" in shown
            else:
                assert "HTTP Error 403: site.test:80 is not in EGRESS_ALLOW" in shown


async def test_httpx() -> None:
    async with (
        web_site(ok(b"a page")) as plain,
        web_site(ok(b"a page"), tls=server_tls("site.test")) as secure,
        running(
            f"http://site.test:{plain.port}", f"https://site.test:{secure.port}", names=Names(**NAMES)
        ) as proxy,
        httpx.AsyncClient(proxy=proxy.url, verify=client_tls()) as client,
    ):
        for _ in range(3):
            assert (await client.get(f"http://site.test:{plain.port}/")).text == "a page"
        assert (await client.get(f"https://site.test:{secure.port}/")).text == "a page"
        answer = await client.post(f"http://site.test:{plain.port}/", content=b"x" * 500_000)
        assert answer.text == "a page"
        refused = await client.get("http://other.test/")
        assert refused.status_code == 403
        assert "http://other.test" in refused.text
        with pytest.raises(httpx.ProxyError, match=r"403 other\.test:443 is not in EGRESS_ALLOW"):
            await client.get("https://other.test/")


async def test_an_upload_that_waits_to_be_continued() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert headers_of(head)["expect"] == "100-continue"
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(int(headers_of(head)["content-length"]))
        writer.write(ok(b"%d bytes" % len(body)))

    async with serving(handle) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        shown = await run(
            proxy, "curl", "-sS", "--expect100-timeout", "20", "-H", "Expect: 100-continue",
            "--data-binary", f"@{sys.executable}", f"http://site.test:{site.port}/",
        )  # fmt: skip
        assert shown == f"{SIZE} bytes"


async def test_curl_follows_redirects_no_further_than_allowed() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await read_message(reader)).split(b" ")[1]
        there = {
            b"/ok": b"http://site.test:%d/end" % site.port,
            b"/bad": b"http://169.254.169.254/latest/",
        }.get(path)
        if there:
            writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + there + b"\r\n\r\n")
        else:
            writer.write(ok(b"the end"))

    async with (
        serving(handle) as site,
        running(f"site.test:{site.port}", "169.254.169.254", names=Names(**NAMES)) as proxy,
    ):
        assert await run(proxy, "curl", "-sSL", f"http://site.test:{site.port}/ok") == "the end"
        shown = await run(proxy, "curl", "-sSL", f"http://site.test:{site.port}/bad")
        assert "169.254.169.254 is where clouds hand out credentials" in shown


async def test_curl_offers_http_2_and_does_without() -> None:
    async with (
        web_site(ok(b"a page")) as site,
        running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy,
    ):
        assert await run(proxy, "curl", "-sS", "--http2", f"http://site.test:{site.port}/") == "a page"
    assert b"pgrade" not in site.requests[0]


async def test_other_kinds_of_proxy_are_not_spoken() -> None:
    async with running("site.test", names=Names(**NAMES)) as proxy:
        for kind in ("socks5h", "socks4a"):
            shown = await run(
                proxy, "curl", "-sS", "-x", f"{kind}://127.0.0.1:{proxy.port}", "http://site.test/"
            )
            assert "curl: (" in shown
    assert proxy.names.asked == []
    assert {entry.status for entry in proxy.log.entries} == {400}


async def test_many_at_once_over_few_connections() -> None:
    def which(request: bytes) -> bytes:
        return ok(body_of(request) * 100)

    async with web_site(which) as site, running(f"site.test:{site.port}", names=Names(**NAMES)) as proxy:
        limits = httpx.Limits(max_connections=10)
        async with httpx.AsyncClient(proxy=proxy.url, limits=limits, timeout=30) as client:

            async def one(number: int) -> None:
                sent = f"{number:05}".encode()
                answer = await client.post(f"http://site.test:{site.port}/", content=sent)
                assert answer.content == sent * 100

            await asyncio.gather(*map(one, range(200)))
    assert site.connections == 200
