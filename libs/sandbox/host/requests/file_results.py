"""Turns the answers to file operations into results or errors."""

from __future__ import annotations

import json
from typing import Any

from libs.sandbox.errors import WorkspaceMissing
from libs.sandbox.host.requests.redacted_results import redacted_answer, redacted_content
from libs.sandbox.host.requests.request import Answer, Call
from libs.sandbox.host.requests.results import OUR_ERROR, check_begun, shortened
from libs.sandbox.protocol import FileFailed
from libs.sandbox.wire.frames import Ending, Fd

__all__ = ["as_builtin", "file_result"]

_MOST_SHOWN = 1_000
"""Characters of a path in an error."""


def file_result(call: Call, answer: Answer, seconds: float) -> tuple[dict[str, Any], bytes]:
    """Return the answer of a file operation and the content that it read.

    Raises:
        FileFailed: the operation failed.
        SandboxBusy: the operation did not begin.
        WorkspaceMissing: the workspace folder was removed during the operation.
    """
    check_begun(answer, seconds)
    if answer.ending == Ending.TIMEOUT:
        raise FileFailed("timeout", f"the operation took over {seconds:g} s")
    if answer.ending == Ending.MEMORY:
        raise FileFailed(
            "failed",
            "the sandbox has no memory left for this operation: end programs that use it, remove files from "
            "/tmp and /dev/shm, raise SANDBOX_MEMORY, or let a command work on the file in parts",
        )
    if answer.ending == Ending.FAILED:
        raise FileFailed("failed", f"the process that handled this file operation failed. {OUR_ERROR}")
    if answer.ending != Ending.DONE:
        raise FileFailed(
            "failed",
            "a command or block killed the process that handled this file operation: try again when that has "
            "ended",
        )
    try:
        message: Any = json.loads(answer.body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise FileFailed(
            "failed", "the process that handled this file operation sent an unreadable answer; try again"
        )
    if call.redact:
        message = redacted_answer(call.redact, message)
    if message.get("error") == "workspace_removed":
        raise WorkspaceMissing.meanwhile()
    if error := message.get("error"):
        raise FileFailed(str(error), str(message.get("detail", error)))
    content = bytes(call.data[Fd.OUT])
    return message, redacted_content(call.redact, content) if call.redact else content


def as_builtin(error: FileFailed, path: str) -> Exception:
    """Return the error that the same operation raises for a local file."""
    kinds: dict[str, type[OSError]] = {
        "file_not_found": FileNotFoundError,
        "is_directory": IsADirectoryError,
        "not_a_directory": NotADirectoryError,
        "permission_denied": PermissionError,
        "timeout": TimeoutError,
    }
    kind = ValueError if error.code == "invalid_path" else kinds.get(error.code, OSError)
    return kind(f"{shortened(path, _MOST_SHOWN)}: {error}")
