"""Connects to the standard input and output of a container's first process, through the Engine."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from libs.sandbox.docker.engine import ask
from libs.sandbox.docker.engine_errors import explained
from libs.sandbox.docker.removal import remove_now, wait_until_removed
from libs.sandbox.errors import SandboxError

if TYPE_CHECKING:
    import docker

__all__ = ["AttachedTransport", "attached_container"]

_open: weakref.WeakSet[AttachedTransport] = weakref.WeakSet()


class AttachedTransport:
    """The Engine's attach connection: raw bytes in, blocks of standard output and error back.

    Each block has a header of 8 bytes: the output's number, three zeros, the length (Docker Engine API,
    "Attach to a container", Stream format).
    """

    _HEADER = struct.Struct("!BxxxI")

    def __init__(self, client: docker.DockerClient, container: str) -> None:
        self._client = client
        self._container = container
        with explained():
            self._file = client.api.attach_socket(
                container, params={"stdin": "1", "stdout": "1", "stderr": "1", "stream": "1"}
            )
        # The socket below the SDK's file object. TLS, named pipes and SSH come without a file object.
        self._link: Any = getattr(self._file, "_sock", self._file)
        self._plain = type(self._link) is socket.socket
        if hasattr(self._link, "settimeout"):
            self._link.settimeout(None)
        self._buffer = bytearray()
        self._errors = bytearray()
        self._left = 0
        self._kind = 1
        self._closed = False
        _open.add(self)

    def start(self) -> None:
        """Start the container. Raises SandboxError."""
        with explained():
            self._client.api.start(self._container)

    def discard(self) -> None:
        """Close the connection and remove the container after a failed start."""
        self.close()
        self.release()
        remove_now(self._client, self._container)

    def receive(self) -> bytes:
        while True:
            data: bytes = self._link.recv(262_144)
            if not data:
                return b""
            self._buffer += data
            if output := self._unpack():
                return output

    def _unpack(self) -> bytes:
        """Return the received standard output. Keep standard error for the epitaph."""
        output: list[bytes] = []
        buffer, offset = self._buffer, 0
        while offset < len(buffer):
            if self._left == 0:
                if len(buffer) - offset < self._HEADER.size:
                    break
                self._kind, self._left = self._HEADER.unpack_from(buffer, offset)
                offset += self._HEADER.size
                continue
            block = bytes(buffer[offset : offset + self._left])
            offset += len(block)
            self._left -= len(block)
            if self._kind == 1:
                output.append(block)
            else:
                self._errors = (self._errors + block)[-4096:]
        del buffer[:offset]
        return b"".join(output)

    def send_now(self, data: bytes) -> int:
        if not self._plain:
            return 0
        try:
            # Not `send`: checks for blocking calls on an event loop ignore its MSG_DONTWAIT flag.
            sent: int = self._link.sendmsg([data], [], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        return sent

    def send(self, data: bytes) -> None:
        self._link.sendall(data)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # close() alone would not wake up the reader thread, and the Engine would keep the connection.
        with contextlib.suppress(OSError):
            if hasattr(self._link, "shutdown"):
                self._link.shutdown(socket.SHUT_RDWR)
        wait_until_removed(self._client, self._container)

    def release(self) -> None:
        """Close the descriptors. Call when the reader thread has ended."""
        with contextlib.suppress(OSError):
            self._file.close()
            self._link.close()

    def epitaph(self) -> str:
        """Return the container's end as the Engine knows it, and the supervisor's last error line."""
        if self._closed:
            return "it was closed"
        reasons: list[str] = []
        with contextlib.suppress(SandboxError), explained():
            answer = ask(self._client, "GET", f"/containers/{self._container}/json")
            state = answer.json()["State"] if answer.ok else {"Running": True}  # unknown
            if not state.get("Running"):
                reasons.append(f"its first process exited with {state.get('ExitCode')}")
            if state.get("OOMKilled"):
                # Also set by a process that the kernel killed long before.
                reasons.append("its memory was used up, then or earlier (raise SANDBOX_MEMORY or use less)")
        if self._errors:
            # The last line of a traceback names the error.
            reasons.append(self._errors.decode("utf-8", "replace").strip().rpartition("\n")[2])
        return "; ".join(reasons)


def attached_container(
    client: docker.DockerClient, config: Mapping[str, Any], name: str, image: str
) -> AttachedTransport:
    """Create a container and connect to it. The caller starts it.

    Args:
        config: see `hardened_config`.
        image: the image's name, for errors.

    Raises:
        SandboxError: the Engine fails, or refuses the configuration. No container is left.
    """
    try:
        with explained(image):
            # In mypy's view of the SDK, this method has no types.
            container = client.api.create_container_from_config(config, name)["Id"]  # type: ignore[no-untyped-call]
        return AttachedTransport(client, container)
    except BaseException:
        # The Engine may have created the container. AutoRemove needs a start.
        remove_now(client, name)
        raise


def _let_go() -> None:
    """In a forked child, close the connections: the container ends with the parent, not with the child."""
    for transport in list(_open):
        transport._closed = True
        transport.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
