"""The way to the Docker Engine: where it is found, and what its errors mean.

Every other module that speaks to the Engine connects here and lets its errors be explained here, so
that "no socket", "no permission" and "disk full" read the same wherever they happen. Importing this
module needs no Docker.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from libs.sandbox.errors import DockerUnavailable, ImageMissing, SandboxError, program

if TYPE_CHECKING:
    import docker
    from docker.tls import TLSConfig

__all__ = ["DEFAULT_SOCKET", "connect", "endpoint", "explain", "explained", "shared_client"]

DEFAULT_SOCKET = "unix:///var/run/docker.sock"

_NO_SPACE = "no space left on device"


def connect(*, timeout: float = 60.0) -> docker.DockerClient:
    """Connect to the Engine that the `docker` command would use, and see that it answers.

    In this order: `DOCKER_HOST`; `DOCKER_CONTEXT` or the context chosen with `docker context use`; the
    default socket; the sockets of Docker Desktop, a rootless Engine and Colima. The environment is read
    here, not in the settings, because these variables belong to Docker and not to this project.

    Args:
        timeout: Seconds that one answer of the Engine may take.

    Raises:
        DockerUnavailable: nobody answers, or the socket may not be opened.
    """
    import docker

    with explained():
        address, tls = _endpoint()
        if address.startswith("unix://"):
            _knock(address.removeprefix("unix://"), timeout)
        return docker.DockerClient(address, version="auto", timeout=timeout, tls=tls)  # type: ignore[arg-type]


def endpoint() -> str:
    """The address that `connect` uses, as in `DOCKER_HOST`.

    Raises:
        DockerUnavailable: `DOCKER_CONTEXT` names a context that does not exist.
    """
    with explained():
        return _endpoint()[0]


def _knock(path: str, timeout: float) -> None:
    """See that the socket opens. The SDK would hide the reason in three others, and leak its own socket."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(timeout)
            probe.connect(path)
    except OSError as error:
        raise explain(error) from error


def _endpoint() -> tuple[str, TLSConfig | bool]:
    from docker.context import ContextAPI
    from docker.errors import DockerException
    from docker.utils import kwargs_from_env

    chosen = kwargs_from_env()
    if "base_url" in chosen:
        return chosen["base_url"], chosen.get("tls", False)
    name = os.environ.get("DOCKER_CONTEXT")
    context = ContextAPI.get_context(name) if name else ContextAPI.get_current_context()
    if name and context is None:
        raise DockerException(f"there is no Docker context named {name!r}")
    if context is not None and context.Name != "default":
        return str(context.Host), context.TLSConfig or False
    return _default_socket(), False


def shared_client() -> docker.DockerClient:
    """The connection that every sandbox of this process uses: made once, kept to the end of the process.

    Raises:
        DockerUnavailable: as `connect`. The next call tries again.
    """
    return _kept_client(os.environ.get("DOCKER_HOST"), os.environ.get("DOCKER_CONTEXT"))


@cache
def _kept_client(host: str | None, context: str | None) -> docker.DockerClient:  # noqa: ARG001 - the key
    client = connect()
    atexit.register(client.close)
    return client


def _default_socket() -> str:
    """The first local socket there is, else the default one."""
    if sys.platform == "win32":
        return "npipe:////./pipe/docker_engine"
    places = [
        Path.home() / ".docker/run/docker.sock",
        Path.home() / ".docker/desktop/docker.sock",
        Path(f"/run/user/{os.getuid()}/docker.sock"),
        Path.home() / ".colima/default/docker.sock",
    ]
    found = (
        f"unix://{path}" for path in places if not Path("/var/run/docker.sock").exists() and path.exists()
    )
    return next(found, DEFAULT_SOCKET)


@contextmanager
def explained() -> Iterator[None]:
    """Turn every error of the Docker SDK, and of the HTTP below it, into a `SandboxError`."""
    import docker.errors
    import requests
    import urllib3

    try:
        yield
    except (
        docker.errors.DockerException,
        docker.errors.BuildError,
        requests.exceptions.RequestException,
        urllib3.exceptions.HTTPError,
    ) as error:
        raise explain(error) from error


def explain(error: Exception) -> SandboxError:
    """Say what an error of the Docker SDK means and what mends it.

    `ImageMissing` for a missing image or a failed build; `DockerUnavailable` for everything else.
    """
    import docker.errors
    from requests.exceptions import RequestException, Timeout

    if isinstance(error, SandboxError):
        return error
    text = str(getattr(error, "explanation", None) or error)
    causes = list(_chain(error))
    # requests' own errors are an OSError each, and say nothing of the operating system's.
    cause = next((c for c in causes if isinstance(c, OSError) and not isinstance(c, RequestException)), None)
    if isinstance(cause, PermissionError):
        return DockerUnavailable(
            "The Docker socket may not be opened by this user.",
            hint="Join its group with `sudo usermod -aG docker $USER`, then log in again.",
        )
    if isinstance(cause, FileNotFoundError):
        return DockerUnavailable("No Docker Engine answers: its socket is not there.", hint=_start_hint())
    if isinstance(cause, ConnectionError):
        return DockerUnavailable(
            "No Docker Engine answers: the connection was refused or broke off.", hint=_start_hint()
        )
    if _NO_SPACE in text.lower():
        return DockerUnavailable(
            f"The disk of the Docker Engine is full: {text}",
            hint="See what uses it with `docker system df`; free some with `docker system prune`.",
        )
    if isinstance(error, docker.errors.ImageNotFound):
        return ImageMissing("The sandbox image is not there.", hint=f"Build it with `{program()} setup`.")
    if isinstance(error, docker.errors.BuildError):
        return ImageMissing(
            f"The sandbox image could not be built: {text}",
            hint=f"Mend what the last lines of the build name, then run `{program()} setup` again.",
        )
    if any(isinstance(c, Timeout) for c in causes) or isinstance(cause, TimeoutError):
        return DockerUnavailable(
            "The Docker Engine took too long to answer.",
            hint="See whether it is busy with `docker info`; restart it if that hangs too.",
        )
    return DockerUnavailable(f"The Docker Engine refused: {text.rstrip('.')}.", hint=_hint_for(text))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _hint_for(refusal: str) -> str:
    """Which setting a refusal is about, where that can be told."""
    text = refusal.lower()
    if "runtime" in text:
        return "Unset SANDBOX_RUNTIME, or name one that `docker info --format '{{json .Runtimes}}'` lists."
    if "reference format" in text:
        return "SANDBOX_IMAGE is no name of an image: unset it, or name one that `docker images` lists."
    return f"Look for the cause with `{program()} doctor`."


def _start_hint() -> str:
    if sys.platform in ("darwin", "win32"):
        return "Open Docker Desktop and wait until it runs."
    return f"Start it with `sudo systemctl start docker`; to have it installed: `sudo {program()} setup`."
