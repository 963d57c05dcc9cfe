"""The virtual host `pip.gateway`: serves all indexes of the host's pip."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import AnyStr, Final
from urllib.parse import quote, unquote, urlsplit

from packaging.utils import canonicalize_name

from libs.gateway.gateway_errors import GatewayError, printable
from libs.gateway.gateway_protocol import ServiceRequest, ServiceResponse
from libs.gateway.package_environment import PIP_HOST
from libs.gateway.packages.cached_listings import Listings
from libs.gateway.packages.host_index_settings import Index, PipSettings, pip_settings, without_secrets
from libs.gateway.packages.index_client import IndexClient
from libs.gateway.packages.index_pages import ACCEPT, HTML, PackageFile, as_html, files_of, is_of
from libs.gateway.packages.local_files import LocalIndex
from libs.gateway.packages.streamed_files import from_disk, from_outside
from libs.gateway.rules import Resolve
from libs.redaction import Redact, SecretFilter

__all__ = ["PipIndex", "failed_page"]

logger = logging.getLogger(__name__)

_PROJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_METADATA: Final = ".metadata"
_AT_ONCE: Final = 8
"""Pages that are read at once for all sandboxes, because a page may need much memory."""


@dataclass(frozen=True, slots=True)
class _Source:
    """An index or find-links entry of pip."""

    number: int
    index: Index
    is_page: bool
    """Whether this is a find-links page with files of all projects."""
    local: LocalIndex | None


@dataclass(frozen=True, slots=True)
class _Ready:
    sources: tuple[_Source, ...]
    client: IndexClient
    redact: SecretFilter


class PipIndex:
    """Answers http://pip.gateway/; a `Service` of the proxy. Takes only GET and HEAD: no publishing.

    `/simple/<project>/` lists the files of a project in all indexes and find-links, in HTML.
    `/files/<n>/<project>/<file>` is a file that source n lists, and `<file>.metadata` its metadata. Locations
    and credentials stay on the host. Only listed files are served.

    A failed page has status 200 and the error message in its Content-Type. pip refuses the type and shows
    it; pip shows no other part of a failed page.
    """

    def __init__(
        self,
        *,
        resolve: Resolve,
        writable: Sequence[Path],
        settings: Callable[[], PipSettings] = pip_settings,
        redact: Redact | None = None,
    ) -> None:
        """Take the arguments of `package_services`. The first request reads the settings of pip."""
        self._settings = settings
        self._resolve = resolve
        self._redact = redact or SecretFilter({})
        self._writable = tuple(writable)
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._listings: Listings[tuple[int, str], PackageFile] = Listings()

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        if request.method not in ("GET", "HEAD"):
            raise GatewayError(405, f"{PIP_HOST} takes GET and HEAD: nothing can be published through it")
        match request.path.split("/"):
            case ["", "simple", name] | ["", "simple", name, ""]:
                return await self._page(_project(name))
            case ["", "files", number, name, file]:
                return await self._file(number, _project(name), unquote(file), request.method)
        raise GatewayError(
            404,
            f"{PIP_HOST} has /simple/<project>/ and the files listed there, not {printable(request.path)}",
        )

    # -- pages

    async def _page(self, project: str) -> ServiceResponse:
        try:
            ready = await asyncio.to_thread(lambda: self._ready)
            found, errors = await self._found(ready, project)
            if found is None and errors:
                raise errors[0]
        except GatewayError as error:
            logger.warning("%s, for %s: %s", PIP_HOST, project, error)
            return failed_page(str(error))
        if found is None:
            raise GatewayError(404, f"{project} is in none of the indexes that pip on the host is set to")
        skipped = "; ".join(str(each) for each in errors)
        if skipped:
            logger.warning("%s, for %s, goes without: %s", PIP_HOST, project, skipped)
        listed = (
            (f"http://{PIP_HOST}/files/{number}/{project}/{quote(file.name)}", file) for number, file in found
        )

        def redact(text: AnyStr) -> AnyStr:
            return self._redact(ready.redact(text))

        content = await asyncio.to_thread(lambda: redact(as_html(project, listed, redact)))
        kind = f"{HTML}; charset=utf-8"
        return ServiceResponse(
            200, content, [(b"Content-Type", kind.encode())], reason=printable(skipped, 500)
        )

    async def _found(
        self, ready: _Ready, project: str
    ) -> tuple[list[tuple[int, PackageFile]] | None, list[GatewayError]]:
        """Return the files of a project with their source numbers (None: unknown project), and errors."""
        answers = await asyncio.gather(
            *(self._read(ready, source, project) for source in ready.sources), return_exceptions=True
        )
        found: list[tuple[int, PackageFile]] | None = None
        errors: list[GatewayError] = []
        for source, answer in zip(ready.sources, answers, strict=True):
            if isinstance(answer, GatewayError):
                errors.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            elif answer is not None:
                found = (found or []) + [(source.number, file) for file in answer.values()]
        return found, errors

    async def _read(self, ready: _Ready, source: _Source, project: str) -> dict[str, PackageFile] | None:
        """Return the files of a project in one source, by name. Raises GatewayError."""
        async with self._at_once:
            files = await self._listed(ready, source, project)
        if files is None or (source.is_page and not files):
            return None
        named: dict[str, PackageFile] = {}
        for file in files:
            named.setdefault(file.name, file)  # the first of a name wins
        self._listings.put((source.number, project), named)
        return named

    async def _listed(self, ready: _Ready, source: _Source, project: str) -> list[PackageFile] | None:
        index = source.index
        try:
            if source.is_page and source.local:
                return _of(project, await asyncio.to_thread(source.local.listed))
            if source.local:
                return await asyncio.to_thread(source.local.of_project, project)
            url = index.url if source.is_page else f"{index.url.rstrip('/')}/{project}/"
            page = await ready.client.page(url, index, accept=ACCEPT)
            if page is None:
                return None
            files = await asyncio.to_thread(files_of, page.content, page.kind, page.url)
        except ValueError as error:
            where = urlsplit(index.url)
            raise GatewayError(502, f"{where.hostname or 'a local index'} {error}") from None
        return _of(project, files) if source.is_page else files

    # -- files

    async def _file(self, number: str, project: str, name: str, method: str) -> ServiceResponse:
        """Return a listed file. Raises GatewayError."""
        ready = await asyncio.to_thread(lambda: self._ready)
        source = next((source for source in ready.sources if str(source.number) == number), None)
        try:
            response = await self._opened(ready, source, project, name, method) if source else None
        except GatewayError as error:
            # pip repeats a request after 502 skipped showing the reason; after 504 pip shows the reason.
            raise GatewayError(504 if error.status == 502 else error.status, str(error)) from None
        if response is None:
            raise GatewayError(
                404, f"{PIP_HOST}: {printable(name)} is in no index that pip on the host is set to"
            )
        return response

    async def _opened(
        self, ready: _Ready, source: _Source, project: str, name: str, method: str
    ) -> ServiceResponse | None:
        files = self._listings.get((source.number, project)) or await self._read(ready, source, project) or {}
        url = files[name].url if name in files else None
        if url is None and (described := files.get(name.removesuffix(_METADATA))) and described.metadata:
            url = described.url + _METADATA
        if url is None:
            return None
        if source.local and url.startswith("file:"):
            opened = await asyncio.to_thread(source.local.open, url)
            return from_disk(*opened) if opened else None
        return await from_outside(ready.client, url, source.index, method)

    # -- settings of pip

    @cached_property
    def _ready(self) -> _Ready:
        """The sources of pip. Blocks while pip runs."""
        settings = self._settings()
        sources = tuple(self._sources(settings))
        remote = [source.index for source in sources if source.local is None]
        return _Ready(sources, IndexClient(settings.network, remote, self._resolve), without_secrets(remote))

    def _sources(self, settings: PipSettings) -> Iterator[_Source]:
        number = 0
        for is_page, indexes in ((False, settings.indexes), (True, settings.pages)):
            for index in indexes:
                local = None
                if urlsplit(index.url).scheme == "file":
                    try:
                        local = LocalIndex(index.url, self._writable)
                    except GatewayError as error:
                        logger.warning("%s", error)
                        continue
                elif urlsplit(index.url).scheme not in ("http", "https"):
                    logger.warning("%s: an index that is neither http, https nor file is left out", PIP_HOST)
                    continue
                yield _Source(number, index, is_page, local)
                number += 1


def failed_page(message: str) -> ServiceResponse:
    """Return a failed page whose reason pip shows; see `PipIndex`."""
    message = printable(message, 500)
    kind = f'text/plain; error="{message}"'.encode()
    return ServiceResponse(200, f"{message}\n".encode(), [(b"Content-Type", kind)], reason=message)


def _project(name: str) -> str:
    """Return the normalized name of a project. Raises GatewayError."""
    if not _PROJECT.fullmatch(name):
        raise GatewayError(404, f"{PIP_HOST}: {printable(name)} is not a project name")
    return canonicalize_name(name)


def _of(project: str, files: list[PackageFile]) -> list[PackageFile]:
    return [file for file in files if is_of(project, file.name)]
