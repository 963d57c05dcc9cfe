"""Indexes and folders of packages on the host's own disk: read, and nothing of them but packages."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from libs.gateway.errors import GatewayError
from libs.gateway.packages.links import HTML, PackageFile, files_of, package_file
from libs.gateway.packages.outside import MOST_PAGE

__all__ = ["LocalIndex"]

_FLAGS: Final = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")
)


class LocalIndex:
    """A `file:` index, or what a `file:` find-links of pip's names. Its methods block.

    Served is what it lists, where that lies below its folder; for one that is called `simple`, below the
    folder around it, since mirrors keep their files beside. No link leads out.

    Args:
        url: where it is.
        writable: folders that programs in the sandbox can write to: who writes there must not have a say in
            which files of the host are read.

    Raises:
        GatewayError: 502, it lies in such a folder.
    """

    def __init__(self, url: str, writable: Sequence[Path] = ()) -> None:
        self.folder = Path(url2pathname(urlsplit(url).path)).resolve()
        self.root = self.folder.parent if self.folder.name == "simple" else self.folder
        if self.folder.is_file():
            self.root = self.folder.parent
        for folder in writable:
            theirs = folder.resolve()
            if self.root.is_relative_to(theirs) or theirs.is_relative_to(self.root):
                raise GatewayError(
                    502,
                    "an index that pip on the host is set to lies in the workspace, or around it, and is not "
                    "served: ask the person to move it",
                )

    def of_project(self, project: str) -> list[PackageFile] | None:
        """What it lists for a project; None where it has no page for it. Raises GatewayError."""
        page = self.folder / project / "index.html"
        return self._page(page) if page.is_file() else None

    def listed(self) -> list[PackageFile]:
        """What the folder holds, or the page lists. Raises GatewayError."""
        if self.folder.is_dir():
            return [
                PackageFile(path.name, path.as_uri())
                for path in sorted(self.folder.iterdir())
                if package_file(path.name)
            ]
        if package_file(self.folder.name):
            return [PackageFile(self.folder.name, self.folder.as_uri())] if self.folder.is_file() else []
        return self._page(self.folder) if self.folder.is_file() else []

    def open(self, url: str) -> tuple[BinaryIO, int] | None:
        """A file that it lists, and its size; None where it is gone. Raises GatewayError, 502."""
        named = Path(url2pathname(urlsplit(url).path))
        try:
            path = named.resolve(strict=True)
        except (OSError, RuntimeError):  # the latter for a loop of links
            return None
        if not path.is_relative_to(self.root):
            raise GatewayError(502, f"{named.name} leads out of the folder of its index, and is not served")
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError as error:
            raise GatewayError(502, f"{named.name} cannot be read: {error.strerror}") from None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise GatewayError(502, f"{named.name} is no file")
        return os.fdopen(descriptor, "rb"), status.st_size

    def _page(self, path: Path) -> list[PackageFile]:
        opened = self.open(path.as_uri())
        if opened is None:
            return []
        file, size = opened
        with file:
            if size > MOST_PAGE:
                raise GatewayError(502, f"a page of a local index has more than {MOST_PAGE >> 20} MiB")
            return files_of(file.read(MOST_PAGE), HTML, path.as_uri())
