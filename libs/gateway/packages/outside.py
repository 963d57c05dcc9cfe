"""Fetching from an index, the way pip or npm on this host would: its certificates, proxy and credentials."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx

from libs.gateway.addresses import Resolve, lookup
from libs.gateway.errors import GatewayError, shown
from libs.gateway.packages.host_settings import Index, Reach
from libs.gateway.rules import in_url, normal_host

__all__ = ["MOST_PAGE", "Outside", "Page", "refuse_failure", "shown_url"]

MOST_PAGE: Final = 64 * 2**20
"""Bytes of a page of an index."""
_TIMES: Final = httpx.Timeout(60, connect=10)
"""Seconds for a connection, and until something comes over it."""
_NO_KEEPING: Final = httpx.Limits(max_keepalive_connections=0)
_PAGE_SECONDS: Final = 60.0
_MOST_REDIRECTS: Final = 10
_PORTS: Final = {"http": 80, "https": 443}


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def shown_url(url: httpx.URL) -> str:
    """Scheme, host and port: a path or query may hold a secret."""
    return shown(f"{url.scheme}://{in_url(url.host)}" + (f":{url.port}" if url.port else ""))


@dataclass(frozen=True, slots=True)
class Page:
    """What was read."""

    url: str
    """Where it lay in the end."""
    kind: str
    """Its Content-Type."""
    content: bytes


class Outside:
    """Fetches for programs in sandboxes. Keeps no connection and no cookie.

    The indexes themselves are where the person has put them, in a private network too. What they lead to, by
    a link or a redirect, must have public addresses, or that of an index itself, or stand in EGRESS_PRIVATE;
    where the host uses a proxy, that is for the proxy to see to.
    """

    def __init__(self, reach: Reach, indexes: Iterable[Index], resolve: Resolve) -> None:
        """Fetch from `indexes`, and from where they lead, which `resolve` finds."""
        self._reach = reach
        self._own = frozenset(_origin(httpx.URL(index.url)) for index in indexes)
        self._resolve = resolve
        self._tls = _tls(reach)

    @asynccontextmanager
    async def fetch(
        self, url: str, index: Index, *, method: str = "GET", headers: Mapping[str, str] = {}
    ) -> AsyncIterator[httpx.Response]:
        """Ask for a URL that `index` is, or has named; its answer, of which the body is still to be read.

        The credentials of the index go to its own host alone; a URL may have brought others.

        Raises:
            GatewayError: there is no answer, or it breaks off while it is read.
        """
        try:
            asked = httpx.URL(url)
        except httpx.InvalidURL:
            raise GatewayError(502, f"{shown_url(httpx.URL(index.url))} leads to what is no URL") from None
        auth = httpx.BasicAuth(asked.username, asked.password) if asked.userinfo else None
        asked = asked.copy_with(userinfo=b"")
        sent = {"User-Agent": "code-execution-agent", "Accept-Encoding": "identity", **headers}
        if auth is None and index.authorization and _origin(asked) == _origin(httpx.URL(index.url)):
            sent["Authorization"] = index.authorization
        try:
            async with (
                httpx.AsyncClient(
                    transport=_Ways(self),
                    timeout=_TIMES,
                    follow_redirects=True,
                    max_redirects=_MOST_REDIRECTS,
                    trust_env=False,
                ) as client,
                client.stream(method, asked, headers=sent, auth=auth) as response,
            ):
                yield response
        except httpx.TimeoutException as error:
            what = "cannot be reached" if isinstance(error, httpx.ConnectTimeout) else "says nothing more"
            raise GatewayError(504, f"{_of(error, asked)} {what}: time is up") from None
        except httpx.TooManyRedirects:
            raise GatewayError(502, f"{shown_url(asked)} redirects over {_MOST_REDIRECTS} times") from None
        except httpx.UnsupportedProtocol:
            raise GatewayError(502, f"{shown_url(asked)} leads to what is neither http nor https") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise GatewayError(
                502, f"{_of(error, asked)} does not answer as it should: {_why(error)}"
            ) from None

    async def page(self, url: str, index: Index, *, accept: str) -> Page | None:
        """What is to be read whole; None where there is nothing of that name.

        Raises:
            GatewayError: as `fetch`; it is refused; it has more than 64 MiB, or takes more than a minute.
        """
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        try:
            async with asyncio.timeout(_PAGE_SECONDS), self.fetch(url, index, headers=headers) as response:
                if response.status_code in (404, 410):
                    return None
                refuse_failure(response)
                content = bytearray()
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > MOST_PAGE:
                        raise GatewayError(
                            502,
                            f"{shown_url(response.url)} answers with over {MOST_PAGE >> 20} MiB for a page",
                        )
                return Page(str(response.url), response.headers.get("Content-Type", ""), bytes(content))
        except TimeoutError:
            raise GatewayError(504, f"an index has not answered within {_PAGE_SECONDS:g} s") from None

    def proxy_for(self, url: httpx.URL) -> str | None:
        """The proxy of the host through which a URL is reached."""
        where = f"{url.host}:{url.port}" if url.port else url.host
        if self._reach.direct or proxy_bypass(where):
            return None
        if self._reach.proxy:
            beside = (entry.strip().lstrip(".") for entry in self._reach.no_proxy.split(","))
            reached = any(entry and f".{url.host}".endswith(f".{entry}") for entry in beside)
            return None if reached else self._reach.proxy
        of_environment = getproxies()
        return of_environment.get(url.scheme) or of_environment.get("all")

    async def leads_to(self, url: httpx.URL) -> list[str] | None:
        """The addresses at which a host may be reached; None where its name will do. Raises GatewayError."""
        if _origin(url) in self._own:
            return None
        try:
            host = normal_host(url.host)
        except ValueError as error:
            raise GatewayError(
                502, f"an index leads to {shown(url.host)}, which is no host: {error}"
            ) from None
        port = url.port or _PORTS.get(url.scheme, 0)
        try:
            return [address.ip for address in await self._resolve(host, port)]
        except GatewayError:
            # A mirror, or a proxy that intercepts TLS, has index and files at one private address.
            if beside := await self._beside(host, port):
                return beside
            raise

    async def _beside(self, host: str, port: int) -> list[str]:
        """Those addresses of a host at which an index is, too, on the same port."""
        own = set()
        for _, index, index_port in self._own:
            if index_port == port:
                own.update(await _addresses(index, port))
        return [address for address in await _addresses(host, port) if address in own]

    def transport(self, proxy: str | None = None) -> httpx.AsyncHTTPTransport:
        """A way out, once."""
        if proxy and "://" not in proxy:
            proxy = f"http://{proxy}"
        try:
            return httpx.AsyncHTTPTransport(
                verify=self._tls, limits=_NO_KEEPING, trust_env=False, proxy=proxy
            )
        except (ValueError, ImportError, httpx.InvalidURL):
            raise GatewayError(
                502, "the proxy that the program on the host is set to is none for http"
            ) from None


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return await lookup(host, port)
    except OSError:
        return []


class _Ways(httpx.AsyncBaseTransport):
    """The way to each host that one request and its redirects are for."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._used: list[httpx.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.scheme not in _PORTS:
            raise httpx.UnsupportedProtocol(url.scheme)
        proxy = self._outside.proxy_for(url)
        addresses = None if proxy else await self._outside.leads_to(url)
        transport = self._outside.transport(proxy)
        self._used.append(transport)
        if addresses is None:
            return await transport.handle_async_request(request)
        for address in addresses:
            # To the address that was looked at, and no other; Host and TLS are still the name's.
            asked = httpx.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": url.host},
            )
            try:
                return await transport.handle_async_request(asked)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if address == addresses[-1]:
                    raise
        raise httpx.ConnectError("no address")

    async def aclose(self) -> None:
        for transport in self._used:
            await transport.aclose()


