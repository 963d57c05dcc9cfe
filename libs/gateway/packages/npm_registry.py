"""The virtual host `npm.gateway`: for the sandbox, the registries that the host's npm is set to."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin, urlsplit

from libs.gateway.addresses import Resolve
from libs.gateway.errors import GatewayError, shown
from libs.gateway.packages.host_settings import Index, NpmSettings, npm_settings, without_secrets
from libs.gateway.packages.listings import Listings
from libs.gateway.packages.outside import Outside
from libs.gateway.packages.streamed import from_outside
from libs.gateway.packages.variables import NPM_HOST
from libs.gateway.protocol import ServiceRequest, ServiceResponse

__all__ = ["NpmRegistry"]

_SHORT: Final = "application/vnd.npm.install-v1+json"
"""What installing needs of a package's metadata, and no more."""
_NAME = r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*"
_PATH = re.compile(rf"/({_NAME})(?:/-/([A-Za-z0-9._~+-]+\.tgz))?")
_VERSION = re.compile(r"[0-9A-Za-z.+-]+")
_MOST_NAME: Final = 214
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class _Ready:
    settings: NpmSettings
    outside: Outside
    redact: Callable[[bytes], bytes]


class NpmRegistry:
    """Answers http://npm.gateway/; a `Service` of the proxy. GET and HEAD alone: nothing can be published.

    `/<package>` is its metadata, whose tarballs lead back here, `/<package>/-/<name>-<version>.tgz`, as
    registries have it, so that a lock file that is made outside holds here. Which registry a scope has, where
    its files are, and with which credentials they are fetched, stays on the host.
    """

    def __init__(
        self,
        *,
        resolve: Resolve,
        settings: Callable[[], NpmSettings] = npm_settings,
        redact: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Nothing is asked or connected until somebody installs. Arguments as those of `PipIndex`."""
        self._settings = settings
        self._resolve = resolve
        self._redact = redact or bytes
        self._once = asyncio.Lock()
        self._ready: _Ready | None = None
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._listings: Listings[str, str] = Listings()

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        if request.method not in ("GET", "HEAD"):
            raise GatewayError(405, f"{NPM_HOST} takes GET and HEAD: nothing can be published through it")
        found = _PATH.fullmatch(unquote(request.path))
        if found is None or len(found[1]) > _MOST_NAME:
            raise GatewayError(404, f"{NPM_HOST} has packages and their tarballs, not {shown(request.path)}")
        name, file = found.groups()
        ready = await self._asked()
        registry = ready.settings.scopes.get(name.partition("/")[0], ready.settings.registry)
        if file is None:
            short = any(
                key.lower() == b"accept" and _SHORT.encode() in value for key, value in request.headers
            )
            kind, content = await self._metadata(ready, registry, name, short=short)
            content = await asyncio.to_thread(lambda: self._redact(ready.redact(content)))
            return ServiceResponse(200, content, [(b"Content-Type", kind.encode())])
        files = self._listings.get(name)
        if files is None or file not in files:
            await self._metadata(ready, registry, name, short=True)
            files = self._listings.get(name) or {}
        if file in files and (
            response := await from_outside(ready.outside, files[file], registry, request.method)
        ):
            return response
        raise GatewayError(404, f"{NPM_HOST}: {shown(name)} lists no {shown(file)}")

    async def _metadata(self, ready: _Ready, registry: Index, name: str, *, short: bool) -> tuple[str, bytes]:
        """The metadata of a package, with tarballs that are to be had here; its type. Raises GatewayError."""
        url = f"{registry.url.rstrip('/')}/{quote(name, safe='@~').replace('%2F', '%2f')}"
        accept = f"{_SHORT}; q=1.0, application/json; q=0.8" if short else "application/json"
        async with self._at_once:
            page = await ready.outside.page(url, registry, accept=accept)
            if page is None:
                raise GatewayError(404, f"{name} is not in the registry that npm on the host is set to")
            try:
                content, files = await asyncio.to_thread(_led_back, name, page.content, page.url)
            except ValueError:
                where = urlsplit(registry.url).hostname
                raise GatewayError(502, f"{where} answers with what is no metadata of a package") from None
        self._listings.put(name, files)
        return _SHORT if page.kind.startswith(_SHORT) else "application/json", content

    async def _asked(self) -> _Ready:
        async with self._once:
            if self._ready is None:
                self._ready = await asyncio.to_thread(self._prepare)
            return self._ready

    def _prepare(self) -> _Ready:
        settings = self._settings()
        registries = [settings.registry, *settings.scopes.values()]
        return _Ready(
            settings, Outside(settings.reach, registries, self._resolve), without_secrets(registries)
        )


def _led_back(name: str, content: bytes, page: str) -> tuple[bytes, dict[str, str]]:
    """Metadata whose tarballs lead to this host, and where they led before, by file. Raises ValueError."""
    try:
        metadata: dict[str, Any] = json.loads(content)
        versions = metadata.get("versions", {})
        files = {}
        for version in [version for version in versions if not _VERSION.fullmatch(version)]:
            del versions[version]
        for version, described in versions.items():
            file = f"{name.rpartition('/')[2]}-{version}.tgz"
            files[file] = urljoin(page, described["dist"]["tarball"])
            described["dist"]["tarball"] = f"http://{NPM_HOST}/{name}/-/{quote(file)}"
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError from error
    return json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"), files
