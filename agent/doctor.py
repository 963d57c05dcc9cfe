"""What this machine lacks for a sandbox, found by looking, each finding with what mends it."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from libs.backends.docker.context import host_certificates
from libs.backends.docker.image import image_state
from libs.sandbox.engine import connect, endpoint
from libs.sandbox.errors import SandboxError, program
from libs.sandbox.explain import explained

__all__ = ["Check", "doctor"]

_NEEDED_BYTES = 2 * 1024**3  # what building the image takes


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
    """What to do; empty where there is nothing to do."""


def doctor(*, workspace: Path, image: str, runtime: str | None = None) -> list[Check]:
    """Look at all that a sandbox needs from this machine. Changes nothing, raises nothing for what it finds.

    Args:
        workspace: Folder that is mounted as the agent's disk.
        image: Name of the sandbox image.
        runtime: Container runtime that is asked for.
    """
    checks = _engine_checks(image, runtime)
    return [*checks, _workspace_check(workspace), _trust_check()]


def _engine_checks(image: str, runtime: str | None) -> list[Check]:
    try:
        with closing(connect(timeout=10)) as client, explained():
            info: dict[str, Any] = client.info()
            state = image_state(client, image)
        engine = Check("Docker Engine", True, f"{info['ServerVersion']} at {endpoint()}")
    except SandboxError as error:
        return [Check("Docker Engine", False, str(error), error.hint)]
    missing = {"missing": "is not built", "stale": "was built from other sources than these"}.get(state)
    built = Check(
        "image", not missing, f"{image} {missing or 'is current'}", f"{program()} setup" if missing else ""
    )
    checks = [engine, _limits_check(info), built, _disk_check(Path(info["DockerRootDir"]))]
    if runtime:
        known = ", ".join(sorted(info["Runtimes"]))
        hint = f"Unset SANDBOX_RUNTIME, or install it; the Engine knows {known}."
        checks.append(Check("runtime", runtime in info["Runtimes"], runtime, hint))
    return checks


def _limits_check(info: dict[str, Any]) -> Check:
    """Whether the kernel enforces the limits that containers are started with."""
    needed = {"MemoryLimit": "memory", "CpuCfsQuota": "CPU", "PidsLimit": "processes"}
    absent = [what for key, what in needed.items() if not info.get(key)]
    version = f"cgroup v{info.get('CgroupVersion', '1')}"
    if absent:
        hint = "Enable these cgroup controllers in the kernel; a rootless Engine needs them delegated."
        return Check("limits", False, f"{version}: not enforced for {', '.join(absent)}", hint)
    return Check("limits", True, f"{version}: memory, CPU and processes are limited")


def _disk_check(root: Path) -> Check:
    if not root.is_dir():
        return Check("disk", True, f"{root} is not on this machine (Docker Desktop keeps its own disk)")
    free = shutil.disk_usage(root).free
    detail = f"{free / 1024**3:.1f} GiB free in {root}"
    enough = free >= _NEEDED_BYTES
    return Check(
        "disk", enough, detail, "" if enough else "Free some: `docker system df`, `docker system prune`."
    )


def _workspace_check(workspace: Path) -> Check:
    place = next(
        folder for folder in (workspace.absolute(), *workspace.absolute().parents) if folder.exists()
    )
    if not place.is_dir():
        return Check("workspace", False, f"{place} is not a folder", "Choose another with WORKSPACE_DIR.")
    if not os.access(place, os.W_OK | os.X_OK):
        hint = f"Run `sudo chown $USER {place}`, or choose another folder with WORKSPACE_DIR."
        return Check("workspace", False, f"{place} cannot be written", hint)
    return Check("workspace", True, f"{workspace.absolute()} can be written")


def _trust_check() -> Check:
    count = len(host_certificates())
    if not count:
        return Check("CA certificates", True, "none found on this host: the image keeps those of its base")
    return Check("CA certificates", True, f"{count} of this host are trusted in the image")
