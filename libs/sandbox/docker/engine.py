"""Finds the Docker Engine, connects to it, and detects an Engine that hangs.

All other modules connect to the Engine here. Importing this module needs no Docker.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from libs.sandbox.docker.engine_errors import explain, explained
from libs.sandbox.errors import DockerUnavailable

if TYPE_CHECKING:
    import docker
    from docker.tls import TLSConfig
    from requests import Response

__all__ = [
    "ANSWER_SECONDS",
    "DEFAULT_SOCKET",
    "WORK_SECONDS",
    "answering_client",
    "ask",
    "connect",
    "endpoint",
    "shared_client",
]

DEFAULT_SOCKET = "unix:///var/run/docker.sock"
ANSWER_SECONDS = 20.0
"""Seconds for an answer that needs no work. An Engine that takes longer hangs."""
WORK_SECONDS = 60.0
"""Seconds for an answer that needs work, such as creating a container on a busy machine."""
_CONNECTIONS = 64
"""Idle connections that are kept. Above this number, the SDK closes connections with a warning."""

_asking = threading.Lock()
_hung: dict[tuple[str | None, str | None], tuple[float, DockerUnavailable]] = {}
"""Engine -> time and error of the last request, if the Engine did not answer."""


def connect(*, timeout: float | None = None) -> docker.DockerClient:
    """Connect to the Engine that the `docker` command would use, and check that it answers.

    In this order: `DOCKER_HOST`; `DOCKER_CONTEXT` or the context chosen with `docker context use`; the
    default socket; the sockets of Docker Desktop, a rootless Engine and Colima. The environment is read
    here, not in the settings, because these variables belong to Docker and not to this project.

    Args:
        timeout: seconds for one answer of the Engine, WORK_SECONDS if None. The first answer may take at most
            ANSWER_SECONDS.

    Raises:
        DockerUnavailable: no Engine answers, or this user may not open the socket.
    """
    import docker

    timeout = WORK_SECONDS if timeout is None else timeout
    with explained():
        address, tls = _endpoint()
        first = min(timeout, ANSWER_SECONDS)
        if address.startswith("unix://"):
            _knock(address.removeprefix("unix://"), first)
        try:
            client = docker.DockerClient(
                address,
                version="auto",
                timeout=first,  # type: ignore[arg-type]
                tls=tls,
                max_pool_size=_CONNECTIONS,
            )
        except ValueError as error:  # an address such as tcp://host:port
            raise explain(error) from error
    api = client.api
    api.timeout = timeout  # type: ignore[assignment]
    # A default time-out, because the SDK would wait for ever when it attaches.
    api.request = partial(api.request, timeout=timeout)  # type: ignore[method-assign]
    return client


def ask(
    client: docker.DockerClient, method: str, path: str, *, seconds: float | None = None, **params: str
) -> Response:
    """Make one call of the Engine's API with its own time-out, and return the answer, whatever its status.

    The methods of the SDK share the time-out of the client.

    Args:
        path: the path after the API version, quoted.
        seconds: time-out of one step of the call; None is ANSWER_SECONDS.

    Raises:
        DockerUnavailable: the Engine did not answer.
    """
    api = client.api
    seconds = ANSWER_SECONDS if seconds is None else seconds
    with explained():
        return api.request(method, f"{api.base_url}/v{api.api_version}{path}", params=params, timeout=seconds)


def endpoint() -> str:
    """Return the address that `connect` uses, in the form of `DOCKER_HOST`.

    Raises:
        DockerUnavailable: `DOCKER_CONTEXT` names a context that does not exist.
    """
    with explained():
        return _endpoint()[0]


def _knock(path: str, timeout: float) -> None:
    """Check that the socket opens. The SDK would hide the reason and leak its own socket."""
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.settimeout(timeout)
            opened.connect(path)
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
    """Return the client that all sandboxes of this process share. Created once.

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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept_client.cache_clear)  # two processes must not share a connection


def _default_socket() -> str:
    """Return the first existing local socket, or the default one."""
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
    """Return `shared_client` after a ping, so that a hanging Engine is found within ANSWER_SECONDS.

    Creating a container may take much longer on a busy machine.

    Args:
        asked: when the caller began to wait (time.monotonic). If a ping of another caller has failed since,
            its error is raised again, so that callers do not wait one after the other.

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
            ask(client, "GET", "/_ping")
        except DockerUnavailable as failure:
            _hung[place] = time.monotonic(), failure.again()
            raise
        return client
