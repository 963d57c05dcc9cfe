"""The virtual host `npm.gateway`: serves the registries of the host's npm."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin, urlsplit

from libs.gateway.gateway_errors import GatewayError, printable
from libs.gateway.gateway_protocol import ServiceRequest, ServiceResponse
from libs.gateway.package_environment import NPM_HOST
from libs.gateway.packages.cached_listings import Listings
from libs.gateway.packages.host_index_settings import Index, NpmSettings, npm_settings, without_secrets
from libs.gateway.packages.index_client import IndexClient
from libs.gateway.packages.streamed_files import from_outside
from libs.gateway.rules import Resolve
from libs.redaction import Redact, SecretFilter

__all__ = ["NpmRegistry"]

_SHORT: Final = "application/vnd.npm.install-v1+json"
"""The short form of a package's metadata, for installing."""
_NAME = r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*"
_PATH = re.compile(rf"/({_NAME})(?:/-/([A-Za-z0-9._~+-]+\.tgz))?")
_VERSION = re.compile(r"[0-9A-Za-z.+-]+")
_MOST_NAME: Final = 214
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class _Ready:
    settings: NpmSettings
    client: IndexClient
    redact: SecretFilter


class NpmRegistry:
    """Answers http://npm.gateway/; a `Service` of the proxy. Takes only GET and HEAD: no publishing.

    `/<package>` is the metadata of a package. Its tarballs have URLs of this host in the usual form
    `/<package>/-/<name>-<version>.tgz`, so lock files from elsewhere work. Registries, file locations and
    credentials stay on the host.
    """

    def __init__(
        self,
        *,
        resolve: Resolve,
        settings: Callable[[], NpmSettings] = npm_settings,
        redact: Redact | None = None,
    ) -> None:
        """Take the arguments of `package_services`. The first request reads the settings of npm."""
        self._settings = settings
        self._resolve = resolve
        self._redact = redact or SecretFilter({})
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._listings: Listings[str, str] = Listings()

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        if request.method not in ("GET", "HEAD"):
            raise GatewayError(405, f"{NPM_HOST} takes GET and HEAD: nothing can be published through it")
        found = _PATH.fullmatch(unquote(request.path))
        if found is None or len(found[1]) > _MOST_NAME:
            raise GatewayError(
                404, f"{NPM_HOST} has packages and their tarballs, not {printable(request.path)}"
            )
        name, file = found.groups()
        ready = await asyncio.to_thread(lambda: self._ready)
        registry = ready.settings.scopes.get(name.partition("/")[0], ready.settings.registry)
        if file is None:
            short = any(
                key.lower() == b"accept" and _SHORT.encode() in value for key, value in request.headers
            )
            kind, content = await self._metadata(ready, registry, name, short=short)
            content = await asyncio.to_thread(lambda: self._redact(ready.redact(content)))
            return ServiceResponse(200, content, [(b"Content-Type", kind.encode())])
        files = self._listings.get(name)
        if file not in files:
            await self._metadata(ready, registry, name, short=True)
            files = self._listings.get(name)
        if file in files and (
            response := await from_outside(ready.client, files[file], registry, request.method)
        ):
            return response
        raise GatewayError(404, f"{NPM_HOST}: {printable(name)} lists no {printable(file)}")

    async def _metadata(self, ready: _Ready, registry: Index, name: str, *, short: bool) -> tuple[str, bytes]:
        """Return type and content of a package's metadata, with own tarball URLs. Raises GatewayError."""
        url = f"{registry.url.rstrip('/')}/{quote(name, safe='@~').replace('%2F', '%2f')}"
        accept = f"{_SHORT}; q=1.0, application/json; q=0.8" if short else "application/json"
        async with self._at_once:
            page = await ready.client.page(url, registry, accept=accept)
            if page is None:
                raise GatewayError(404, f"{name} is not in the registry that npm on the host is set to")
            try:
                content, files = await asyncio.to_thread(_with_own_urls, name, page.content, page.url)
            except ValueError:
                where = urlsplit(registry.url).hostname
                raise GatewayError(502, f"{where} did not return npm package metadata") from None
        self._listings.put(name, files)
        return _SHORT if page.kind.startswith(_SHORT) else "application/json", content

    @cached_property
    def _ready(self) -> _Ready:
        """The settings of npm. Blocks while npm runs."""
        settings = self._settings()
        registries = [settings.registry, *settings.scopes.values()]
        return _Ready(
            settings, IndexClient(settings.network, registries, self._resolve), without_secrets(registries)
        )


def _with_own_urls(name: str, content: bytes, page: str) -> tuple[bytes, dict[str, str]]:
    """Replace tarball URLs by URLs of this host; return the original URLs by file. Raises ValueError."""
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
