"""Runs a sandbox as one hardened Docker container, owned by one connection to its first process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from libs.redaction import Redact
from libs.sandbox.docker.attach import attached_container
from libs.sandbox.docker.container_config import bind, hardened_config, variables
from libs.sandbox.docker.engine import answering_client
from libs.sandbox.docker.engine_errors import RUNTIME_HINT
from libs.sandbox.docker.ownership import give_to_sandbox
from libs.sandbox.docker.removal import remove_owed
from libs.sandbox.docker.runtimes import check_runtime, process_limit
from libs.sandbox.docker.strays import NAME_LABEL, OWNER_LABEL, THREAD_LABEL, WORKSPACE_LABEL, sweep_once
from libs.sandbox.errors import DockerUnavailable, SandboxDied, SandboxError, program
from libs.sandbox.host import Channel, ChannelSandbox, CommandRecords, Door, Egress, ThreadNotes, notes_of
from libs.sandbox.limits import SandboxLimits
from libs.sandbox.process_owner import owner_label
from libs.sandbox.workspace import (
    Folders,
    folder_at,
    how_to_mend,
    is_read_only,
    mounts_below,
    prepare_workspace,
)

if TYPE_CHECKING:
    import docker

__all__ = ["DockerSandbox", "Spares"]


class Spares(Protocol):
    """Sandboxes that are started before a thread needs them."""

    def take(self, root: Path) -> DockerSandbox | None:
        """Move a spare to `root` and return it. None if none is ready."""

    def fill(self) -> None:
        """Start missing spares in the background."""


class DockerSandbox(ChannelSandbox):
    """One container at a time, started at the first call and replaced when it has died.

    Its disk is `root` on the host, mounted at `/workspace`. Skills are mounted read-only. Nothing else of the
    host is reachable: no network, no capability, no other path, no variable that was not passed in.
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
        common: Callable[[], tuple[int, int]] | None = None,
        redact: Redact | None = None,
        egress: Egress | None = None,
        records: CommandRecords | None = None,
        thread: Callable[[], str] = str,
        resolved: bool = False,
    ) -> None:
        """Create the object. The container starts with the first call.

        Args:
            root: the workspace on the host. Created if missing. Symbolic links in its path
                are resolved here, once.
            image: name of the image.
            name: containers are called `<name>-<8 hex digits>`.
            read_only: path inside -> folder on the host, mounted read-only.
            environment: variables inside, on top of the sandbox's own.
            runtime: an OCI runtime of the Engine, such as `runsc`; None is the Engine's default.
            check_image: raises ImageMissing if the image must not be used.
            labels: additional labels of the container.
            spares: spare sandboxes to use before a container is started.
            common: for sandboxes with a common folder: makes that folder, gives it and this workspace to the
                sandbox's user, and returns uid and gid. None: only this workspace is prepared.
            egress: creates the gateway's end for each container. None: programs inside find no proxy.
            idle_seconds, redact, records, thread: see `ChannelSandbox`.
            resolved: whether links in `root` and `read_only` are already resolved.
        """
        super().__init__(
            name, limits, idle_seconds=idle_seconds, redact=redact, records=records, thread=thread
        )
        self.root = root if resolved else root.resolve()
        self._asked = root.absolute()
        self.notes = ThreadNotes(notes_of(self.root))
        self.image = image
        self.container_name: str | None = None
        self._read_only = {
            path: folder if resolved else folder.resolve() for path, folder in read_only.items()
        }
        self._environment = environment
        self._runtime = runtime
        self._check_image = check_image
        self._labels = {OWNER_LABEL: "", NAME_LABEL: name, WORKSPACE_LABEL: str(self.root), **labels}
        self._spares = spares
        self._common = common
        self._egress = egress

    def move(self, root: Path) -> bool:
        """Rename the workspace of a running container. Return whether that worked. The mount stays."""
        try:
            self.root.rename(root)
        except OSError:
            return False
        self.root = self._asked = root
        return True

    def _adopt(self, spare: DockerSandbox) -> Channel | None:
        """Take over the container of a spare."""
        with spare._starting:
            channel, spare._channel = spare._channel, None
            self.container_name, spare.container_name = spare.container_name, None
        if channel:
            self._tell(channel.door)
        return channel

    def _tell(self, door: Door | None) -> None:
        """Tell the gateway which container and thread the connections belong to."""
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
        # After the start: two starts at once would each take twice as long.
        self._spares.fill()
        return channel

    def _begin(self) -> Channel:
        """Start a container."""
        uid, gid = self._prepare()
        client = answering_client(self._asked_at)
        name = f"{self.name}-{secrets.token_hex(4)}"
        door = self._egress() if self._egress else None
        config = self._config(uid, gid, door)
        if self._runtime:
            config["HostConfig"]["PidsLimit"] = process_limit(client, self._runtime, self.limits.pids)
        self._check_image(client)
        try:
            transport = attached_container(client, config, name, self.image)
            try:
                channel = Channel(transport, on_close=transport.release, door=door)
                transport.start()
                self._check_runtime(channel)
            except BaseException:
                transport.discard()
                raise
        except DockerUnavailable as error:
            raise _missing_folder(config) or error from None
        self.container_name = name
        self._tell(door)
        sweep_once(client)
        remove_owed(client)
        return channel

    def _check_runtime(self, channel: Channel) -> None:
        # The default runtime is not checked: that would delay each start.
        if self._runtime:
            try:
                check_runtime(channel, self._runtime, self.limits)
            except SandboxDied as error:
                raise self._not_ready(error) from None

    def _config(self, uid: int, gid: int, door: Door | None) -> dict[str, Any]:
        mounts, disks = self._workspace(uid, gid)
        mounts += [bind(folder, path, read_only=True) for path, folder in sorted(self._read_only.items())]
        return hardened_config(
            self.image,
            (uid, gid),
            self.limits,
            environment=variables(self._environment, door),
            labels={**self._labels, OWNER_LABEL: owner_label()},
            mounts=mounts,
            disks=disks,
            runtime=self._runtime,
        )

    def _not_ready(self, died: SandboxDied | None) -> SandboxError:
        if died is None:
            return DockerUnavailable(
                "The container was started and said nothing for a minute.",
                hint="If `docker info` hangs too, restart the Docker Engine. Else wait until this "
                "machine is less busy.",
            )
        return DockerUnavailable(
            f"The container started but its supervisor did not come up. {died}".rstrip(),
            hint=RUNTIME_HINT
            if self._runtime
            else f"Rebuild the image with `{program()} setup`; `{program()} doctor` tells more.",
        )

    def _prepare(self) -> tuple[int, int]:
        """Prepare the workspace. Return the uid and gid of the sandbox's user. Raises SandboxError."""
        try:
            uid, gid = prepare_workspace(self.root)
            if self._common:
                return self._common()
            give_to_sandbox(self.root, uid)
        except (OSError, ValueError) as error:
            # The file name of an error may be the number of a descriptor.
            why = f"cannot be used: {error.strerror}" if isinstance(error, OSError) else str(error)
            raise SandboxError(
                f"The workspace {self.root} {why}.",
                hint=how_to_mend(self.root, error),
            ) from error
        return uid, gid

    def _workspace(self, uid: int, gid: int) -> tuple[list[dict[str, Any]], dict[str, str]]:  # noqa: ARG002
        """Return the mounts and the tmpfs options for /workspace."""
        return [bind(self.root, "/workspace", read_only=False)], {}

    def _mounted_at(self) -> Sequence[str]:
        return tuple(self._read_only)

    def _folders_there(self) -> Folders | None:
        folders = (self.root, *self._read_only.values())
        return Folders(
            tuple(map(folder_at, folders)), mounts_below(folders), read_only=is_read_only(self.root)
        )

    def close(self) -> None:
        """Stop the container and wait until it is removed: see `wait_until_removed`."""
        super().close()
        if self._channel is None:
            self.container_name = None


def _missing_folder(config: Mapping[str, Any]) -> SandboxError | None:
    """Return the error for the first folder to be mounted that is not there. None: all are there."""
    for mount in config["HostConfig"]["Mounts"]:
        if not os.path.isdir(mount["Source"]):  # noqa: PTH112 - raises no PermissionError
            return SandboxError(
                f"The folder {mount['Source']}, which the sandbox has as {mount['Target']}, was moved or "
                "removed on this machine.",
                hint="Put it back, then try again. A workspace that is missing is made anew by the next try.",
            )
    return None
