"""Turns errors of the Docker SDK into `SandboxError` with a hint. Importing this module needs no Docker.

All calls of the Engine use it, so "no socket", "no permission" and "disk full" read the same everywhere.
"""

from __future__ import annotations

import errno
import http.client
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from libs.sandbox.errors import DockerUnavailable, ImageMissing, SandboxError, program

__all__ = ["RUNTIME_HINT", "build_hint", "explain", "explained"]

RUNTIME_HINT = (
    "Unset SANDBOX_RUNTIME (in Python, leave the argument `runtime` out), or name a runtime that works: "
    "`docker info --format '{{json .Runtimes}}'` lists those that the Engine knows, and `make setup "
    "RUNTIME=runsc` installs gVisor."
)
_NO_SPACE = "no space left on device"
_LIMITS = {
    "inotify": "Raise `fs.inotify.max_user_watches` and `fs.inotify.max_user_instances` with `sysctl`.",
    "cgroup": "The kernel has too many control groups: remove containers, or restart the machine.",
}
"""Limits of the kernel whose error reads like that of a full disk -> what to do."""


@contextmanager
def explained(image: str | None = None) -> Iterator[None]:
    """Turn every error of the Docker SDK, and of the HTTP below it, into a `SandboxError`.

    Args:
        image: the image of a new container.
    """
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
        if image and isinstance(error, docker.errors.ImageNotFound):
            raise ImageMissing(f"The sandbox image {image!r} is missing.", hint=build_hint(image)) from error
        raise explain(error) from error


def build_hint(image: str) -> str:
    """Return the command that builds an image, also if the settings name another image."""
    setup = f"{program()} setup"
    other = f"SANDBOX_IMAGE={shlex.quote(image)} SANDBOX_BROWSER=0 {setup}"
    return f"Build it with `{setup}`; if the settings name another image, with `{other}`."


def explain(error: Exception) -> SandboxError:
    """Return the `SandboxError` for an error of the Docker SDK.

    `ImageMissing` for a missing image or a failed build; `DockerUnavailable` for everything else.
    """
    import docker.errors
    from requests.exceptions import RequestException, Timeout

    if isinstance(error, SandboxError):
        return error
    text = str(getattr(error, "explanation", None) or error)
    causes = list(_chain(error))
    # Errors of requests are OSErrors too, but hold no error of the operating system.
    cause = next((c for c in causes if isinstance(c, OSError) and not isinstance(c, RequestException)), None)
    if isinstance(cause, PermissionError):
        return DockerUnavailable(
            "The Docker socket may not be opened by this user.",
            hint="Join its group with `sudo usermod -aG docker $USER`, then log in again.",
        )
    if isinstance(cause, FileNotFoundError):
        return DockerUnavailable("No Docker Engine answers: its socket is not there.", hint=_start_hint())
    if cause and cause.errno in (errno.EMFILE, errno.ENFILE):
        return DockerUnavailable(
            "This program cannot ask the Docker Engine: too many files are open, here or on the machine.",
            hint="Close files. Or raise the limit of the program with `ulimit -n` and start it again; the "
            "limit of the machine is fs.file-max.",
        )
    if isinstance(cause, ConnectionError) or any(isinstance(c, http.client.HTTPException) for c in causes):
        return DockerUnavailable(
            "No Docker Engine answers: the connection was refused or broke off.", hint=_start_hint()
        )
    if _NO_SPACE in text.lower():
        for limit, hint in _LIMITS.items():
            if limit in text.lower():
                return DockerUnavailable(f"The Docker Engine is at a limit of the kernel: {text}", hint=hint)
        return DockerUnavailable(
            f"The disk of the Docker Engine is full: {text}",
            hint="See what uses it with `docker system df`; free some with `docker system prune`.",
        )
    if isinstance(error, docker.errors.ImageNotFound):
        return ImageMissing("The sandbox image is missing.", hint=f"Build it with `{program()} setup`.")
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
    if not isinstance(error, docker.errors.APIError):  # not from the Engine: an address, a context or TLS
        return DockerUnavailable(f"No Docker Engine can be asked: {text.rstrip('.')}.", hint=_start_hint())
    return DockerUnavailable(f"The Docker Engine refused: {text.rstrip('.')}.", hint=_hint_for(text))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _hint_for(refusal: str) -> str:
    """Return a hint for a refusal: the setting to change, if known."""
    text = refusal.lower()
    if "reference format" in text:
        return "SANDBOX_IMAGE is not an image name: unset it, or name one that `docker images` lists."
    hint = f"Look for the cause with `{program()} doctor`."
    # The Engine names its runtime in every failure of a start, whatever the cause.
    return f"{hint} If SANDBOX_RUNTIME is set: {RUNTIME_HINT}" if "runtime" in text else hint


def _start_hint() -> str:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):  # in the order of `engine.connect`
        if value := os.environ.get(name):
            return f"{name} is {value}: unset it, or start the Engine that it names."
    if sys.platform in ("darwin", "win32"):
        return "Open Docker Desktop and wait until it runs."
    return f"Start it with `sudo systemctl start docker`; to have it installed: `sudo {program()} setup`."
