"""Values that the server and the actor on a node exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from libs.sandbox.errors import DockerUnavailable, ImageMissing, SandboxError
from libs.sandbox.limits import SandboxLimits

if TYPE_CHECKING:
    import docker

CheckImage = Callable[["docker.DockerClient"], None]
"""Raises ImageMissing if the image must not be used. Sent to nodes: a function of a module or a `partial`."""

__all__ = ["CheckImage", "ContainerOrder", "Entrance", "Listed", "Refusal"]

_KINDS: Final[Mapping[str, type[SandboxError]]] = {
    kind.__name__: kind for kind in (DockerUnavailable, ImageMissing, SandboxError)
}


@dataclass(frozen=True, slots=True)
class ContainerOrder:
    """What a node needs to start a container."""

    name: str
    image: str
    limits: SandboxLimits
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    read_only: Mapping[str, str]
    """Path inside -> key of a mirrored folder of the node."""
    runtime: str | None


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where the server takes up the frames of a container."""

    port: int
    token: bytes = field(repr=False)
    """Begins the connection. Valid once."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node has not done what it was asked. A value, because Ray would change the class of an error."""

    kind: str
    message: str
    hint: str

    @classmethod
    def of(cls, error: SandboxError) -> Refusal:
        kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS)
        return cls(kind, str(error), error.hint)

    def error(self, node: str) -> SandboxError:
        """Return the error, with the name of the node."""
        return _KINDS[self.kind](f"On node {node}: {self.message}", hint=f"{self.hint} (on node {node})")


@dataclass(frozen=True, slots=True)
class Listed:
    """A container of a node."""

    container: str
    thread: str
    """Empty for a spare."""
    memory: int
    """Bytes in use."""
