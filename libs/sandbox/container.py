"""A sandbox that is one hardened Docker container, owned by one connection to its first process."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from libs.sandbox.attach import AttachedTransport
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.channel import Channel
from libs.sandbox.egress import Door, Egress, way_out
from libs.sandbox.engine import answering_client
from libs.sandbox.engine_api import do
from libs.sandbox.errors import DockerUnavailable, SandboxDied, SandboxError, program
from libs.sandbox.handover import Handover
from libs.sandbox.idle import rests_no_more
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.records import CommandRecords
from libs.sandbox.redact import Redact
from libs.sandbox.removal import remove_now, remove_owed
from libs.sandbox.strays import (
    NAME_LABEL,
    OWNER_LABEL,
    THREAD_LABEL,
    WORKSPACE_LABEL,
    owner_label,
    remove_strays,
)
from libs.sandbox.workspace import how_to_mend, is_root, prepare_workspace

if TYPE_CHECKING:
    import docker

    from libs.sandbox.pool import Spares

__all__ = ["DockerSandbox", "room"]

logger = logging.getLogger(__name__)

_CPU_PERIOD = 100_000
"""Microseconds over which CPU time is shared out: the kernel's default."""
_RUN = 1024 * 1024
"""Bytes of /run: names of users, and what programs are to trust."""
_HOME = "/tmp/home"  # noqa: S108 - inside the container, where it is the sandbox's own
_OWN_VARIABLES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "HOSTNAME", "MPLCONFIGDIR"),
        # Paths of the host that would mislead programs inside, and what changes how every shell behaves.
        *("PYTHONHOME", "PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR"),
        *("SHELLOPTS", "BASHOPTS", "BASH_ENV", "ENV", "IFS"),
        *("SANDBOX_PROXY", "SANDBOX_TRUST"),  # what the first process is told by: see `way_out`
    )
)
"""Variables that the sandbox sets itself, whatever is passed in."""
_swept = threading.Lock()


