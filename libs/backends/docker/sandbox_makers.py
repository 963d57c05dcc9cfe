"""Makes the sandboxes of a backend: for all threads, for each thread, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from libs.redaction import Redact
from libs.sandbox import SandboxLimits
from libs.sandbox.host import ChannelSandbox

if TYPE_CHECKING:
    from libs.sandbox.cluster import CheckImage, Cluster, ClusterSandbox
    from libs.sandbox.docker import DockerSandbox
    from libs.sandbox.host import CommandRecords, Egress

__all__ = ["SandboxMakers", "SandboxesOfThreads"]

Made = TypeVar("Made", bound=ChannelSandbox)
_DATA = "/workspace/data"


class SandboxesOfThreads(Protocol):
    """A pool: see `libs.sandbox.pool`."""

    def sandbox_for(self, thread: str) -> ChannelSandbox: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SandboxMakers:
    """The attributes are described by `DockerExecutionBackend`. Creates objects; starts no container."""

    root: Path
    image: str
    name: str
    limits: SandboxLimits
    read_only: Mapping[str, Path]
    """Path inside -> folder of skills or packages."""
    environment: Mapping[str, str]
    runtime: str | None
    idle_seconds: float
    redact: Redact | None
    egress: Egress | None
    records: CommandRecords | None
    thread: Callable[[], str]
    """Returns the thread of the current run."""
    attach: Callable[[str, ChannelSandbox], None]
    """Called with each new sandbox object of a thread."""

    def shared(self) -> DockerSandbox:
        """Return the sandbox of all threads."""
        return self._local(self.root, self.read_only, self.idle_seconds, resolved=True)

    def threads(self, warm: int, cluster: Callable[[CheckImage], Cluster] | None) -> SandboxesOfThreads:
        """Return the sandboxes of each thread.

        Args:
            warm: number of spares; on a cluster, on each node with sandboxes.
            cluster: makes the cluster on which they run. None: they run on this machine.
        """
        if cluster:
            from libs.sandbox.cluster import ClusterPool

            joined = cluster(self._check_image())
            return ClusterPool(joined, self._on(joined), warm=warm)
        from libs.sandbox.pool import SandboxPool

        def make(folder: Path, thread: str | None, **more: Any) -> DockerSandbox:
            read_only = {**self.read_only, _DATA: self.root / "data"}
            made = self._local(folder, read_only, self._idle_of(thread), self._labels(thread), **more)
            return self._attached(thread, made)

        return SandboxPool(self.root, make, warm=warm)

    def _on(self, cluster: Cluster) -> Callable[..., ClusterSandbox]:
        from libs.sandbox.cluster import ClusterSandbox, Folder

        places = {**self.read_only, _DATA: self.root / "data"}
        # One object for all sandboxes: it remembers what it has hashed.
        folders = {path: Folder(place) for path, place in places.items()}

        def make(thread: str | None, **more: Any) -> ClusterSandbox:
            made = ClusterSandbox(
                cluster,
                read_only=folders,
                idle_seconds=self._idle_of(thread),
                labels=self._labels(thread),
                **self._common(),
                **more,
            )
            return self._attached(thread, made)

        return make

    def _local(
        self,
        folder: Path,
        read_only: Mapping[str, Path],
        idle_seconds: float,
        labels: Mapping[str, str] | None = None,
        **more: Any,
    ) -> DockerSandbox:
        from libs.sandbox.docker import WORKSPACE_LABEL, DockerSandbox

        return DockerSandbox(
            folder,
            read_only=read_only,
            idle_seconds=idle_seconds,
            labels=labels or {WORKSPACE_LABEL: str(self.root)},
            check_image=self._check_image(),
            **self._common(),
            **more,
        )

    def _check_image(self) -> CheckImage:
        from libs.backends.docker.sandbox_image import require_image

        return partial(require_image, name=self.image)

    def _common(self) -> dict[str, Any]:
        return {
            "image": self.image,
            "name": self.name,
            "limits": self.limits,
            "environment": self.environment,
            "runtime": self.runtime,
            "redact": self.redact,
            "egress": self.egress,
            "records": self.records,
            "thread": self.thread,
        }

    def _attached(self, thread: str | None, sandbox: Made) -> Made:
        if thread is not None:
            self.attach(thread, sandbox)
        return sandbox

    def _labels(self, thread: str | None) -> dict[str, str]:
        from libs.sandbox.docker import THREAD_LABEL, WORKSPACE_LABEL

        # A spare has no thread label, because the Engine cannot add a label later.
        whose = {} if thread is None else {THREAD_LABEL: thread}
        return {WORKSPACE_LABEL: str(self.root), **whose}

    def _idle_of(self, thread: str | None) -> float:
        return 0 if thread is None else self.idle_seconds
