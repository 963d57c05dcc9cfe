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
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from libs.sandbox.errors import DockerUnavailable, ImageMissing, SandboxError, program

if TYPE_CHECKING:
    import docker
    import requests
    from docker.tls import TLSConfig

__all__ = [
    "ANSWER_SECONDS",
    "DEFAULT_SOCKET",
    "WORK_SECONDS",
    "answering_client",
    "ask",
    "connect",
    "endpoint",
    "explain",
    "explained",
    "shared_client",
]

DEFAULT_SOCKET = "unix:///var/run/docker.sock"

ANSWER_SECONDS = 20.0
"""Seconds within which an Engine tells what it knows, even while it starts. One that does not, hangs."""
WORK_SECONDS = 60.0
"""Seconds that it may take for what it has to work for, such as making a container on a busy machine."""
_NO_SPACE = "no space left on device"
_asking = threading.Lock()
_hung: dict[tuple[str | None, str | None], tuple[float, DockerUnavailable]] = {}
"""Engine that did not answer when it was asked last -> when that was over, and what was said."""


def connect(*, timeout: float | None = None) -> docker.DockerClient:
    """Connect to the Engine that the `docker` command would use, and see that it answers.

    In this order: `DOCKER_HOST`; `DOCKER_CONTEXT` or the context chosen with `docker context use`; the
    default socket; the sockets of Docker Desktop, a rootless Engine and Colima. The environment is read
    here, not in the settings, because these variables belong to Docker and not to this project.

    Args:
        timeout: Seconds that one answer of the Engine may take, WORK_SECONDS where it is None; the first one
            ANSWER_SECONDS at most.

    Raises:
        DockerUnavailable: nobody answers, or the socket may not be opened.
    """
    import docker

    timeout = WORK_SECONDS if timeout is None else timeout
    with explained():
        address, tls = _endpoint()
        first = min(timeout, ANSWER_SECONDS)
        if address.startswith("unix://"):
            _knock(address.removeprefix("unix://"), first)
        client = docker.DockerClient(address, version="auto", timeout=first, tls=tls)  # type: ignore[arg-type]
    api = client.api
    api.timeout = timeout  # type: ignore[assignment]
    # For the calls that name no limit: the SDK would wait for ever where it attaches to a container.
    api.request = partial(api.request, timeout=timeout)  # type: ignore[method-assign]
    return client


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
        with _opened(path, timeout):
            pass
    except OSError as error:
        raise explain(error) from error


@contextmanager
def _opened(path: str, timeout: float) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.settimeout(timeout)
        opened.connect(path)
        yield opened


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
    return _kept_client(*_chosen())


def _chosen() -> tuple[str | None, str | None]:
    return os.environ.get("DOCKER_HOST"), os.environ.get("DOCKER_CONTEXT")


@cache
def _kept_client(host: str | None, context: str | None) -> docker.DockerClient:  # noqa: ARG001 - the key
    client = connect()
    atexit.register(client.close)
    return client


@cache
def _kept_address(host: str | None, context: str | None) -> str:  # noqa: ARG001 - the key
    return endpoint()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept_client.cache_clear)  # two must not ask over one connection


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


def answering_client(asked: float) -> docker.DockerClient:
    """`shared_client`, of an Engine that answers now: ANSWER_SECONDS are enough to tell one that hangs.

    Making a container may take much longer, on a busy machine, than finding out whether that has a chance.

    Args:
        asked: since when it is waited for (time.monotonic). Who waits is told what others found out since,
            so that of a crowd nobody waits for all before.

    Raises:
        DockerUnavailable: as `connect`; the Engine hangs.
    """
    place = _chosen()
    with _asking:
        since, error = _hung.get(place, (0.0, None))
        if error and since >= asked:
            raise error.again()
        try:
            client = _kept_client(*place)
            _ping(client, _kept_address(*place))
        except DockerUnavailable as failure:
            _hung[place] = time.monotonic(), failure.again()
            raise
        return client


def _ping(client: docker.DockerClient, address: str) -> None:
    """See that the Engine answers. Over its socket in a quarter of a millisecond, where the SDK takes 1.4."""
    if not address.startswith("unix://"):
        with explained():
            ask(client, "GET", "/_ping")
        return
    try:
        with _opened(address.removeprefix("unix://"), ANSWER_SECONDS) as engine:
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            if not engine.recv(1):
                raise ConnectionResetError("it closed the connection")
    except OSError as error:
        raise explain(error) from error


def ask(
    client: docker.DockerClient, method: str, path: str, *, seconds: float | None = None, **params: str
) -> requests.Response:
    """One call of the Engine's API that needs an answer and no work, with a time limit of its own.

    Args:
        seconds: that limit; None is ANSWER_SECONDS.

    Raises:
        requests.RequestException: no answer has come. One that refuses is returned.
    """
    api = client.api
    address = f"{api.base_url}/v{api.api_version}{path}"
    return api.request(method, address, params=params, timeout=ANSWER_SECONDS if seconds is None else seconds)


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
