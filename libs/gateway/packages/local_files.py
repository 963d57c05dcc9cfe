"""Reads package indexes and folders on the host's disk, and only package files in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from libs.gateway.gateway_errors import GatewayError
from libs.gateway.packages.index_client import MOST_PAGE
from libs.gateway.packages.index_pages import HTML, PackageFile, files_of, package_file

__all__ = ["LocalIndex"]

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class LocalIndex:
    """A `file:` index, or a folder of find-links. The methods block.

    Only listed files below the folder are served. For a folder named `simple`, files below its parent count
    too, because mirrors keep files beside the index. No link leads out.

    Args:
        url: the location.
        writable: folders that the sandbox can write. A command must not decide which host files are read.

    Raises:
        GatewayError: 502, the index lies in or around a writable folder.
    """

    def __init__(self, url: str, writable: Sequence[Path] = ()) -> None:
        self.folder = Path(url2pathname(urlsplit(url).path)).resolve()
        self.root = self.folder.parent if self.folder.name == "simple" else self.folder
        for folder in writable:
            resolved = folder.resolve()
            if self.root.is_relative_to(resolved) or resolved.is_relative_to(self.root):
                raise GatewayError(
                    502,
                    "an index that pip on the host is set to lies in the workspace, or around it, and is not "
                    "served: ask the person to move it",
                )

    def of_project(self, project: str) -> list[PackageFile] | None:
        """Return the files of a project; None without a page. Raises GatewayError."""
        page = self.folder / project / "index.html"
        if not page.is_file() or (opened := self.open(page.as_uri())) is None:
            return None
        file, size = opened
        with file:
            if size > MOST_PAGE:
                raise GatewayError(502, f"a page of a local index has more than {MOST_PAGE >> 20} MiB")
            return files_of(file.read(MOST_PAGE), HTML, page.as_uri())

    def listed(self) -> list[PackageFile]:
        """Return the package files in the folder."""
        paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [PackageFile(path.name, path.as_uri()) for path in paths if package_file(path.name)]

    def open(self, url: str) -> tuple[BinaryIO, int] | None:
        """Open a listed file; return it with its size, or None if missing. Raises GatewayError (502)."""
        named = Path(url2pathname(urlsplit(url).path))
        try:
            path = named.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a loop of links
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
            raise GatewayError(502, f"{named.name} is not a file")
        return os.fdopen(descriptor, "rb"), status.st_size
