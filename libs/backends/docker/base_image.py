"""Finds the base of the sandbox image: pulls it, or makes a Debian base if no registry answers."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from libs.sandbox import ImageMissing, program
from libs.sandbox.docker import explained

if TYPE_CHECKING:
    import docker

__all__ = ["DEFAULT_BASE", "OWN_BASE", "find_base"]

DEFAULT_BASE = "python:3.11-slim"
OWN_BASE = "code-execution-agent-base"

_SUITE = "bookworm"  # has Python 3.11, which the pinned packages need
# All packages that the Dockerfile would install with apt, so that the build needs no network.
_PACKAGES = (
    "bash ca-certificates curl file git jq libnss-myhostname procps python-is-python3 python3 python3-pip "
    "python3-venv ripgrep"
)
# Downloads, and the names of this machine and its name servers, which debootstrap copies.
_LEFT_OUT = ("var/cache/apt/*", "var/lib/apt/lists/*", "etc/hostname", "etc/resolv.conf")
_LABEL = "code-agent.base-recipe"
_RECIPE = hashlib.sha256(f"{_SUITE} {_PACKAGES}".encode()).hexdigest()


def find_base(client: docker.DockerClient, wanted: str, progress: Callable[[str], None]) -> str:
    """Return the name of an image to build on: `wanted`, or for the default base our own Debian.

    Raises:
        ImageMissing: the base cannot be pulled or made.
        DockerUnavailable: the Engine is gone, or its disk is full.
    """
    import docker.errors

    with explained():
        if client.images.list(name=wanted):
            return wanted
        progress(f"pulling {wanted}")
        try:
            _pull(client, wanted, progress)
        except docker.errors.APIError as error:
            reason = str(error.explanation or error)
        else:
            return wanted
    if wanted != DEFAULT_BASE:
        raise ImageMissing(
            f"The base image {wanted} could not be pulled: {reason}",
            hint=f"See why with `docker pull {wanted}`, or run `{program()} setup` without a base.",
        )
    progress(f"no registry answers ({reason}); making a Debian base instead")
    _own_base(client, progress)
    return OWN_BASE


def _pull(client: docker.DockerClient, wanted: str, progress: Callable[[str], None]) -> None:
    """Pull an image and report each layer.

    Raises:
        APIError: the image cannot be pulled.
    """
    import docker.errors
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(wanted)
    for event in client.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
        if "error" in event:
            raise docker.errors.APIError(event["error"])
        if event.get("status") == "Pull complete":
            progress(f"pulling {wanted}: layer {event.get('id')} is complete")


def _own_base(client: docker.DockerClient, progress: Callable[[str], None]) -> None:
    """Make `OWN_BASE` with debootstrap, unless it exists from the same recipe."""
    with explained():
        if client.images.list(name=OWN_BASE, filters={"label": f"{_LABEL}={_RECIPE}"}):
            return
    if shutil.which("debootstrap") is None or os.name != "posix" or os.geteuid() != 0:
        raise ImageMissing(
            f"No registry answers for {DEFAULT_BASE}, and only root with debootstrap can make a Debian base.",
            hint=f"Run `sudo apt-get install debootstrap && sudo {program()} setup`, or bring it along: "
            f"`docker save {DEFAULT_BASE}` where it is, `docker load` here.",
        )
    # /var/tmp, because /tmp is often small, mounted without devices, or in memory.
    with tempfile.TemporaryDirectory(prefix="code-agent-base-", dir="/var/tmp") as folder:
        root = Path(folder) / "root"
        _debootstrap(root, progress)
        progress("importing the Debian base")
        _import(client, root)


def _debootstrap(root: Path, progress: Callable[[str], None]) -> None:
    # No mirror argument: debootstrap uses this machine's default mirror.
    packages = _PACKAGES.replace(" ", ",")
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", _SUITE, str(root)]
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        for line in process.stdout:
            lines.append(line.strip())
            if len(lines) % 100 == 0:  # debootstrap prints several hundred lines
                progress(f"debootstrap: {lines[-1]}")
    if process.returncode:
        raise ImageMissing(
            f"debootstrap failed: {' | '.join(lines[-3:])}",
            hint=f"See why with `sudo {' '.join(command[:-1])} /var/tmp/base`.",
        )


def _import(client: docker.DockerClient, root: Path) -> None:
    command = ["tar", "-C", str(root), "--one-file-system", "--numeric-owner"]
    command += [f"--exclude=./{path}" for path in _LEFT_OUT] + ["-c", "."]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as tar, explained():
        assert tar.stdout is not None  # noqa: S101 - PIPE was asked for
        client.api.import_image_from_stream(
            tar.stdout, repository=OWN_BASE, tag="latest", changes=[f"LABEL {_LABEL}={_RECIPE}"]
        )
    if tar.returncode:
        raise ImageMissing(
            "The Debian base could not be packed.",
            hint="See whether /var/tmp has 500 MB left: `df -h /var/tmp`.",
        )
