"""Installs public MCP servers from npm and from Python's package index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["installed_from_npm", "installed_from_pypi"]

_NPM_VERSION = "2026.8.31"


def installed_from_npm(folder: Path, *names: str) -> Path:
    """Install `@modelcontextprotocol/server-<name>`, and return the folder of the programs. Needs npm."""
    packages = [f"@modelcontextprotocol/server-{name}@{_NPM_VERSION}" for name in names]
    flags = ("--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder))
    subprocess.run(["npm", "install", *flags, *packages], check=True, timeout=280)
    return folder / "node_modules" / ".bin"


def installed_from_pypi(folder: Path, package: str) -> Path:
    """Install a package into an environment of its own, and return the folder of the programs."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, package], check=True, timeout=280)
    return folder / "bin"
