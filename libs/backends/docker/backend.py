"""What deepagents sees of a sandbox: commands and files, errors as results the model can act on."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import BaseSandbox
from langgraph.config import get_config

from libs.backends.docker import answers
from libs.backends.docker.answers import Answer
from libs.backends.docker.live import live_output
from libs.sandbox import FileFailed, Redact, SandboxError, SandboxLimits

if TYPE_CHECKING:
    import docker

    from libs.sandbox.base import ChannelSandbox
    from libs.sandbox.container import DockerSandbox
    from libs.sandbox.egress import Egress
    from libs.sandbox.pool import SandboxPool
    from libs.sandbox.records import CommandRecords

__all__ = ["CALL_KEY", "TOOL_CALL_ID", "DockerExecutionBackend"]

TOOL_CALL_ID: ContextVar[str | None] = ContextVar("tool_call_id", default=None)
"""The tool call that what runs now belongs to; set by the application around each one."""

CALL_KEY: ContextVar[str | None] = ContextVar("call_key", default=None)
"""Tells the call that runs now from every other one of its thread; set around tools that change something.
One such call asks for one command or one change of a file, and so for nothing twice."""

WORKSPACE = "/workspace"


OUTSIDE = "outside-of-threads"
"""The thread that calls belong to which are made outside of any."""


def _thread() -> str:
    try:
        return str(get_config()["configurable"].get("thread_id") or OUTSIDE)
    except (RuntimeError, KeyError):
        return OUTSIDE


class DockerExecutionBackend(BaseSandbox):
    """A computer for agents: `execute` and the file tools work in one hardened container.

    Building it needs no Docker: the container starts with the first call. Nothing here raises for what a
    command or a file does, nor for a sandbox that fails; it becomes a result that says what to do. Usable
    as a context manager, which ends the container.
    """

    def __init__(
        self,
        root_dir: Path,
        *,
        skills_dir: Path | None = None,
        extra_skills: Sequence[Path] = (),
        limits: SandboxLimits = SandboxLimits(),
        env_allow: Sequence[str] = (),
        image: str = "code-execution-agent",
        name: str = "code-execution-agent",
        runtime: str | None = None,
        scope: Literal["shared", "thread"] = "shared",
        warm: int = 1,
        idle_seconds: float = 900,
        redact: Redact | None = None,
        egress: Egress | None = None,
        suspect: Callable[[str, str | None], None] | None = None,
        records: CommandRecords | None = None,
        sandbox: ChannelSandbox | None = None,
    ) -> None:
        """Describe the computer.

        Args:
            root_dir: the workspace on the host, at `/workspace` inside; made where missing.
            skills_dir: mounted read-only at `/skills`.
            extra_skills: each mounted read-only at `/skills.d/<folder name>`.
            limits: what the sandbox may use.
            env_allow: patterns (`LANG`, `TZ`, `MY_*`) of variables of this process that exist inside too.
                PATH, HOME and the user's name are always the container's own. `*` passes all: unsafe.
            image: what to start.
            name: containers are called `<name>-<8 hex digits>`.
            runtime: an OCI runtime of the Engine, such as `runsc`.
            scope: `shared`: one computer for all threads. `thread`: each thread its own, on
                `<root_dir>/threads/<id>`, with `<root_dir>/data` to read; calls outside of threads share one.
            warm: in scope `thread`, computers that are kept started for new threads.
            idle_seconds: how long one may rest until its container is ended, its workspace kept; the next
                call starts it again. 0: for ever.
            redact: takes secrets out of all that comes back: output, also while it comes, names and contents
                of files, errors. A file that holds one and is no text is refused, not broken.
            egress: serves the connections that programs make to their proxy; without it there is none.
            suspect: called with the output of each command, without known secrets, and the id of its tool
                call. `aexecute` calls it in a thread, as it may take a second.
            records: where it is written down what has begun and how it ended, so that a call (see CALL_KEY)
                of a run that is executed again after a kill does nothing twice; closed with the containers.
            sandbox: a computer that is there already, in the place of the one described by the rest.

        Raises:
            ValueError: two extra skill folders have the same name, a skill folder is not there, or the
                sandbox does not isolate what a model runs from this machine.
        """
        if sandbox is not None and not sandbox.isolated:
            raise ValueError(f"{type(sandbox).__name__} does not isolate: it must not get a model's commands")
        read_only = {"/skills": skills_dir} if skills_dir else {}
        for folder in extra_skills:
            if read_only.setdefault(f"/skills.d/{folder.name}", folder) != folder:
                raise ValueError(f"two skill folders are called {folder.name!r}: rename one of them")
        for folder in read_only.values():
            if not folder.is_dir():
                raise ValueError(f"the skill folder {folder} is not there: make it, or leave it out")
        # Links are followed here: the first call may come on an event loop, which must not wait for a disk.
        root = root_dir.resolve()
        mounted = {path: folder.resolve() for path, folder in read_only.items()}
        self.name = name
        self._suspect = suspect
        self._records = records
        self._image = image
        # The one reading of the environment outside Settings: which names pass is decided there.
        environment = {
            key: value
            for key, value in os.environ.items()
            if any(fnmatchcase(key, pattern) for pattern in env_allow)
        }

        def make(folder: Path, thread: str | None = None, **more: Any) -> DockerSandbox:
            from libs.sandbox.container import DockerSandbox
            from libs.sandbox.strays import THREAD_LABEL, WORKSPACE_LABEL

            data = {"/workspace/data": root / "data"} if scope == "thread" else {}
            # A spare has none: the Engine cannot add the label once a thread has taken it.
            whose = {} if thread is None else {THREAD_LABEL: thread}
            return DockerSandbox(
                folder,
                image=image,
                name=name,
                limits=limits,
                read_only={**mounted, **data},
                environment=environment,
                runtime=runtime,
                check_image=self._check_image,
                labels={WORKSPACE_LABEL: str(root), **whose},
                idle_seconds=idle_seconds if thread is not None or scope == "shared" else 0,
                redact=redact,
                egress=egress,
                records=records,
                thread=_thread,
                **more,
            )

        def make_pool() -> SandboxPool:
            from libs.sandbox.pool import SandboxPool

            return SandboxPool(root, make, warm=warm)

        self._make_shared: Callable[[], ChannelSandbox] = lambda: make(root, resolved=True)
        self._make_pool = make_pool if scope == "thread" else None
        # Made by the first call: a graph is built without waiting for the import of all that runs containers.
        self._making = threading.Lock()
        self._shared = sandbox
        self._threads: SandboxPool | None = None

    @property
    def _pool(self) -> SandboxPool | None:
        """In scope `thread`, what gives each thread its computer."""
        if self._make_pool:
            with self._making:
                self._threads = self._threads or self._make_pool()
        return self._threads

    @property
    def sandbox(self) -> ChannelSandbox:
        """The computer: in scope `thread`, that of the thread in which this is asked."""
        return self.sandbox_of(_thread())

    def sandbox_of(self, thread: str) -> ChannelSandbox:
        """The computer of a thread, for whoever is in none."""
        if pool := self._pool:
            return pool.sandbox_for(thread)
        with self._making:
            self._shared = self._shared or self._make_shared()
            return self._shared

    @property
    def id(self) -> str:
        return f"docker-exec-{self.name}"

    def _check_image(self, client: docker.DockerClient) -> None:
        from libs.backends.docker.image import require_image

        require_image(client, self._image)

    # -- commands

    def execute(self, command: str, *, timeout: float | None = None) -> ExecuteResponse:
        """Run a command in `/workspace`; see `libs.sandbox.protocol.Sandbox.run`.

        Returns:
            Exit code 124 after a time-out; 125 where the sandbox failed, with what mends it as output, or
            where this call was under way before and its effect is unknown: then nothing was run.

        Raises:
            ValueError: the time-out is not over 0 and at most 3,600 seconds.
        """
        with live_output(TOOL_CALL_ID.get()) as show:
            try:
                result = self.sandbox.run(command, timeout=timeout, on_output=show, key=CALL_KEY.get())
            except SandboxError as error:
                return answers.execute_failed(error)
        if self._suspect:
            self._suspect(result.output, TOOL_CALL_ID.get())
        return answers.execute(result)

    async def aexecute(
        self,
        command: str,
        *,
        timeout: float | None = None,
    ) -> ExecuteResponse:
        """`execute`, without a thread that waits. Cancelling ends the command."""
        with live_output(TOOL_CALL_ID.get()) as show:
            try:
                result = await self.sandbox.arun(command, timeout=timeout, on_output=show, key=CALL_KEY.get())
            except SandboxError as error:
                return answers.execute_failed(error)
        if self._suspect:
            await asyncio.to_thread(self._suspect, result.output, TOOL_CALL_ID.get())
        return answers.execute(result)

    # -- files

    def _file(self, do: str, *, content: bytes | None = None, **arguments: Any) -> Answer:
        try:
            return self.sandbox.file(do, content=content, **arguments)
        except (FileFailed, SandboxError) as error:
            return error

    async def _afile(self, do: str, *, content: bytes | None = None, **arguments: Any) -> Answer:
        try:
            return await self.sandbox.afile(do, content=content, **arguments)
        except (FileFailed, SandboxError) as error:
            return error

    def _changed(self, do: str, **request: Any) -> Answer:
        """`_file` of what is not to be done twice: an edit would add its text again, for one."""
        return self._file(do, key=CALL_KEY.get(), **request)

    async def _achanged(self, do: str, **request: Any) -> Answer:
        return await self._afile(do, key=CALL_KEY.get(), **request)

    def ls(self, path: str) -> LsResult:
        return answers.ls(path, self._file("ls", path=path or WORKSPACE))

    async def als(self, path: str) -> LsResult:
        return answers.ls(path, await self._afile("ls", path=path or WORKSPACE))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return answers.read(file_path, self._file("page", **answers.page_request(file_path, offset, limit)))

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        request = answers.page_request(file_path, offset, limit)
        return answers.read(file_path, await self._afile("page", **request))

    def write(self, file_path: str, content: str) -> WriteResult:
        """Make a new file. One that is there is refused: changing it is what `edit` is for."""
        data = content.encode("utf-8", "replace")
        return answers.write(file_path, self._changed("write", path=file_path, replace=False, content=data))

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        data = content.encode("utf-8", "replace")
        answer = await self._achanged("write", path=file_path, replace=False, content=data)
        return answers.write(file_path, answer)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        request = answers.edit_request(file_path, old_string, new_string, replace_all)
        return answers.edit(file_path, old_string, self._changed("edit", **request))

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        request = answers.edit_request(file_path, old_string, new_string, replace_all)
        return answers.edit(file_path, old_string, await self._achanged("edit", **request))

    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file or a folder with all it holds, but never the workspace or its folders themselves."""
        return answers.delete(file_path, self._changed("delete", path=file_path))

    async def adelete(self, file_path: str) -> DeleteResult:
        return answers.delete(file_path, await self._achanged("delete", path=file_path))

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        return answers.glob(path, self._file("glob", path=path or WORKSPACE, pattern=pattern))

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        return answers.glob(path, await self._afile("glob", path=path or WORKSPACE, pattern=pattern))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        request = answers.grep_request(path or WORKSPACE, pattern, glob, max_count)
        return answers.grep(path, self._file("grep", **request))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        request = answers.grep_request(path or WORKSPACE, pattern, glob, max_count)
        return answers.grep(path, await self._afile("grep", **request))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Make or replace files; see `libs.sandbox.protocol.Sandbox.write_file`."""
        done = []
        for path, content in files:
            answer = answers.absolute(path) or self._file("write", path=path, replace=True, content=content)
            done.append(answers.upload(path, answer))
        return done

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        done = []
        for path, content in files:
            refused = answers.absolute(path)
            answer = refused or await self._afile("write", path=path, replace=True, content=content)
            done.append(answers.upload(path, answer))
        return done

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [
            answers.download(path, answers.absolute(path) or self._file("read", path=path)) for path in paths
        ]

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [
            answers.download(path, answers.absolute(path) or await self._afile("read", path=path))
            for path in paths
        ]

    # -- life

    def reset(self) -> None:
        """End everything that runs; the next call starts a fresh container on the same workspace."""
        self.sandbox.reset()

    def close(self) -> None:
        """End every container. A later call starts a new one."""
        if made := self._threads or self._shared:
            made.close()
        if self._records:
            self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
