"""The virtual host `pip.gateway`: for the sandbox, all that the indexes of the host's pip have."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from libs.gateway.addresses import Resolve
from libs.gateway.errors import GatewayError, shown
from libs.gateway.packages.host_settings import Index, PipSettings, pip_settings, without_secrets
from libs.gateway.packages.links import (
    ACCEPT,
    HTML,
    JSON,
    PackageFile,
    as_html,
    as_json,
    files_of,
    is_of,
    normal_name,
)
from libs.gateway.packages.listings import Listings, first_of_a_name
from libs.gateway.packages.local_files import LocalIndex
from libs.gateway.packages.outside import Outside
from libs.gateway.packages.streamed import from_disk, from_outside
from libs.gateway.packages.variables import PIP_HOST
from libs.gateway.protocol import ServiceRequest, ServiceResponse

__all__ = ["PipIndex", "failed_page"]

logger = logging.getLogger(__name__)

_PROJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_METADATA: Final = ".metadata"
_AT_ONCE: Final = 8
"""Pages that are read at once, for all sandboxes: one may need much memory."""


@dataclass(frozen=True, slots=True)
class _Source:
    """One of the places where pip looks."""

    number: int
    index: Index
    is_page: bool
    """Whether it is one page with the files of all projects, find-links, and no index."""
    local: LocalIndex | None


@dataclass(frozen=True, slots=True)
class _Ready:
    sources: tuple[_Source, ...]
    outside: Outside
    redact: Callable[[bytes], bytes]


class PipIndex:
    """Answers http://pip.gateway/; a `Service` of the proxy. GET and HEAD alone: nothing can be published.

    `/simple/<project>/` lists the files that all indexes and find-links of the host's pip have of a project,
    in HTML or JSON, with their hashes: pip makes no difference between them, so neither does this.
    `/files/<n>/<project>/<file>` is one that source n lists, and `<file>.metadata` its metadata; where it is,
    and with which credentials it is fetched, stays on the host. What an index does not list cannot be had.

    A page that could not be had comes with status 200 and its message as the Content-Type, which pip refuses:
    of all that may be wrong with a page, this alone is shown to whoever installs.
    """

    def __init__(
        self,
        *,
        resolve: Resolve,
        writable: Sequence[Path],
        settings: Callable[[], PipSettings] = pip_settings,
        redact: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Nothing is read, asked or connected until somebody installs.

        Args:
            resolve: finds the addresses of hosts that an index leads to, and refuses private ones.
            writable: folders that the sandbox can write to; no local index may lie in one.
            settings: says what pip is set to; asked once.
            redact: takes secrets out of pages.
        """
        self._settings = settings
        self._resolve = resolve
        self._redact = redact or bytes
        self._writable = tuple(writable)
        self._once = asyncio.Lock()
        self._ready: _Ready | None = None
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._listings: Listings[tuple[int, str], PackageFile] = Listings()

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        if request.method not in ("GET", "HEAD"):
            raise GatewayError(405, f"{PIP_HOST} takes GET and HEAD: nothing can be published through it")
        match request.path.split("/"):
            case ["", "simple", name] | ["", "simple", name, ""]:
                return await self._page(_project(name), request)
            case ["", "files", number, name, file]:
                return await self._file(number, _project(name), unquote(file), request.method)
        raise GatewayError(
            404,
            f"{PIP_HOST} has /simple/<project>/ and the files listed there, not {shown(request.path)}",
        )

    # -- pages

    async def _page(self, project: str, request: ServiceRequest) -> ServiceResponse:
        try:
            ready = await self._asked()
            found, errors = await self._found(ready, project)
            if found is None and errors:
                raise errors[0]
        except GatewayError as error:
            logger.warning("%s, for %s: %s", PIP_HOST, project, error)
            return failed_page(str(error))
        if found is None:
            raise GatewayError(404, f"{project} is in none of the indexes that pip on the host is set to")
        without = "; ".join(str(each) for each in errors)
        if without:
            logger.warning("%s, for %s, goes without: %s", PIP_HOST, project, without)
        listed = (
            (f"http://{PIP_HOST}/files/{number}/{project}/{quote(file.name)}", file) for number, file in found
        )
        wants_json = any(
            name.lower() == b"accept" and JSON.encode() in value for name, value in request.headers
        )
        write, kind = (as_json, JSON) if wants_json else (as_html, f"{HTML}; charset=utf-8")
        content = await asyncio.to_thread(lambda: self._redact(ready.redact(write(project, listed))))
        return ServiceResponse(200, content, [(b"Content-Type", kind.encode())], reason=shown(without, 500))

    async def _found(
        self, ready: _Ready, project: str
    ) -> tuple[list[tuple[int, PackageFile]] | None, list[GatewayError]]:
        """The files of a project, with the numbers of their sources, if one has it; and what went wrong."""
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
        """What one source lists for a project, by name. Raises GatewayError."""
        async with self._at_once:
            files = await self._listed(ready, source, project)
        if files is None or (source.is_page and not files):
            return None
        named = first_of_a_name(files, lambda file: file.name)
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
            page = await ready.outside.page(url, index, accept=ACCEPT)
            if page is None:
                return None
            files = await asyncio.to_thread(files_of, page.content, page.kind, page.url)
        except ValueError as error:
            where = urlsplit(index.url)
            raise GatewayError(502, f"{where.hostname or 'a local index'} {error}") from None
        return _of(project, files) if source.is_page else files

    # -- files

    async def _file(self, number: str, project: str, name: str, method: str) -> ServiceResponse:
        """A file that a source lists. Raises GatewayError."""
        ready = await self._asked()
        source = next((source for source in ready.sources if str(source.number) == number), None)
        try:
            response = await self._opened(ready, source, project, name, method) if source else None
        except GatewayError as error:
            # After 502 pip asks again and again, and shows nothing of why; after 504 it shows the reason.
            raise GatewayError(504 if error.status == 502 else error.status, str(error)) from None
        if response is None:
            raise GatewayError(
                404, f"{PIP_HOST}: {shown(name)} is in no index that pip on the host is set to"
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
        return await from_outside(ready.outside, url, source.index, method)

    # -- what pip is set to

    async def _asked(self) -> _Ready:
        async with self._once:
            if self._ready is None:
                self._ready = await asyncio.to_thread(self._prepare)
            return self._ready

    def _prepare(self) -> _Ready:
        settings = self._settings()
        sources = tuple(self._sources(settings))
        remote = [source.index for source in sources if source.local is None]
        return _Ready(sources, Outside(settings.reach, remote, self._resolve), without_secrets(remote))

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
    """A page that could not be had, so that pip shows why: see `PipIndex`."""
    message = shown(message, 500)
    kind = f'text/plain; error="{message}"'.encode()
    return ServiceResponse(200, f"{message}\n".encode(), [(b"Content-Type", kind)], reason=message)


def _project(name: str) -> str:
    """The name of a project, in the one form that URLs have. Raises GatewayError."""
    if not _PROJECT.fullmatch(name):
        raise GatewayError(404, f"{PIP_HOST}: {shown(name)} is no name of a project")
    return normal_name(name)


def _of(project: str, files: list[PackageFile]) -> list[PackageFile]:
    return [file for file in files if is_of(project, file.name)]
