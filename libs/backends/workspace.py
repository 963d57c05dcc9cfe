"""The file system as the agent sees it: one sandbox, in which some folders can only be read."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from deepagents.backends import CompositeBackend
from deepagents.backends.protocol import (
    BackendProtocol,
    GlobResult,
    GrepResult,
    LsResult,
    SandboxBackendProtocol,
)

from libs.backends.read_only import ReadOnlyBackend

__all__ = ["WorkspaceBackend"]

_WILDCARDS = frozenset("*?[{")


class WorkspaceBackend(CompositeBackend):
    """Sends every path to `sandbox`, those below `read_only` through a wrapper that refuses changes.

    Paths are normalised before they are routed: with prefix matching alone `//skills/x` and
    `/workspace/../skills/x` would miss their route. Relative paths start at `home`. `glob`
    and `grep` without a path, or with `/`, look in `home`: nothing is found twice, and `/usr` and `/proc`
    are left alone. A `glob` pattern that begins with `home` or another folder named here, such as
    `/data/*.csv`, is searched from that folder.

    What deepagents offloads (large results, summarised history) is written below `artifacts_root`.
    """

    def __init__(
        self,
        sandbox: SandboxBackendProtocol,
        *,
        read_only: Sequence[str] = ("/skills",),
        home: str = "/workspace",
        links: Sequence[str] = ("/data", "/scripts", "/results", "/tmp"),  # noqa: S108 - a path in the sandbox
        artifacts_root: str = "/workspace/.output",
    ) -> None:
        routes: dict[str, BackendProtocol] = {
            f"{folder.rstrip('/')}/": ReadOnlyBackend(sandbox, folder) for folder in read_only
        }
        super().__init__(sandbox, routes, artifacts_root=artifacts_root)
        self._home = home
        self._anchors = (home, *links, *read_only)

    def _normal(self, path: str) -> str:
        # normpath keeps two leading slashes, as POSIX allows them a meaning of their own; Linux has none.
        return "/" + posixpath.normpath(posixpath.join(self._home, path)).lstrip("/")

    def _get_backend_and_key(self, key: str) -> tuple[BackendProtocol, str]:
        return super()._get_backend_and_key(self._normal(key))

    def _folder(self, path: str | None) -> str:
        """Where a search begins: all of `/` would mean the system's own files, which nobody looks for."""
        folder = self._normal(path or self._home)
        return self._home if folder == "/" else folder

    def _start(self, pattern: str, path: str | None) -> tuple[str, str]:
        """The folder where a `glob` begins, and the pattern below it."""
        if path is not None or not any(pattern.startswith(f"{anchor}/") for anchor in self._anchors):
            return self._folder(path), pattern
        parts = pattern.split("/")
        literal = next((i for i, part in enumerate(parts) if _WILDCARDS & set(part)), len(parts) - 1)
        return "/".join(parts[:literal]), "/" + "/".join(parts[literal:])

    def ls(self, path: str) -> LsResult:
        path = self._normal(path)
        # The sandbox's own listing of / holds the read-only folders already.
        return self.default.ls("/") if path == "/" else super().ls(path)

    async def als(self, path: str) -> LsResult:
        path = self._normal(path)
        return await self.default.als("/") if path == "/" else await super().als(path)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        folder, below = self._start(pattern, path)
        return super().glob(below, folder)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        folder, below = self._start(pattern, path)
        return await super().aglob(below, folder)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        return super().grep(pattern, self._folder(path), glob, max_count=max_count)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        return await super().agrep(pattern, self._folder(path), glob, max_count=max_count)
