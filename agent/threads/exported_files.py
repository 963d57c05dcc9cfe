"""Keeps the files of a one-tool thread in its store, and writes its results to the workspace as well."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from libs.exec_tool import quoted_path, with_reasons
from libs.lite import LiteError, resolve_sandbox_path
from libs.persistence import CheckpointerUnavailable
from libs.persistence.thread_store import ThreadStore, TooMuch
from libs.sandbox import RecordUnavailable, SandboxError

__all__ = ["ExportedFiles"]

logger = logging.getLogger(__name__)

_RESULTS = "results/"


class ExportedFiles:
    """Implements `libs.exec_tool.execution_record.ThreadFiles`.

    Files below `results/` that stay are also written to that folder of the workspace, where a person looks
    for them. Commands of other agents can change the workspace, so no file there is opened by its path: each
    folder is opened from its parent folder, and no link is followed.

    Args:
        store: keeps the files.
        home: the workspace of the installation.
        folder_of: thread -> its workspace, relative to `home`.
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

    async def hand_over(self, thread: str, files: Mapping[str, bytes]) -> str:
        """Write the files below `results/`, which stay in the thread, to the workspace as well.

        Return a note about the files that cannot be written there.
        """
        results = {path: content for path, content in files.items() if path.startswith(_RESULTS)}
        missing = await asyncio.to_thread(self._write, self._folder_of(thread), results) if results else {}
        if not missing:
            return ""
        told = with_reasons([(quoted_path(path), why) for path, why in missing.items()])
        return f"{len(missing)} of the files were not written to the user's folder: {told}."

    def _write(self, folder: Path, files: Mapping[str, bytes]) -> dict[str, str]:
        """Return the paths that cannot be written, each with the reason."""
        home = self._home.resolve()  # a person may have made `home` a link; links below it are not followed
        if not home.is_dir():  # it was there when the program began
            return dict.fromkeys(files, "the workspace was moved or removed")
        missing: dict[str, str] = {}
        for path, content in files.items():
            try:
                with resolve_sandbox_path(home, (folder / path).as_posix(), make_folders=True) as place:
                    place.replace(content)
            except (OSError, LiteError) as error:
                logger.warning("%s is kept in its thread, not written to the workspace: %s", path, error)
                missing[path] = (error.strerror if isinstance(error, OSError) else "") or str(error)[:200]
        return missing