class DockerSandbox(ChannelSandbox):
    """One container at a time, made on first use and replaced when it has died.

    Its disk is `root` on the host, at `/workspace`; skills are mounted read-only. Nothing else of the host
    is reachable: no network, no capability, no path, no variable that was not passed in.
    """

    isolated = True

    def __init__(
        self,
        root: Path,
        *,
        image: str,
        name: str,
        limits: SandboxLimits = SandboxLimits(),
        read_only: Mapping[str, Path] = {},
        environment: Mapping[str, str] = {},
        runtime: str | None = None,
        check_image: Callable[[docker.DockerClient], None] = lambda _: None,
        labels: Mapping[str, str] = {},
        idle_seconds: float = 0,
        spares: Spares | None = None,
        common: Callable[[int], Handover | None] | None = None,
        redact: Redact | None = None,
        egress: Egress | None = None,
        records: CommandRecords | None = None,
        thread: Callable[[], str] = str,
        resolved: bool = False,
    ) -> None:
        """Nothing is started here.

        Args:
            root: the workspace on the host; made where missing.
            image: what to start.
            name: containers are called `<name>-<8 hex digits>`.
            read_only: path inside -> folder on the host, mounted read-only.
            environment: variables inside, on top of the sandbox's own.
            runtime: an OCI runtime of the Engine, such as `runsc`; None is the Engine's default.
            check_image: raises ImageMissing where the image is not to be used.
            labels: more labels of the container.
            idle_seconds: how long it may rest until it is ended, its workspace kept; 0: for ever.
            spares: where to look for one that is ready, before one is started.
            common: where sandboxes share a folder: makes what they have in common for this uid, and gives
                what hands to it what root puts there. Without it, each does that for its own workspace.
            redact: takes secrets out of all that leaves it: output as it comes and in the end, names and
                contents of files, errors. What goes in, and what lies in the workspace, stays as it is.
            egress: makes for each container what serves the connections that programs in it make to their
                proxy. Without it there is no proxy.
            records: where it is written down what has begun and how it ended: what has a key is done once.
            thread: gives the thread that a key belongs to, asked in the context of the call.
            resolved: links in `root` and `read_only` were followed already: the disk is not asked here.
        """
        super().__init__(
            name, limits, idle_seconds=idle_seconds, redact=redact, records=records, thread=thread
        )
        self.root = root if resolved else root.resolve()
        self._asked = root.absolute()
        self.image = image
        self.container_name: str | None = None
        self._read_only = {
            path: folder if resolved else folder.resolve() for path, folder in read_only.items()
        }
        self._environment = {key: value for key, value in environment.items() if key not in _OWN_VARIABLES}
        self._runtime = runtime
        self._check_image = check_image
        self._labels = {OWNER_LABEL: "", NAME_LABEL: name, WORKSPACE_LABEL: str(self.root), **labels}
        self._spares = spares
        self._common = common
        self._egress = egress

    def move(self, root: Path) -> bool:
        """Give its workspace another name while it runs; whether that could be done. The mount stays."""
        try:
            self.root.rename(root)
        except OSError:
            return False
        self.root = self._asked = root
        return True

    def _adopt(self, spare: DockerSandbox) -> Channel | None:
        """Become a sandbox that runs on this workspace already."""
        with spare._starting:
            channel, spare._channel = spare._channel, None
            self.container_name, spare.container_name = spare.container_name, None
            self._handover, spare._handover = spare._handover, None
        if channel:
            self._tell(channel.door)
        return channel

    def _tell(self, door: Door | None) -> None:
        """Tell the gateway whose the container is."""
        if door:
            door.belongs_to(self.container_name or "", self._labels.get(THREAD_LABEL, ""))

    def _connect(self) -> Channel:
        if self._common and self._asked.resolve() != self._asked:
            raise SandboxError(
                f"The workspace {self._asked} is reached through a link, which a command may have made.",
                hint="Remove the link: a folder of its own takes its place.",
            )
        if self._spares is None:
            return self._begin()
        spare = self._spares.take(self.root)
        channel = (self._adopt(spare) if spare else None) or self._begin()
        # Only now: starting two at once takes each twice as long.
        self._spares.fill()
        return channel

    def _begin(self) -> Channel:
        """Start a container."""
        uid, gid = self._prepare()
        client = answering_client(self._asked_at)
        name = f"{self.name}-{secrets.token_hex(4)}"
        door = self._egress() if self._egress else None
        try:
            container = self._create(client, self._config(uid, gid, door), name)
            transport = AttachedTransport(client, container)
        except BaseException:
            # Made all the same, perhaps: never started, it does not remove itself.
            remove_now(client, name)
            raise
        try:
            channel = Channel(transport, on_close=transport.release, door=door)
            do(client, "POST", f"/containers/{container}/start")
        except BaseException:
            transport.close()
            transport.release()
            remove_now(client, container)
            raise
        self.container_name = name
        self._tell(door)
        _sweep_once(client)
        remove_owed(client)
        return channel

    def _create(self, client: docker.DockerClient, config: dict[str, Any], name: str) -> str:
        """Have the Engine make the container, and look at the image meanwhile; its id.

        Raises:
            SandboxError: what is wrong with the image, before what the Engine says.
        """
        with ThreadPoolExecutor(1, "sandbox-image") as beside:
            looked_at = beside.submit(self._check_image, client)
            try:
                made = do(client, "POST", "/containers/create", config, name=name)
            finally:
                looked_at.result()
        return str(made["Id"])

    def _not_ready(self, died: SandboxDied | None) -> SandboxError:
        if died is None:
            return DockerUnavailable(
                "The container was started and said nothing for a minute.",
                hint="If `docker info` hangs too, restart the Docker Engine. Else wait until this "
                "machine is less busy.",
            )
        return DockerUnavailable(
            f"The container started but its supervisor did not come up. {died}".rstrip(),
            hint=f"Rebuild the image with `{program()} setup`; `{program()} doctor` tells more.",
        )

    def _prepare(self) -> tuple[int, int]:
        """Make the workspace ready; uid and gid of who works in it. Raises SandboxError."""
        try:
            uid, gid = prepare_workspace(self.root)
            if self._common:
                self._handover = self._common(uid)
            elif self._handover is None and is_root() and self.root.stat().st_uid == 0:
                self._handover = Handover(self.root, uid)
        except (OSError, ValueError) as error:
            raise SandboxError(
                f"The workspace {self.root} cannot be used: {error}.",
                hint=how_to_mend(self.root, error),
            ) from error
        return uid, gid

    def _workspace(self, uid: int, gid: int) -> tuple[list[dict[str, Any]], dict[str, str]]:  # noqa: ARG002
        """What is at /workspace: mounts, or tmpfs with their options."""
        return [_bind(self.root, "/workspace", read_only=False)], {}

    def close(self) -> None:
        """End the container and wait until the Engine has removed it: see `wait_until_removed`."""
        with self._starting:
            channel, self._channel = self._channel, None
            if channel:
                channel.close()
            handover, self._handover = self._handover, None
            if handover and not self._common:
                handover.close()
            rests_no_more(self)
            self.container_name = None

    def _variables(self, door: Door | None) -> dict[str, str]:
        """What commands find in their environment, besides the image's own."""
        return {
            "LANG": "C.UTF-8",
            "MPLCONFIGDIR": f"{_HOME}/.config/matplotlib",
            **self._environment,
            **(way_out(door) if door else {}),
            "HOME": _HOME,
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": "/bin/bash",
        }

    def _config(self, uid: int, gid: int, door: Door | None) -> dict[str, Any]:
        """The container as the Engine's API takes it. tests/integration/test_posture.py reads it back."""
        limits = self.limits
        mounts, disks = self._workspace(uid, gid)
        mounts += [_bind(folder, path, read_only=True) for path, folder in sorted(self._read_only.items())]
        ulimits = {"nofile": limits.open_files, "fsize": limits.file_size, "core": 0}
        return {
            "Image": self.image,
            "User": f"{uid}:{gid}",
            "Hostname": "sandbox",
            "WorkingDir": "/workspace",
            "Env": [f"{name}={value}" for name, value in self._variables(door).items()],
            "OpenStdin": True,
            # The Engine closes standard input when this connection ends, however it ends.
            "StdinOnce": True,
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "NetworkDisabled": True,
            # The first process heeds no other: an Engine that shuts down, or ends what it finds at its start,
            # would wait ten seconds for each.
            "StopSignal": "SIGKILL",
            "Labels": {**self._labels, OWNER_LABEL: owner_label()},
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
                # The default driver would write every frame to the disk.
                "LogConfig": {"Type": "none", "Config": {}},
                **({"Runtime": self._runtime} if self._runtime else {}),
            },
        }


# System V objects outlive who made them, and so would the memory that they take: sysvipc(7).
_IPC: Final = {"kernel.shm_rmid_forced": "1", "kernel.msgmni": "64", "kernel.sem": "250 4096 100 64"}


def room(size: int) -> str:
    """Options of a tmpfs: its bytes, and how many files. Empty ones take memory too, and no bytes."""
    return f"size={size},nr_inodes={size // 4096 + 1024}"


def _bind(source: Path, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}


def _sweep_once(client: docker.DockerClient) -> None:
    """Once in this process, off the path of the first command: remove what killed programs have left."""
    if _swept.acquire(blocking=False):
        threading.Thread(target=_sweep, args=(client,), name="sandbox-sweep", daemon=True).start()


def _sweep(client: docker.DockerClient) -> None:
    try:
        if removed := remove_strays(client):
            logger.info("removed containers of programs that are gone: %s", ", ".join(removed))
    except SandboxError as error:
        logger.warning("could not look for containers of programs that are gone: %s", error)
