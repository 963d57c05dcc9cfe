"""The files of a one-tool thread: kept in its store, and what it hands over also in the workspace."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from libs.lite.sandbox_path import PathRefused, resolve_sandbox_path
from libs.persistence.errors import CheckpointerUnavailable
from libs.persistence.thread_store import ThreadStore, TooMuch
from libs.sandbox import RecordUnavailable, SandboxError

__all__ = ["ExportedFiles"]

logger = logging.getLogger(__name__)

_RESULTS = "results/"


class ExportedFiles:
    """Implements `libs.exec_tool.runner.ThreadFiles`.

    Files below `results/` are also written into that folder of the workspace, where a person looks for them.
    The workspace is open to the commands of other agents, so nothing there is reached by name: every folder
    is opened from the one before, and no link is followed.

    Args:
        store: keeps them.
        home: the workspace of the installation.
        folder_of: thread -> its workspace, relative to that one.
    """

    def __init__(self, store: ThreadStore, home: Path, folder_of: Callable[[str], Path]) -> None:
        self._store = store
        self._home = home
        self._folder_of = folder_of

    async def files(self, thread: str) -> Mapping[str, bytes]:
        """See `ThreadFiles.files`."""
        if not thread:
            return {}
        try:
            return await self._store.files(thread)
        except CheckpointerUnavailable as error:
            raise RecordUnavailable(str(error), hint=error.hint) from error

    async def keep(self, thread: str, changed: Mapping[str, bytes], removed: tuple[str, ...]) -> None:
        """See `ThreadFiles.keep`."""
        if thread:
            try:
                await self._store.keep(thread, changed, removed)
            except CheckpointerUnavailable as error:
                raise RecordUnavailable(str(error), hint=error.hint) from error
            except TooMuch as error:
                raise SandboxError(f"{error}.", hint="Remove files that are not needed any more.") from error
        handed_over = {path: content for path, content in changed.items() if path.startswith(_RESULTS)}
        if handed_over:
            await asyncio.to_thread(self._hand_over, self._folder_of(thread), handed_over)

    def _hand_over(self, folder: Path, files: Mapping[str, bytes]) -> None:
        home = self._home.resolve()  # the person may have made it a link; below it nothing is followed
        for path, content in files.items():
            try:
                with resolve_sandbox_path(home, (folder / path).as_posix(), make_folders=True) as place:
                    _replace(place.folder, place.name, content)
            except (OSError, PathRefused) as error:
                logger.warning("%s is kept in its thread, not written to the workspace: %s", path, error)


def _replace(folder: int, name: str, content: bytes) -> None:
    """Put a file into an open folder, whole or not at all, in the place of whatever has its name there."""
    draft = f".{os.urandom(8).hex()}.part"
    file = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder
    )
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            owner = os.stat(folder)
            if owner.st_uid != os.geteuid():  # the folder belongs to the sandbox's user
                os.fchown(opened.fileno(), owner.st_uid, owner.st_gid)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        os.unlink(draft, dir_fd=folder)
        if error.errno == errno.EISDIR:
            raise PathRefused(f"{name} is a folder there") from None
        raise
