"""Describes a hardened container for the Engine's API. `test_posture.py` reads the limits back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from libs.sandbox.errors import SandboxError
from libs.sandbox.host import Door, encoded_variables, way_out
from libs.sandbox.limits import SandboxLimits

__all__ = ["HOSTNAME", "OWN_VARIABLES", "bind", "hardened_config", "room", "variables"]

HOSTNAME: Final = "sandbox"
"""Host name of the container. The container has no network, so this name is no other machine."""
_CPU_PERIOD: Final = 100_000
"""Period of the CPU limit in microseconds: the kernel's default."""
_RUN: Final = 1024 * 1024
"""Bytes of /run, which holds names of users and certificates."""
_HOME: Final = "/tmp/home"  # noqa: S108 - inside the container, where it is the sandbox's own
OWN_VARIABLES: Final = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "HOSTNAME", "MPLCONFIGDIR"),
        # Paths of the host that mislead programs inside, and variables that change every shell.
        *("PYTHONHOME", "PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR"),
        *("SHELLOPTS", "BASHOPTS", "BASH_ENV", "ENV", "IFS"),
        *("SANDBOX_PROXY", "SANDBOX_TRUST"),  # read by the first process: see `way_out`
    )
)
"""Variables that a caller cannot set."""
# System V objects outlive their process and keep their memory: sysvipc(7).
_IPC: Final = {"kernel.shm_rmid_forced": "1", "kernel.msgmni": "64", "kernel.sem": "250 4096 100 64"}


def room(size: int) -> str:
    """Return tmpfs options: bytes and number of files. Files need memory even when empty."""
    return f"size={size},nr_inodes={size // 4096 + 1024}"


def bind(source: Path, target: str, *, read_only: bool) -> dict[str, Any]:
    """Return the mount of a host folder."""
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}


def variables(given: Mapping[str, str], door: Door | None) -> dict[str, str]:
    """Return the environment of commands, besides the image's variables.

    Raises:
        SandboxError: a variable cannot be passed as it is. The Engine takes UTF-8 only.
    """
    passed = {name: value for name, value in given.items() if name not in OWN_VARIABLES}
    try:
        encoded_variables(passed, any_bytes=False)
    except ValueError as error:
        raise SandboxError(
            f"The sandbox cannot get its variables: {error}.",
            hint="Change the value, or do not pass the variable: see SANDBOX_ENV_INHERIT, SANDBOX_ENV_ALLOW "
            "and EXEC_PASS_KEYS (in Python `env_allow`, `environment`).",
        ) from None
    return {
        "LANG": "C.UTF-8",
        # Python compares only size and second of change, and would run the old compiled module.
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLCONFIGDIR": f"{_HOME}/.config/matplotlib",
        **passed,
        **(way_out(door) if door else {}),
        "HOME": _HOME,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
    }


def hardened_config(
    image: str,
    user: tuple[int, int],
    limits: SandboxLimits,
    *,
    environment: Mapping[str, str],
    labels: Mapping[str, str],
    mounts: list[dict[str, Any]],
    disks: Mapping[str, str],
    runtime: str | None,
) -> dict[str, Any]:
    """Return the configuration of a container.

    Args:
        user: uid and gid of all processes inside.
        disks: path inside -> options of an additional tmpfs.
        runtime: an OCI runtime of the Engine; None is the Engine's default.
    """
    uid, gid = user
    ulimits = {"nofile": limits.open_files, "fsize": limits.file_size, "core": 0}
    return {
        "Image": image,
        "User": f"{uid}:{gid}",
        "Hostname": HOSTNAME,
        "WorkingDir": "/workspace",
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "OpenStdin": True,
        # The Engine closes standard input when this connection ends, however it ends.
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "NetworkDisabled": True,
        # The first process ignores other signals, so the Engine would wait ten seconds to stop it.
        "StopSignal": "SIGKILL",
        "Labels": dict(labels),
        "HostConfig": {
            "AutoRemove": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": True,
            "NetworkMode": "none",
            "IpcMode": "private",
            "Tmpfs": {
                **disks,
                "/tmp": f"rw,exec,nosuid,nodev,{room(limits.tmp)},mode=1777",  # noqa: S108
                "/dev/shm": f"rw,noexec,nosuid,nodev,{room(limits.tmp // 4)},mode=1777",  # noqa: S108
                "/run": f"rw,noexec,nosuid,nodev,{room(_RUN)},mode=0755,uid={uid},gid={gid}",
            },
            "Sysctls": _IPC,
            "Mounts": mounts,
            "Memory": limits.memory,
            "MemorySwap": limits.memory,
            # Not NanoCpus, which the Engine refuses where the machine has fewer processors.
            "CpuPeriod": _CPU_PERIOD,
            "CpuQuota": int(limits.cpus * _CPU_PERIOD),
            "PidsLimit": limits.pids,
            "Ulimits": [{"Name": key, "Soft": value, "Hard": value} for key, value in ulimits.items()],
            # The default log driver would write every frame to the disk.
            "LogConfig": {"Type": "none", "Config": {}},
            **({"Runtime": runtime} if runtime else {}),
        },
    }