def refuse_failure(response: httpx.Response) -> None:
    """Raises GatewayError where an answer is none of the things that were asked for."""
    status, where = response.status_code, shown_url(response.url)
    if status in (401, 403, 407):
        raise GatewayError(
            502,
            f"{where} answers {status}: ask the person to look at the credentials that pip or npm on the "
            "host has for it",
        )
    if status != httpx.codes.OK:
        raise GatewayError(502, f"{where} answers {status}")


def _of(error: httpx.HTTPError | httpx.InvalidURL, asked: httpx.URL) -> str:
    """The host at which it went wrong: that of a redirect, it may be."""
    try:
        return shown_url(error.request.url)  # type: ignore[union-attr]
    except (RuntimeError, AttributeError):
        return shown_url(asked)


def _why(error: Exception) -> str:
    return shown(str(error) or type(error).__name__)


def _tls(reach: Reach) -> ssl.SSLContext:
    """Verifies with what the system trusts, certifi, and what the program is set to besides.

    Raises:
        GatewayError: 502, a file that it is set to cannot be read.
    """
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    try:
        for path in reach.trusted:
            folder = Path(path).is_dir()
            context.load_verify_locations(cafile=None if folder else path, capath=path if folder else None)
        if reach.certificates:
            context.load_verify_locations(cadata=reach.certificates)
    except (OSError, ssl.SSLError) as error:
        raise GatewayError(
            502, f"certificates that the program on the host is set to trust cannot be read: {_why(error)}"
        ) from None
    return context
