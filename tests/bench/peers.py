"""The peers: each in a virtual environment of its own, driven as a child process."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.config import load_settings

__all__ = ["Peers"]

REQUIREMENTS: dict[str, list[str]] = {
    "exec_run": [],  # docker-py, which this project has anyway
    "deepagents-docker-sandbox": ["deepagents-docker-sandbox==0.0.1"],
    "swe-rex": ["swe-rex==1.4.0", "aiohttp>=3,<4"],  # which it imports and does not ask for
    "llm-sandbox": ["llm-sandbox[docker]==0.3.46"],
}
FOLDER = "bench-peers"
_PROGRAM = Path(__file__).with_name("peer_program.py")
_SECONDS = 120.0
"""Longest that one answer may take."""


class PeerFailed(Exception):
    """It could not be had, or could not do what it was asked."""


class _Peer:
    def __init__(self, python: str, name: str, image: str) -> None:
        self._process = subprocess.Popen(
            [python, str(_PROGRAM), name, image],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, do: str, *arguments: object) -> float | None:
        """Seconds that it took there; None where this peer has no such call. Raises PeerFailed."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps({"do": do, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerFailed("its process has ended") from None
        if not select.select([self._process.stdout], [], [], _SECONDS)[0]:
            self._process.kill()
            raise PeerFailed(f"{do} took over {_SECONDS:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed("its process has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerFailed(answer["error"])
        seconds: float | None = answer["seconds"]
        return seconds

    def close(self) -> None:
        """Let it end its container, and wait for that."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Peers:
    """All that can be had. Usable as a context manager, which ends their containers.

    Args:
        image: what their containers are started from: ours, as no other can be had everywhere.
        names: which to take; without it, all.
    """

    def __init__(self, image: str, names: list[str] | None = None) -> None:
        self.left_out: dict[str, str] = {}
        """Peer, or peer and call -> why it has no figure."""
        self._there: dict[str, _Peer] = {}
        for name in REQUIREMENTS if names is None else names:
            try:
                self._there[name] = _Peer(_interpreter(name), name, image)
            except PeerFailed as error:
                self.left_out[name] = str(error)

    def open(self) -> None:
        """Have each one's container running; those that cannot are left out."""
        for name in list(self._there):
            self._try(name, "open")

    def shut(self) -> None:
        """Have none running."""
        for name in list(self._there):
            self._try(name, "close")

    def reporting(self, do: str, *arguments: object) -> dict[str, Callable[[], float]]:
        """By peer, how to have it done once more: those that have such a call, and can do it."""
        found = {}
        for name in list(self._there):
            if self._try(name, do, *arguments, what=f"{name}, {do}") is not None:
                found[name] = _asking(self._there[name], do, arguments)
        return found

    def _try(self, name: str, do: str, *arguments: object, what: str = "") -> float | None:
        try:
            return self._there[name].ask(do, *arguments)
        except PeerFailed as error:
            self.left_out[what or name] = str(error)
            if not what:
                self._there.pop(name).close()
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for peer in self._there.values():
            peer.close()


def _asking(peer: _Peer, do: str, arguments: tuple[object, ...]) -> Callable[[], float]:
    def ask() -> float:
        seconds = peer.ask(do, *arguments)
        assert seconds is not None
        return seconds

    return ask


def _interpreter(name: str) -> str:
    """The Python that has a peer installed, made at its first use beside the fetched models.

    Raises:
        PeerFailed: it cannot be installed here.
    """
    requirements = REQUIREMENTS[name]
    if not requirements:
        return sys.executable
    folder = load_settings(None).models_dir.parent / FOLDER / name
    python, stamp = folder / "bin" / "python", folder / ".ready"
    if not stamp.is_file() or stamp.read_text() != "\n".join(requirements):
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
                raise PeerFailed(f"it cannot be installed: {said[-1]}")
        stamp.write_text("\n".join(requirements))
    return str(python)
