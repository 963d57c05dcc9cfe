"""A view of one folder of another backend that answers reads and refuses every change."""

# ruff: noqa: ARG002 - the signatures are those of BackendProtocol

from __future__ import annotations

import posixpath
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

__all__ = ["ReadOnlyBackend"]


class ReadOnlyBackend(BackendProtocol):
    """Shows `root` of `backend` as `/` and lets nothing be changed there.

    A path is normalised before it is used, so `..` ends at `root`. Refusals are results with an error
    the model can read; nothing raises. They hold for dotfiles as for everything else: no pattern is
    involved. A `CompositeBackend` strips the route and puts it back, which is why paths are relative to
    `root` in both directions.
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
        return f"Error: {self._inner(path)} is read-only. Copy it to /workspace and change the copy."

    def _files(self, files: list[FileInfo] | None) -> list[FileInfo] | None:
        if files is None:
            return None
        return [cast("FileInfo", {**file, "path": self._outer(file["path"])}) for file in files]

    def _ls(self, result: LsResult) -> LsResult:
        return LsResult(error=result.error, entries=self._files(result.entries))

    def _glob(self, result: GlobResult) -> GlobResult:
        return GlobResult(
            error=result.error,
            matches=self._files(result.matches),
            truncated=result.truncated,
            truncation_reason=result.truncation_reason,
        )

    def _grep(self, result: GrepResult) -> GrepResult:
        if result.matches is None:
            return result
        matches = [
            cast("GrepMatch", {**match, "path": self._outer(match["path"])}) for match in result.matches
        ]
        return GrepResult(error=result.error, matches=matches, truncated=result.truncated)

    def _downloads(
        self, paths: list[str], responses: list[FileDownloadResponse]
    ) -> list[FileDownloadResponse]:
        return [
            FileDownloadResponse(path=path, content=response.content, error=response.error)
            for path, response in zip(paths, responses, strict=True)
        ]

    def ls(self, path: str) -> LsResult:
        return self._ls(self.backend.ls(self._inner(path)))

    async def als(self, path: str) -> LsResult:
        return self._ls(await self.backend.als(self._inner(path)))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return self.backend.read(self._inner(file_path), offset=offset, limit=limit)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return await self.backend.aread(self._inner(file_path), offset=offset, limit=limit)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        return self._glob(self.backend.glob(pattern, self._inner(path or "/")))

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        return self._glob(await self.backend.aglob(pattern, self._inner(path or "/")))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        return self._grep(self.backend.grep(pattern, self._inner(path or "/"), glob, max_count=max_count))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        return self._grep(
            await self.backend.agrep(pattern, self._inner(path or "/"), glob, max_count=max_count)
        )

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return self._downloads(paths, self.backend.download_files([self._inner(path) for path in paths]))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        inner = [self._inner(path) for path in paths]
        return self._downloads(paths, await self.backend.adownload_files(inner))

    # The async twins of the refusals are written out, as the inherited ones would start a thread to refuse.

    def write(self, file_path: str, content: str) -> WriteResult:
        return WriteResult(error=self._refusal(file_path))

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        return self.write(file_path, content)

    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,
    ) -> EditResult:
        return EditResult(error=self._refusal(file_path))

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        return self.edit(file_path, old_string, new_string, replace_all)

    def delete(self, file_path: str) -> DeleteResult:
        return DeleteResult(error=self._refusal(file_path))

    async def adelete(self, file_path: str) -> DeleteResult:
        return self.delete(file_path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error="permission_denied") for path, _ in files]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return self.upload_files(files)
