"""Installs gVisor and registers it with the Docker Engine, which reads its configuration again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from agent.commands.machine.setup_command import engine_process, install_packages, last_lines, root_on_debian
from libs.sandbox import DockerUnavailable, program
from libs.sandbox.docker import DEFAULT_SOCKET, connect, endpoint, explained

__all__ = ["GVISOR", "ensure_gvisor", "registered"]

Report = Callable[[str], None]

GVISOR: Final = "runsc"
"""Name of gVisor's runtime, of its program, and of Debian's package."""
_ARGUMENTS: Final = ["--network=none"]
"""Sandboxes have no network. gVisor's own network stack would need rights that a nested Engine lacks."""
_CONFIGURATION: Final = Path("/etc/docker/daemon.json")
_RELOAD_SECONDS: Final = 20.0


def ensure_gvisor(report: Report, *, install: bool = True) -> None:
    """Install `runsc` and register it with the Engine, unless the Engine knows it.

    Does so only as root on a Debian-like machine, and only for the Engine at the default socket. The Engine
    is not restarted, and other options of its configuration stay.

    Args:
        report: is called with each step, one line a call.
        install: whether anything may be installed or changed (the setting `SETUP_ENGINE`).

    Raises:
        DockerUnavailable: the Engine does not know `runsc` afterwards; the hint says what to do.
    """
    if _known():
        return
    if not install or endpoint() != DEFAULT_SOCKET or not root_on_debian():
        raise DockerUnavailable(
            f"The Docker Engine does not know the runtime {GVISOR}.",
            hint=f"On Debian or Ubuntu, run `sudo {program()} setup --runtime {GVISOR}` with SETUP_ENGINE=1. "
            f"Elsewhere, install gVisor and register it as a runtime in {_CONFIGURATION}.",
        )
    if shutil.which(GVISOR) is None:
        install_packages([GVISOR], report)
    report(f"registering {GVISOR} in {_CONFIGURATION}")
    before = _CONFIGURATION.read_bytes() if _CONFIGURATION.exists() else None
    after = registered(before or b"{}", shutil.which(GVISOR) or f"/usr/bin/{GVISOR}")
    try:
        _write(after)
        _reload(report)
    except BaseException:  # Ctrl-C, too: only the whole change stays
        # With a configuration that the Engine refuses, it would not start again.
        _CONFIGURATION.unlink(missing_ok=True) if before is None else _write(before)
        _signal_engine()
        raise


def registered(configuration: bytes, path: str) -> bytes:
    """Return the Engine's configuration with the runtime at `path` added to it.

    Raises:
        DockerUnavailable: the configuration is not a JSON object.
    """
    try:
        options: Any = json.loads(configuration)
        runtimes: Any = options.setdefault("runtimes", {})
        runtimes[GVISOR] = {"path": path, "runtimeArgs": _ARGUMENTS}
    except (ValueError, AttributeError, TypeError) as error:
        raise DockerUnavailable(
            f"{_CONFIGURATION} is not a valid configuration of the Docker Engine: {error}.",
            hint="Correct the file, then run this again.",
        ) from error
    return json.dumps(options, indent=2).encode() + b"\n"


def _known() -> bool:
    with closing(connect(timeout=10)) as client, explained():
        return GVISOR in client.info()["Runtimes"]


def _write(content: bytes) -> None:
    """Replace the configuration in one step. The mode stays."""
    path = _CONFIGURATION.resolve()
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, path.name)
        made.write_bytes(content)
        made.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        made.replace(path)


def _reload(report: Report) -> None:
    """Let the Engine read its configuration, and wait until it knows the runtime."""
    report("reloading the Docker Engine")
    problem = _signal_engine()
    deadline = time.monotonic() + _RELOAD_SECONDS
    while not problem and not _known():
        if time.monotonic() > deadline:
            problem = f"the Engine does not know {GVISOR} after {_RELOAD_SECONDS:g} s"
        time.sleep(0.2)
    if problem:
        raise DockerUnavailable(
            f"The Docker Engine did not accept the runtime {GVISOR}: {problem}.",
            hint=f"{_CONFIGURATION} is as it was. The Engine's log says more: `journalctl -u docker`, or "
            "/var/log/dockerd.log.",
        )


def _signal_engine() -> str:
    """Let the Engine read its configuration; return the problem, or ""."""
    if Path("/run/systemd/system").is_dir():
        done = subprocess.run(["systemctl", "reload", "docker"], capture_output=True, text=True, check=False)
        return last_lines(done.stderr) if done.returncode else ""
    pid = engine_process()
    if not pid:
        return "no process of the Engine was found"
    os.kill(pid, signal.SIGHUP)
    return ""
