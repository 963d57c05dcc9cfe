"""Offers a sandbox as a deepagents backend. Errors become results that the model can act on."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, cast

from deepagents.backends.protocol import ExecuteResponse
from langgraph.config import get_config

from libs.backends.docker import deepagents_results as answers
from libs.backends.docker.file_operations import SandboxFiles
from libs.backends.docker.host_inputs import (
    allowed_variables,
    mounted_packages,
    mounted_skills,
    usable_workspace,
)
from libs.backends.docker.live_stream import live_output
from libs.backends.docker.sandbox_makers import SandboxesOfThreads, SandboxMakers
from libs.redaction import Redact
from libs.sandbox import CommandInterrupted, SandboxError, SandboxLimits, command_places, declared_uses
from libs.sandbox.host import OUTSIDE, core, current_call, failed_result

if TYPE_CHECKING:
    from libs.sandbox.cluster import CheckImage, Cluster, ClusterPool
    from libs.sandbox.host import ChannelSandbox, CommandRecords, Egress

__all__ = ["DockerExecutionBackend"]


def _thread() -> str:
    try:
        return str(get_config()["configurable"].get("thread_id") or OUTSIDE)
    except (RuntimeError, KeyError):
        return OUTSIDE


class DockerExecutionBackend(SandboxFiles):
    """A computer for agents: `execute` and the file tools work in one hardened container.

    Creating the object needs no Docker: the container starts with the first call. No method raises for what a
    command or a file does, nor for a sandbox that fails; the result says what to do. As a context manager, it
    stops the containers at the end.
    """

    def __init__(
        self,
        root_dir: Path | str,
        *,
        skills_dir: Path | str | None = None,
        extra_skills: Sequence[Path | str] = (),
        skills_trusted: Collection[str] | None = None,
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
        environment: Mapping[str, str] | None = None,
        servers: Path | None = None,
        cluster: Callable[[CheckImage], Cluster] | None = None,
    ) -> None:
        """Create the object. No container is started.

        Args:
            root_dir: the workspace on the host, mounted at `/workspace`. Created if missing.
            skills_dir: mounted read-only at `/skills`.
            extra_skills: each mounted read-only at `/skills.d/<folder name>`.
            skills_trusted: skills of `extra_skills` whose commands are on PATH; see
                `libs.sandbox.is_trusted`. None trusts all.
            limits: limits of each container.
            env_allow: patterns (`LANG`, `TZ`, `MY_*`) of the variables of `environment` that are passed in.
                PATH, HOME and the user's name are never passed. `*` passes all others, which is unsafe. No
                container starts with a variable that is not UTF-8 or over 131,071 bytes with its name, with
                variables of over 1 MB, or with over 65,535 of them.
            image: name of the image.
            name: containers are called `<name>-<8 hex digits>`.
            runtime: an OCI runtime of the Engine, such as `runsc`.
            scope: `shared`: one container for all threads. `thread`: one for each thread, on
                `<root_dir>/threads/<id>`, with `<root_dir>/data` to read. Calls outside of threads share one.
            warm: in scope `thread`, number of spare containers for new threads.
            idle_seconds: seconds without a request after which a container is stopped. The workspace stays,
                and the next call starts a container again. 0: never.
            redact: removes secrets from all results: output, live output, names and contents of files,
                errors. A binary file that holds a secret is refused.
            egress: creates the gateway's end for each container. None: programs inside find no proxy.
            suspect: called with the output of each command, without known secrets, and the id of its tool
                call. `aexecute` calls it in a thread, as it may take a second.
            records: the command log. With it, a call with a key (see `CurrentCall.key`) runs once, even if
                the run is executed again after a kill. Closed with the containers.
            sandbox: an existing sandbox, used instead of the one that the other arguments describe.
            environment: variables of the host. None: those of this process.
            servers: packages of MCP servers, mounted read-only at `/servers`. Made if missing.
            cluster: called once, at the first command: makes the cluster whose nodes run the containers, each
                with an empty workspace. Needs scope `thread`.

        Raises:
            TypeError: `limits` is no `SandboxLimits`, or `env_allow` is a text.
            ValueError: `scope`, `warm` or `image` has a wrong value, or `scope` does not fit `cluster`;
                `root_dir` cannot be a workspace; two skill folders have one name, or a skill folder does not
                exist; the sandbox does not isolate commands from this machine.
        """
        if sandbox is not None and not sandbox.isolated:
            raise ValueError(f"{type(sandbox).__name__} does not isolate: it must not get a model's commands")
        if scope not in ("shared", "thread"):
            raise ValueError(f"scope is {scope!r}: write 'shared' or 'thread'.")
        if not image:
            raise ValueError("image is empty: name an image, or leave it out.")
        if not isinstance(limits, SandboxLimits):
            raise TypeError(f"limits is {limits!r}: give SandboxLimits(…), or leave it out.")
        if cluster and scope != "thread":
            raise ValueError("a cluster runs one sandbox for each thread: write scope='thread'.")
        if warm < 0:
            raise ValueError(f"warm is {warm}: give the number of spare containers, 0 or more.")
        if isinstance(env_allow, str):
            raise TypeError(f"env_allow is {env_allow!r}: give a list of patterns, [{env_allow!r}].")
        # Resolve links here: the first call may come on an event loop, which must not wait for a disk.
        root = usable_workspace(root_dir)
        mounted = mounted_skills(skills_dir, extra_skills)
        self.name = name
        self.attach: Callable[[str, ChannelSandbox], None] | None = None
        """Called with each new sandbox object of a thread, before its first use."""
        self._suspect = suspect
        self._records = records
        passed = allowed_variables(os.environ if environment is None else environment, env_allow)
        # Read by the workers in the container: see guest/workers/skill_commands.py.
        passed["SANDBOX_COMMANDS"] = ":".join(command_places(mounted, skills_trusted))
        self._makers = SandboxMakers(
            root,
            image,
            name,
            limits,
            {**mounted, **mounted_packages(servers)},
            passed,
            runtime,
            idle_seconds,
            redact,
            egress,
            records,
            _thread,
            self._attach,
        )
        self._per_thread = scope == "thread"
        self._warm = warm
        self._cluster = cluster
        # Created by the first call, so that building a graph does not import the container modules.
        self._making = threading.Lock()
        self._shared = sandbox
        self._pool: SandboxesOfThreads | None = None

    @property
    def sandbox(self) -> ChannelSandbox:
        """The sandbox. In scope `thread`, the sandbox of the current thread."""
        return self.sandbox_of(_thread())

    def sandbox_of(self, thread: str) -> ChannelSandbox:
        """Return the sandbox of a thread, for callers outside of its runs."""
        if self._per_thread:
            return self._of_threads().sandbox_for(thread)
        with self._making:
            self._shared = self._shared or self._makers.shared()
            return self._shared

    @asynccontextmanager
    async def fresh_sandbox(self) -> AsyncIterator[ChannelSandbox]:
        """Provide a new sandbox of the cluster for the length of the block. It belongs to no thread."""
        pool = cast("ClusterPool", await asyncio.to_thread(self._of_threads))
        sandbox = pool.fresh()
        try:
            yield sandbox
        finally:
            await sandbox.aclose()

    def _of_threads(self) -> SandboxesOfThreads:
        with self._making:
            self._pool = self._pool or self._makers.threads(self._warm, self._cluster)
            return self._pool

    def _attach(self, thread: str, sandbox: ChannelSandbox) -> None:
        if self.attach:
            self.attach(thread, sandbox)

    @property
    def id(self) -> str:
        return f"docker-exec-{self.name}"

    # -- commands

    async def aexecute(self, command: str, *, timeout: float | None = None) -> ExecuteResponse:
        """Run a command in `/workspace`; see `libs.sandbox.protocol.Sandbox.run`. Cancelling ends it.

        Returns:
            Exit code 124 after a time-out. 125 with a hint as output if the sandbox failed, or if this call
            began before and its effect is unknown; then nothing was run.

        Raises:
            ValueError: the time-out is not over 0 and at most 3,600 seconds.
        """
        call = current_call()
        with live_output(call.id) as show:
            try:
                if call.recorded and not await self.sandbox.abegun([call.key or ""]):
                    raise CommandInterrupted
                result = await self.sandbox.arun(
                    command,
                    timeout=timeout,
                    on_output=show,
                    key=call.key,
                    note_new=True,
                    alone=call.alone,
                    uses=declared_uses(command),
                )
            except SandboxError as error:
                result = failed_result(error)
        if self._suspect:
            await asyncio.to_thread(self._suspect, result.output, call.id)
        call.artifact = asdict(result)
        return answers.execute(result)

    def execute(self, command: str, *, timeout: float | None = None) -> ExecuteResponse:
        """`aexecute`, for callers without an event loop. Ctrl-C ends the command."""
        return core().wait(self.aexecute(command, timeout=timeout))

    # -- life

    def reset(self) -> None:
        """Stop the container. The next call starts a fresh container on the same workspace."""
        self.sandbox.reset()

    def close(self) -> None:
        """Stop every container. A later call starts a new container."""
        if made := self._pool or self._shared:
            made.close()
        if self._records:
            self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
