"""Defines what is kept of an execution: its files in the thread, and its record in the command log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.outcome import ExecResult, quoted_path
from libs.sandbox.host import Form

__all__ = ["ExecutionRecord", "ThreadFiles", "written"]


class ThreadFiles(Protocol):
    """Saves the files of a thread between executions."""

    async def files(self, thread: str) -> Mapping[str, bytes]:
        """Return the saved files: relative path -> content, as it was given to `keep`."""
        ...

    async def keep(self, thread: str, changed: Mapping[str, bytes], removed: tuple[str, ...]) -> None:
        """Save new and changed files and delete removed files, in one transaction.

        `libs.persistence.mode_of` tells the mode of a file.

        Raises:
            SandboxError: nothing was saved.
        """
        ...


class ExecutionRecord:
    """The record of one execution, without contents that the thread keeps anyway.

    Args:
        contents: whether the record holds the contents of the files. Otherwise it holds their SHA-256.
    """

    def __init__(self, *, contents: bool) -> None:
        self._contents = contents
        self._digests: Mapping[str, str] = {}
        self.form: Form[ExecResult] = Form(self._encode, self._decode)

    def _encode(self, result: ExecResult) -> dict[str, Any]:
        record = result.as_json(contents=self._contents)
        if not self._contents:
            record["sha256"] = {path: _digest(content) for path, content in result.files.items()}
        return record

    def _decode(self, record: Mapping[str, Any]) -> ExecResult:
        self._digests = record.get("sha256", {})
        return ExecResult.restored(record)

    def with_files(self, result: ExecResult, kept: Mapping[str, bytes]) -> ExecResult:
        """Return a recorded result with the contents that the thread still has. Its note tells of others."""
        files = {
            path: kept[path]
            for path in result.files
            if path in kept and _digest(kept[path]) == self._digests.get(path)
        }
        if not (changed := sorted(result.files.keys() - files.keys())):
            return replace(result, files=files)
        return replace(result, files=files).noted(
            f"{len(changed)} of the program's files are not returned, because they were changed or removed "
            f"since: {quoted_path(changed[0])}."
        )


def written(call: Call, result: ExecResult) -> dict[str, bytes]:
    """Return the files of a call and of its program that the thread keeps."""
    if result.metrics.exit_code is None:
        # The program never ran. Its files may be the cause, and would block later programs.
        return {}
    written = {**call.contents, **result.files}
    return {path: content for path, content in written.items() if path not in result.removed}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
