"""Fetches from an index like pip or npm on this host: with its certificates, proxy and credentials."""

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

from libs.gateway.gateway_errors import GatewayError, printable
from libs.gateway.packages.host_index_settings import Index, NetworkSettings
from libs.gateway.rules import Resolve, in_url, lookup, normal_host

__all__ = ["MOST_PAGE", "IndexClient", "Page", "origin_text", "refuse_failure"]

MOST_PAGE: Final = 64 * 2**20
"""Largest page of an index, in bytes."""
_TIMES: Final = httpx.Timeout(60, connect=10)
"""Seconds without data, and for a connection."""
_NO_KEEPING: Final = httpx.Limits(max_keepalive_connections=0)
_PAGE_SECONDS: Final = 60.0
_MOST_REDIRECTS: Final = 10
_PORTS: Final = {"http": 80, "https": 443}


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def origin_text(url: httpx.URL) -> str:
    """Return scheme, host and port for a message, because path and query may contain a secret."""
    return printable(f"{url.scheme}://{in_url(url.host)}" + (f":{url.port}" if url.port else ""))


@dataclass(frozen=True, slots=True)
class Page:
    """A page of an index."""

    url: str
    """URL after redirects."""
    kind: str
    """Content-Type."""
    content: bytes


class IndexClient:
    """An HTTP client for package indexes. Keeps no connection and no cookie.

    An index may be in a private network. Links and redirects must lead to public addresses, to the address
    of an index, or to EGRESS_PRIVATE. If the host uses a proxy, the addresses are not checked.
    """

    def __init__(self, network: NetworkSettings, indexes: Iterable[Index], resolve: Resolve) -> None:
        """`resolve`: looks up the addresses of links and redirects."""
        self._network = network
        self._own = frozenset(_origin(httpx.URL(index.url)) for index in indexes)
        self._resolve = resolve
        self._tls = _tls(network)

    @asynccontextmanager
    async def fetch(
        self, url: str, index: Index, *, method: str = "GET", headers: Mapping[str, str] = {}
    ) -> AsyncIterator[httpx.Response]:
        """Request a URL of `index`, or one that its pages link to. The body of the answer is not read yet.

        Credentials of the index are sent only to its own host. Credentials in the URL are used.

        Raises:
            GatewayError: no answer, or the answer breaks off.
        """
        try:
            asked = httpx.URL(url)
        except httpx.InvalidURL:
            raise GatewayError(502, f"{origin_text(httpx.URL(index.url))} links to an invalid URL") from None
        auth = httpx.BasicAuth(asked.username, asked.password) if asked.userinfo else None
        asked = asked.copy_with(userinfo=b"")
        sent = {"User-Agent": "code-execution-agent", "Accept-Encoding": "identity", **headers}
        if auth is None and index.authorization and _origin(asked) == _origin(httpx.URL(index.url)):
            sent["Authorization"] = index.authorization
        try:
            async with (
                httpx.AsyncClient(
                    transport=_Router(self),
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
            raise GatewayError(504, f"{origin_text(error.request.url)} {what}: time is up") from None
        except httpx.HTTPError as error:  # its host may be that of a redirect
            where = origin_text(error.request.url)
            raise GatewayError(502, f"{where} does not answer as it should: {_why(error)}") from None
        except httpx.InvalidURL as error:
            raise GatewayError(502, f"{origin_text(asked)} links to an invalid URL: {_why(error)}") from None

    async def page(self, url: str, index: Index, *, accept: str) -> Page | None:
        """Return a complete page, or None if it does not exist.

        Raises:
            GatewayError: as `fetch`; the index refuses; over 64 MiB; over a minute.
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
                            f"{origin_text(response.url)} answers with over {MOST_PAGE >> 20} MiB for a page",
                        )
                return Page(str(response.url), response.headers.get("Content-Type", ""), bytes(content))
        except TimeoutError:
            raise GatewayError(504, f"an index has not answered within {_PAGE_SECONDS:g} s") from None

    def proxy_for(self, url: httpx.URL) -> str | None:
        """Return the proxy for a URL, or None."""
        where = f"{url.host}:{url.port}" if url.port else url.host
        if self._network.direct or proxy_bypass(where):
            return None
        if self._network.proxy:
            beside = (entry.strip().lstrip(".") for entry in self._network.no_proxy.split(","))
            reached = any(entry and f".{url.host}".endswith(f".{entry}") for entry in beside)
            return None if reached else self._network.proxy
        of_environment = getproxies()
        return of_environment.get(url.scheme) or of_environment.get("all")

    async def allowed_addresses(self, url: httpx.URL) -> list[str] | None:
        """Return the allowed addresses of a host; None for an index itself. Raises GatewayError."""
        if _origin(url) in self._own:
            return None
        try:
            host = normal_host(url.host)
        except ValueError as error:
            raise GatewayError(
                502, f"an index links to {printable(url.host)}, which is not a host: {error}"
            ) from None
        port = url.port or _PORTS.get(url.scheme, 0)
        try:
            return [address.ip for address in await self._resolve(host, port)]
        except GatewayError:
            # A mirror, or a proxy that intercepts TLS, may serve index and files at one private address.
            if beside := await self._shared_addresses(host, port):
                return beside
            raise

    async def _shared_addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that an index has as well, on the same port."""
        own = set()
        for _, index, index_port in self._own:
            if index_port == port:
                own.update(await _addresses(index, port))
        return [address for address in await _addresses(host, port) if address in own]

    def transport(self, proxy: str | None) -> httpx.AsyncHTTPTransport:
        """Return a transport for one request."""
        if proxy and "://" not in proxy:
            proxy = f"http://{proxy}"
        try:
            return httpx.AsyncHTTPTransport(
                verify=self._tls, limits=_NO_KEEPING, trust_env=False, proxy=proxy
            )
        except (ValueError, ImportError, httpx.InvalidURL):
            raise GatewayError(
                502, "the proxy that the program on the host is set to is not an http proxy"
            ) from None


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return await lookup(host, port)
    except OSError:
        return []


class _Router(httpx.AsyncBaseTransport):
    """Routes a request and its redirects: each through the proxy or to a checked address."""

    def __init__(self, client: IndexClient) -> None:
        self._client = client
        self._used: list[httpx.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.scheme not in _PORTS:
            raise httpx.UnsupportedProtocol(f"it leads to {url.scheme}, which is neither http nor https")
        proxy = self._client.proxy_for(url)
        addresses = None if proxy else await self._client.allowed_addresses(url)
        transport = self._client.transport(proxy)
        self._used.append(transport)
        if addresses is None:
            return await transport.handle_async_request(request)
        for address in addresses:
            # Connect to the checked address; Host header and TLS use the name.
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
    """Raise GatewayError for a status other than 200."""
    status, where = response.status_code, origin_text(response.url)
    if status in (401, 403, 407):
        raise GatewayError(
            502,
            f"{where} answers {status}: ask the person to look at the credentials that pip or npm on the "
            "host has for it",
        )
    if status != httpx.codes.OK:
        raise GatewayError(502, f"{where} answers {status}")


def _why(error: Exception) -> str:
    return printable(str(error) or type(error).__name__)


def _tls(network: NetworkSettings) -> ssl.SSLContext:
    """Return a context that trusts the system, certifi, and the certificates of the settings.

    Raises:
        GatewayError: 502, a certificate file cannot be read.
    """
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    try:
        for path in network.trusted:
            folder = Path(path).is_dir()
            context.load_verify_locations(cafile=None if folder else path, capath=path if folder else None)
        if network.certificates:
            context.load_verify_locations(cadata=network.certificates)
    except (OSError, ssl.SSLError) as error:
        raise GatewayError(
            502, f"certificates that the program on the host is set to trust cannot be read: {_why(error)}"
        ) from None
    return context
