"""Shows a sandbox's file system to the agent, with some read-only folders."""

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

from libs.backends.absolute_patterns import WILDCARDS, may_name_another
from libs.backends.asynchronous_backend import AsyncBackend
from libs.backends.read_only_backend import ReadOnlyBackend

__all__ = ["WorkspaceBackend"]


class WorkspaceBackend(AsyncBackend, CompositeBackend):
    """Routes every path to `sandbox`. Changes below `read_only` are refused.

    Paths are normalised before routing. Otherwise `//skills/x` and `/workspace/../skills/x` would miss their
    route. So `..` removes the name before it, also if that name is a link. Relative paths start at `home`.

    `glob` and `grep` without a path, or with `/`, search `home`, so no file is found twice and system folders
    are not searched. A `glob` pattern that begins with `home` or another folder named here, such as
    `/data/*.csv`, is searched from that folder, and so is a pattern that names a folder of the system.

    What deepagents offloads (large results, summarised history) is written below `artifacts_root`.
    `agrep` of the sandbox must have the argument `max_count`: the largest number of matches.
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
        # normpath keeps two leading slashes, which POSIX allows to differ from one. On Linux they do not.
        return "/" + posixpath.normpath(posixpath.join(self._home, path)).lstrip("/")

    def _get_backend_and_key(self, key: str) -> tuple[BackendProtocol, str]:
        return super()._get_backend_and_key(self._normal(key))

    def _folder(self, path: str | None) -> str:
        """Return the folder to search: `home` instead of `/`, which holds the system's files."""
        folder = self._normal(path or self._home)
        return self._home if folder == "/" else folder

    def _start(self, pattern: str, path: str | None) -> tuple[str, str]:
        """Return the folder where a `glob` begins, and the pattern below it."""
        if path is not None or not any(pattern.startswith(f"{anchor}/") for anchor in self._anchors):
            return self._folder(path), pattern
        parts = pattern.split("/")
        literal = next((i for i, part in enumerate(parts) if WILDCARDS & set(part)), len(parts) - 1)
        return self._folder("/".join(parts[:literal])), "/" + "/".join(parts[literal:])

    async def als(self, path: str) -> LsResult:
        path = self._normal(path)
        # The sandbox's listing of / already contains the read-only folders.
        return await self.default.als("/") if path == "/" else await super().als(path)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        folder, below = self._start(pattern, path)
        found = await super().aglob(below, folder)
        if path in (None, "/") and may_name_another(below, found):
            # The pattern may name a folder of the system. A search begins there, not in `/`.
            found = await self.default.aglob(pattern, "/")
        return found

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        # The sandbox itself sees the read-only folders. If a result has matches and an error,
        # CompositeBackend would return the paths of the matches without the name of the folder.
        return await self.default.agrep(pattern, self._folder(path), glob, max_count=max_count)
