"""The way to the Docker Engine: where it is found, and whether it answers.

Every other module that speaks to the Engine connects here. Importing this module needs no Docker.
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

from libs.sandbox.engine_api import ANSWER_SECONDS, WORK_SECONDS, ping
from libs.sandbox.errors import DockerUnavailable
from libs.sandbox.explain import explain, explained

if TYPE_CHECKING:
    import docker
    from docker.tls import TLSConfig

__all__ = [
    "DEFAULT_SOCKET",
    "answering_client",
    "connect",
    "endpoint",
    "shared_client",
]

DEFAULT_SOCKET = "unix:///var/run/docker.sock"

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
            ping(client)
        except DockerUnavailable as failure:
            _hung[place] = time.monotonic(), failure.again()
            raise
        return client
