"""Sets up this machine: a running Docker Engine, and the sandbox image."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from libs.backends.docker import ImageInfo, ensure_image, image_state
from libs.sandbox import DockerUnavailable
from libs.sandbox.docker import DEFAULT_SOCKET, connect, endpoint

if TYPE_CHECKING:
    import docker

__all__ = [
    "build_image",
    "engine_process",
    "ensure_engine",
    "install_packages",
    "last_lines",
    "root_on_debian",
]

Report = Callable[[str], None]

LOG = Path("/var/log/dockerd.log")
PID_FILE = Path("/var/run/docker.pid")
_START_SECONDS = 60
_ENGINE_PACKAGES = {"dockerd": "docker.io", "iptables": "iptables", "debootstrap": "debootstrap"}


def ensure_engine(report: Report, *, install: bool = True) -> None:
    """Install and start a Docker Engine if no Engine answers.

    Does so only as root on a Debian-like machine, and only for the default socket. A running Engine is never
    stopped or restarted, even if it does not answer.

    Args:
        report: is called with each step, one line a call.
        install: whether anything may be installed or started (the setting `SETUP_ENGINE`).

    Raises:
        DockerUnavailable: no Engine answers and none could be started; the hint says what to do.
    """
    problem = _silence()
    if problem is None:
        return
    if not install or endpoint() != DEFAULT_SOCKET or not root_on_debian():
        raise problem
    report("no Docker Engine answers: setting one up")
    install_packages([p for command, p in _ENGINE_PACKAGES.items() if shutil.which(command) is None], report)
    if _silence() is not None:  # installing may have started it
        _start(report)
    report("the Docker Engine answers")


def build_image(
    name: str, report: Report, *, base: str | None = None, install: bool = True, browser: bool = False
) -> ImageInfo:
    """Build the sandbox image unless it is current.

    Args:
        name: name of the image (`Settings.image`).
        report: is called with each step, one line a call.
        base: image to build on; see `libs.backends.docker.sandbox_image.ensure_image`.
        install: whether debootstrap may be installed, which makes a base where no registry answers.
        browser: build the variant with a browser (the setting `SANDBOX_BROWSER`).

    Raises:
        DockerUnavailable: no Engine answers, or its disk is full.
        ImageMissing: the image could not be built.
    """
    with closing(connect()) as client:
        if install and root_on_debian() and image_state(client, name) != "ready":
            install_packages([] if shutil.which("debootstrap") else ["debootstrap"], report)
        return ensure_image(client, name, progress=report, base=base, browser=browser)


def _silence() -> DockerUnavailable | None:
    """Return why no Engine answers; None if an Engine answers."""
    try:
        client: docker.DockerClient = connect(timeout=10)
    except DockerUnavailable as error:
        return error
    client.close()
    return None


def root_on_debian() -> bool:
    """Whether packages can be installed here: by root, with apt-get."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_packages(packages: Sequence[str], report: Report) -> None:
    """Install packages of Debian. Raises DockerUnavailable if apt-get fails."""
    if not packages:
        return
    report(f"installing {', '.join(packages)}")
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    for step in (["apt-get", "update", "-qq"], ["env", "DEBIAN_FRONTEND=noninteractive", *command]):
        done = subprocess.run(step, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise DockerUnavailable(
                f"apt-get could not install {', '.join(packages)}: {last_lines(done.stderr)}",
                hint=f"See why with `{' '.join(command)}`.",
            )


def _start(report: Report) -> None:
    """Start the Engine, or wait for a starting Engine, until it answers."""
    if Path("/run/systemd/system").is_dir():
        report("starting docker.service")
        see = "journalctl -u docker"
        done = subprocess.run(["systemctl", "start", "docker"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise DockerUnavailable(
                f"docker.service does not start: {last_lines(done.stderr)}", hint=f"See why with `{see}`."
            )
        _wait(None, see)
    elif pid := engine_process():
        report("waiting for the Docker Engine that is running")
        _wait(None, f"ps -p {pid}")
    else:
        report(f"starting dockerd; its log is {LOG}")
        with LOG.open("ab") as log:
            # In a new session, because the Engine outlives this program and its terminal.
            process = subprocess.Popen(
                ["dockerd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        _wait(process, f"tail {LOG}")


def engine_process() -> int | None:
    """Return the process id of the `dockerd` that runs on this machine, if any."""
    try:
        pid = int(PID_FILE.read_text())
        return pid if Path(f"/proc/{pid}/comm").read_text().strip() == "dockerd" else None
    except (OSError, ValueError):
        return None


def _wait(process: subprocess.Popen[bytes] | None, see: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while (problem := _silence()) is not None:
        if process is not None and process.poll() is not None:
            raise DockerUnavailable(
                f"dockerd ended: {last_lines(LOG.read_text('utf-8', 'replace'))}",
                hint=f"See why with `{see}`.",
            )
        if time.monotonic() > deadline:
            raise DockerUnavailable(
                f"The Docker Engine did not answer within {_START_SECONDS} s: {problem}",
                hint=f"See why with `{see}`.",
            )
        time.sleep(0.2)


def last_lines(text: str) -> str:
    """Return the last lines of a program's output, as one line."""
    return " | ".join(text.strip().splitlines()[-3:])
