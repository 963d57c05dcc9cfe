"""Contents that end something, or fail, in the middle of a capture or a restore."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.workspace import Catalog, Contents, WorkspaceStore

__all__ = ["EndingContents", "fill", "snapshots_at"]

SIZE = 2_500_000
"""Bytes of a file: more than a credit, so the sandbox works on it meanwhile."""


class EndingContents(Contents):
    """Calls `end` before the content with the number `at` is kept, and before it is read."""

    def __init__(self, url: str, at: int, end: Callable[[], object]) -> None:
        super().__init__(url)
        self.left = at
        self._end = end

    async def put(self, place: str, contents: Sequence[tuple[str, bytes]]) -> dict[str, int]:
        self._count()
        return await super().put(place, contents)

    async def put_large(self, place: str, digest: str, pieces: AsyncIterator[bytes]) -> int | None:
        self._count()
        return await super().put_large(place, digest, pieces)

    async def get(self, place: str, digest: str) -> AsyncIterator[bytes]:
        self._count()
        async for piece in super().get(place, digest):
            yield piece

    def _count(self) -> None:
        self.left -= 1
        if self.left == -1:
            self._end()


def fill(root: Path, seed: int) -> None:
    """Write six files, a folder without permission to write, and a link."""
    numbers = random.Random(seed)
    for path in root.iterdir():
        if path.is_dir():
            path.chmod(0o755)
    for number in range(6):
        folder = root / f"folder{number % 2}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}").write_bytes(numbers.randbytes(SIZE))
    (root / "link").unlink(missing_ok=True)
    (root / "link").symlink_to(f"target{seed}")
    (root / "folder0").chmod(0o500)


def snapshots_at(place: Path, at: int = -1, end: Callable[[], object] = lambda: None) -> WorkspaceStore:
    """Open the store in a folder."""
    return WorkspaceStore(
        Catalog(SqliteDatabase(place / "threads.sqlite")), EndingContents(str(place / "snapshots"), at, end)
    )


def main() -> None:
    """Capture, or restore to a capture, and kill this process at the content with a number."""
    place, root, at, *to = sys.argv[1:]
    store = snapshots_at(Path(place), int(at), lambda: os.kill(os.getpid(), signal.SIGKILL))
    with LocalSandbox(Path(root)) as sandbox:
        if to:
            store.restore(sandbox, to[0])
        else:
            store.capture(sandbox)


if __name__ == "__main__":
    main()
