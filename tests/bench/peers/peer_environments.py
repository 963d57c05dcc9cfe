"""Environments for what the figures are compared with: made at first use, beside the fetched models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.config import load_settings

__all__ = ["PeerFailed", "node_folder", "python_with"]


class PeerFailed(Exception):
    """A peer could not be installed, or a call failed."""


def python_with(name: str, requirements: Sequence[str]) -> str:
    """Return the Python of a virtual environment with these requirements of pip.

    Raises:
        PeerFailed: the requirements cannot be installed.
    """
    folder = _folder(name)
    python = str(folder / "bin" / "python")
    _install(
        folder,
        requirements,
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
    )
    return python


def node_folder(name: str, packages: Sequence[str]) -> Path:
    """Return a folder in which npm has installed these packages. No script of a package has run.

    Raises:
        PeerFailed: npm is missing, or the packages cannot be installed.
    """
    folder = _folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"private": True}))
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)]
    _install(folder, packages, ["npm", "install", *options, *packages])
    return folder


def _folder(name: str) -> Path:
    return load_settings(None).models_dir.parent / "bench-peers" / name


def _install(folder: Path, packages: Sequence[str], *commands: list[str]) -> None:
    stamp = folder / ".ready"
    if stamp.is_file() and stamp.read_text() == "\n".join(packages):
        return
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise PeerFailed(f"it cannot be installed: {error}") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            raise PeerFailed(f"it cannot be installed: {said[-1]}")
    stamp.write_text("\n".join(packages))
