"""Builds the parts of the one-tool agent: fresh sandboxes, packages, memory, files of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.listing import DataListing
from agent.models import keys_in_use
from agent.parts.egress_gateway import doors
from agent.parts.mcp_servers import package_folder, server_services
from agent.parts.tracing import export_spans
from agent.parts.workspace_captures import DeferredCaptures
from agent.secrets import secret_filter
from agent.settings import COMMANDS, Settings
from agent.threads import ExportedFiles
from agent.threads.memory_store import Memory, build_database, build_memory
from libs.exec_tool import (
    HOST,
    MOUNT,
    CodeRunner,
    Dependencies,
    KvService,
    ThreadTrees,
    fresh_sandboxes,
)
from libs.persistence.thread_database import Database
from libs.persistence.thread_store import ThreadStore
from libs.sandbox import Sandbox, SandboxError, WorkspaceMissing
from libs.sandbox.docker import OWN_VARIABLES, WORKSPACE_LABEL, DockerSandbox, shared_client
from libs.sandbox.host import CommandRecords

if TYPE_CHECKING:
    import docker
    from langchain_core.language_models import BaseChatModel

__all__ = ["HOME", "ExecParts", "build_exec_parts"]

HOME = "/mnt/workspace"
"""Path of the person's workspace in the sandbox of a program."""
_NAME = "code-execution-agent"


@dataclass(frozen=True)
class ExecParts:
    """Parts for all graphs of a process. Need neither Docker nor a database before their first use."""

    runner: CodeRunner
    memory: Memory
    database: Database
    captures: DeferredCaptures | None = None
    """Captures the files and values of threads."""
    data: DataListing | None = None
    """Lists the person's files for the prompt."""
    passed: Collection[str] = ()
    """Names of the variables of the host that programs get."""

    def close(self) -> None:
        """End the sandboxes and close the database."""
        self.runner.close()
        self.database.close()


def build_exec_parts(settings: Settings, model: BaseChatModel | None = None) -> ExecParts:
    """Build the parts from the settings.

    Args:
        model: the chat model, whose key no program gets. None: the model that the settings choose.
    """
    export_spans(settings)
    database = build_database(settings)
    store = ThreadStore(database)
    redact = secret_filter(settings)
    passed = settings.variables_of_programs(keys_in_use(settings, model))

    def check_image(client: docker.DockerClient) -> None:
        from libs.backends.docker import require_image

        require_image(client, settings.image)

    dependencies = Dependencies(
        settings.packages_dir,
        _installer(settings, check_image) if settings.egress_packages else None,
        basis=partial(_basis, settings),
    )
    sandboxes = fresh_sandboxes(
        image=settings.image,
        home=settings.workspace_dir.absolute(),
        name=_NAME,
        limits=settings.limits,
        disk=settings.exec_disk_used,
        mounts=partial(_mounts, settings, dependencies, threading.Event()),
        environment=passed,
        warm=settings.sandbox_warm,
        idle_seconds=settings.sandbox_idle_seconds,
        runtime=settings.sandbox_runtime,
        egress=doors(settings, {HOST: KvService(store)}, partial(server_services, settings)),
        redact=redact,
        check_image=check_image,
        links={"data": f"{HOME}/data"},
    )
    records = CommandRecords(COMMANDS)
    home = settings.workspace_dir.resolve()
    trees = ThreadTrees(store, records)
    files = ExportedFiles(store, settings.workspace_dir, partial(_folder_of, settings))
    runner = CodeRunner(
        sandboxes,
        seconds=settings.exec_seconds,
        dependencies=dependencies,
        files=files,
        records=records,
        redact=redact,
        read_only=("data",),
        while_running=trees.program,
        stays=files.hand_over,
        # The name that commands of the other agents record for the same folder.
        workspace_of=lambda thread: str(home / _folder_of(settings, thread)),
    )
    data = DataListing(sandboxes, settings.workspace_dir)
    memory = build_memory(settings, database)
    captures = DeferredCaptures(settings, trees.of, shared=False)
    return ExecParts(runner, memory, database, captures, data, sorted(passed.keys() - OWN_VARIABLES))


def _folder_of(settings: Settings, thread: str) -> Path:
    """Return the workspace of a thread, relative to WORKSPACE_DIR."""
    return settings.workspace_of(thread).relative_to(settings.workspace_dir)


def _installer(
    settings: Settings, check_image: Callable[[docker.DockerClient], None]
) -> Callable[[Path], Sandbox]:
    """Return a function that makes sandboxes which reach only the package indexes."""
    nothing_else = {
        "egress_allow": (),
        "egress_credentials": (),
        "search_provider": None,
        "news_feeds": (),
    }
    egress = doors(settings.model_copy(update=nothing_else))

    def make(folder: Path) -> Sandbox:
        return DockerSandbox(
            folder,
            image=settings.image,
            name=_NAME,
            limits=settings.limits,
            runtime=settings.sandbox_runtime,
            check_image=check_image,
            labels={WORKSPACE_LABEL: str(settings.workspace_dir.resolve())},
            redact=secret_filter(settings),
            egress=egress,
        )

    return make


def _basis(settings: Settings) -> str:
    """Return the id of the image, which determines the packages and the Python that programs already have."""
    from libs.backends.docker import image_id

    return image_id(shared_client(), settings.image)


def _mounts(settings: Settings, dependencies: Dependencies, made: threading.Event) -> Mapping[str, Path]:
    """Return the read-only mounts of a program's sandbox: the person's files, and the packages.

    In scope `shared` the whole workspace is mounted: if a command replaced `data` by a link, the link cannot
    lead out of the sandbox. In scope `thread` only `data` is mounted, which must then not be a link.

    `made`: is set when the workspace is there. One that is missing later was moved or removed.
    """
    from libs.backends.docker import mounted_packages

    home = settings.workspace_dir.absolute()
    if made.is_set() and not home.is_dir():
        raise WorkspaceMissing.at(home)
    try:
        cache = dependencies.make_folder()
        servers = mounted_packages(package_folder(settings))
        if settings.scope == "shared":
            home.mkdir(parents=True, exist_ok=True)
            made.set()
            return {HOME: home, MOUNT: cache, **servers}
        (home / "data").mkdir(parents=True, exist_ok=True)
        made.set()
    except OSError as error:
        raise SandboxError(
            f"{error.filename} cannot be made: {error.strerror}.", hint="Make it, or set WORKSPACE_DIR."
        ) from error
    if (home / "data").is_symlink():
        raise SandboxError(
            f"{home / 'data'} is a link, which a command may have made.", hint="Put a folder in its place."
        )
    return {f"{HOME}/data": home / "data", MOUNT: cache, **servers}
