"""What the one-tool agent works with: sandboxes for its programs, packages, what is kept for its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import COMMANDS, Settings
from agent.doors import doors
from agent.exec_listing import DataListing
from agent.known_secrets import own_variables, secret_filter
from agent.memory import Memory, build_database, build_memory
from agent.thread_files import ExportedFiles
from agent.tracing import export_spans
from libs.exec_tool.alone import fresh_sandboxes
from libs.exec_tool.dependencies import MOUNT, Dependencies
from libs.exec_tool.kv_service import HOST, KvService
from libs.exec_tool.runner import CodeRunner
from libs.persistence.database import Database
from libs.persistence.thread_store import ThreadStore
from libs.sandbox import Sandbox, SandboxError
from libs.sandbox.container import DockerSandbox
from libs.sandbox.engine import shared_client
from libs.sandbox.records import CommandRecords
from libs.sandbox.strays import WORKSPACE_LABEL

if TYPE_CHECKING:
    import docker

__all__ = ["HOME", "ExecParts", "build_parts"]

HOME = "/mnt/workspace"
"""Where programs can read the person's workspace."""
_NAME = "code-execution-agent"


@dataclass(frozen=True)
class ExecParts:
    """Made once for all graphs of a process; needs neither Docker nor a database before its first use."""

    runner: CodeRunner
    memory: Memory
    database: Database
    data: DataListing | None = None
    """What the model is shown of the person's files."""

    def close(self) -> None:
        """End the sandboxes, and close what is kept."""
        self.runner.close()
        self.database.close()


def build_parts(settings: Settings) -> ExecParts:
    """Make them as the settings say."""
    export_spans(settings)
    database = build_database(settings)
    store = ThreadStore(database)
    redact = secret_filter(settings)

    def check_image(client: docker.DockerClient) -> None:
        from libs.backends.docker.image import require_image

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
        mounts=lambda: _mounts(settings, dependencies),
        environment={**settings.let_in(), **settings.passed_keys(own_variables(settings))},
        warm=settings.sandbox_warm,
        idle_seconds=settings.sandbox_idle_seconds,
        runtime=settings.sandbox_runtime,
        egress=doors(settings, {HOST: KvService(store)}),
        redact=redact,
        check_image=check_image,
        links={"data": f"{HOME}/data"},
    )
    runner = CodeRunner(
        sandboxes,
        seconds=settings.exec_seconds,
        dependencies=dependencies,
        files=ExportedFiles(store, settings.workspace_dir, partial(_folder_of, settings)),
        records=CommandRecords(COMMANDS),
        redact=redact,
        read_only=("data",),
    )
    data = DataListing(sandboxes, settings.workspace_dir)
    return ExecParts(runner, build_memory(settings, database), database, data)


def _folder_of(settings: Settings, thread: str) -> Path:
    """The workspace of a thread, relative to that of the installation."""
    return settings.workspace_of(thread).relative_to(settings.workspace_dir)


def _installer(
    settings: Settings, check_image: Callable[[docker.DockerClient], None]
) -> Callable[[Path], Sandbox]:
    """Makes sandboxes that reach the package indexes, and nothing else."""
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
    """What is in the image decides what has to be installed besides, and for which Python."""
    from libs.backends.docker.image import image_id

    return image_id(shared_client(), settings.image)


def _mounts(settings: Settings, dependencies: Dependencies) -> Mapping[str, Path]:
    """What each sandbox can read of the host: the person's files, and the packages. Made where missing.

    Where all threads share a workspace, all of it: a command of another agent may have put a link in the
    place of `data`, which leads nowhere else inside. Where each has its own, only the data they share.
    """
    home = settings.workspace_dir.absolute()
    try:
        cache = dependencies.make_folder()
        if settings.scope == "shared":
            home.mkdir(parents=True, exist_ok=True)
            return {HOME: home, MOUNT: cache}
        (home / "data").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(
            f"{error.filename} cannot be made: {error.strerror}.", hint="Make it, or set WORKSPACE_DIR."
        ) from error
    if (home / "data").is_symlink():
        raise SandboxError(
            f"{home / 'data'} is a link, which a command may have made.", hint="Put a folder in its place."
        )
    return {f"{HOME}/data": home / "data", MOUNT: cache}
