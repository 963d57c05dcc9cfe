"""Offers the files of a sandbox to the file tools of deepagents."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import BaseSandbox

from libs.backends.absolute_patterns import may_name_system
from libs.backends.asynchronous_backend import AsyncBackend
from libs.backends.docker import deepagents_results as answers
from libs.backends.docker.deepagents_results import Answer
from libs.sandbox import FileFailed, SandboxError
from libs.sandbox.host import current_call

if TYPE_CHECKING:
    from libs.sandbox.host import ChannelSandbox

__all__ = ["SandboxFiles"]

WORKSPACE = "/workspace"


class SandboxFiles(AsyncBackend, BaseSandbox):
    """The file operations of a backend. None raises for what a file does; the result says what to do."""

    @property
    @abstractmethod
    def sandbox(self) -> ChannelSandbox:
        """The sandbox that has the files."""

    async def _file(self, do: str, **arguments: Any) -> Answer:
        try:
            return await self.sandbox.afile(do, **arguments)
        except (FileFailed, SandboxError) as error:
            return error

    async def _changed(self, do: str, **request: Any) -> Answer:
        """Run a file change with the key of the current call, so that it is not done twice."""
        return await self._file(do, key=current_call().key, **request)

    async def als(self, path: str) -> LsResult:
        return answers.ls(path, await self._file("ls", path=path or WORKSPACE))

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        request = answers.page_request(file_path, offset, limit)
        return answers.read(file_path, await self._file("page", **request))

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Create a new file. An existing file is refused, as `edit` changes files."""
        refused = answers.not_text(content)
        data = b"" if refused else content.encode()
        answer = refused or await self._changed("write", path=file_path, replace=False, content=data)
        return answers.write(file_path, answer)

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        texts = {"old": old_string, "new": new_string, "replace_all": replace_all}
        refused = answers.not_text(old_string) or answers.not_text(new_string)
        answer = refused or await self._changed("edit", path=file_path, **texts)
        return answers.edit(file_path, old_string, answer)

    async def adelete(self, file_path: str) -> DeleteResult:
        """Delete a file or a folder with its content, but never the workspace or its own folders."""
        return answers.delete(file_path, await self._changed("delete", path=file_path))

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files. Without a path, the pattern is relative to `/workspace`, or an absolute path."""
        return answers.glob(path, await self._search("glob", path, pattern))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines. `glob` is a pattern as in `aglob`, but `**` also matches folders like `.github`."""
        return answers.grep(path, await self._search("grep", path, glob, text=pattern, most=max_count))

    async def _search(self, do: str, path: str | None, pattern: str | None, **arguments: Any) -> Answer:
        """Search a folder. No path: `/workspace`, and `/` if an absolute pattern may name files there."""
        answer = await self._file(do, path=path or WORKSPACE, pattern=pattern, **arguments)
        if path is not None or not may_name_system(pattern or "", failed=not isinstance(answer, tuple)):
            return answer
        # The workspace may have a folder of this name, too. The paths of the matches tell them apart.
        if isinstance(answer, tuple) and arguments.get("most"):
            arguments["most"] -= len(answer[0]["matches"])
        return answers.joined(answer, await self._file(do, path="/", pattern=pattern, **arguments))

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Create or replace files; see `libs.sandbox.protocol.Sandbox.write_file`."""
        done = []
        for path, content in files:
            refused = answers.absolute(path)
            answer = refused or await self._file("write", path=path, replace=True, content=content)
            done.append(answers.upload(path, answer))
        return done

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [
            answers.download(path, answers.absolute(path) or await self._file("read", path=path))
            for path in paths
        ]
