"""Writes the packages of MCP servers into the folder that sandboxes see as `/servers`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

__all__ = ["PackageFolder"]

_CHANNEL: Final = Path(__file__).parent / "inside" / "channel_module.py"
_ROOT: Final = '"""MCP servers as packages. Read `/servers/<name>/__init__.py`, or call help()."""\n'


class PackageFolder:
    """The folder. Files are replaced at once, because running programs read them. Thread-safe; blocks.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._names = set(names)
        self._lock = Lock()

    def write(self, name: str, files: Mapping[str, str]) -> None:
        """Write the package of a server: relative path -> text. Other files of the package are removed."""
        with self._lock:
            self._write_common()
            self._write_package(self._folder / name, files)

    def write_failure(self, name: str, why: str) -> None:
        """Write a package whose import says why the server cannot be used, if there is no package yet."""
        with self._lock:
            self._write_common()
            if not (self._folder / name).exists():
                text = f"raise ImportError({f'the server {name} cannot be used now: {why}'!a})\n"
                self._write_package(self._folder / name, {"__init__.py": text})

    def _write_common(self) -> None:
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._folder.chmod(0o755)
        self._put(self._folder / "__init__.py", _ROOT)
        self._put(self._folder / "_channel.py", _CHANNEL.read_text())
        for package in self._folder.iterdir():  # servers that are not configured any more
            if package.is_dir() and package.name not in self._names:
                shutil.rmtree(package)

    def _write_package(self, package: Path, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            self._put(package / path, text)
        kept = {package / path for path in files}
        for old in package.rglob("*"):
            if old.is_file() and old not in kept:
                old.unlink()

    def _put(self, path: Path, text: str) -> None:
        content = text.encode("utf-8", "replace")
        for folder in reversed([path.parent, *path.parent.parents]):
            if folder.is_relative_to(self._folder) and not folder.is_dir():
                folder.mkdir()
                folder.chmod(0o755)
        if path.is_file() and path.read_bytes() == content:
            return
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".", delete=False) as file:
            file.write(content)
        written = Path(file.name)
        written.chmod(0o644)
        written.replace(path)
