"""Shows one folder of another backend read-only."""

# ruff: noqa: ARG002 - the signatures are those of BackendProtocol

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import cast

from deepagents.backends.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)

from libs.backends.asynchronous_backend import AsyncBackend

__all__ = ["ReadOnlyBackend"]


class ReadOnlyBackend(AsyncBackend):
    """Shows `root` of `backend` as `/` and refuses every change.

    A path is normalised first, so `..` ends at `root`. A refusal is a result with an error that the model can
    read; nothing raises. Paths are relative to `root` in both directions, because a `CompositeBackend` strips
    the route and adds it again.
    """

    def __init__(self, backend: BackendProtocol, root: str) -> None:
        """Wrap `backend`; `root` is an absolute POSIX path in it, other than `/`.

        Raises:
            ValueError: `root` is relative or `/`.
        """
        self.root = posixpath.normpath(root)
        if not self.root.startswith("/") or not self.root.strip("/"):
            raise ValueError(f"root is {root!r}: it must be an absolute path below /")
        self.backend = backend

    def _inner(self, path: str) -> str:
        inside = posixpath.normpath("/" + path.lstrip("/"))
        return self.root if inside == "/" else self.root + inside

    def _outer(self, path: str) -> str:
        return path.removeprefix(self.root) or "/"

    def _refusal(self, path: str) -> str:
        where = f"{self._inner(path)} is read-only, like all of {self.root}"
        return f"Error: {where}. Work below /workspace, on a copy of what is to change."

    def _files(self, files: list[FileInfo] | None) -> list[FileInfo] | None:
        if files is None:
            return None
        return [cast("FileInfo", {**file, "path": self._outer(file["path"])}) for file in files]

    async def als(self, path: str) -> LsResult:
        result = await self.backend.als(self._inner(path))
        return replace(result, entries=self._files(result.entries))

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return await self.backend.aread(self._inner(file_path), offset=offset, limit=limit)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        result = await self.backend.aglob(pattern, self._inner(path or "/"))
        return replace(result, matches=self._files(result.matches))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        result = await self.backend.agrep(pattern, self._inner(path or "/"), glob, max_count=max_count)
        if result.matches is None:
            return result
        matches = [
            cast("GrepMatch", {**match, "path": self._outer(match["path"])}) for match in result.matches
        ]
        return replace(result, matches=matches)

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        responses = await self.backend.adownload_files([self._inner(path) for path in paths])
        return [replace(response, path=path) for path, response in zip(paths, responses, strict=True)]

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        return WriteResult(error=self._refusal(file_path))

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        return EditResult(error=self._refusal(file_path))

    async def adelete(self, file_path: str) -> DeleteResult:
        return DeleteResult(error=self._refusal(file_path))

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error="permission_denied") for path, _ in files]
