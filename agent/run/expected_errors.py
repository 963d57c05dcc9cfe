"""Recognizes expected errors that end a run, and explains them to a person."""

from __future__ import annotations

import httpx
from langgraph.errors import GraphRecursionError

from agent.run.agents import AgentRefused
from agent.settings import SettingsError
from libs.models import (
    ModelFailed,
    ModelUnavailable,
    ScriptError,
    ScriptExhausted,
    provider_failure,
    with_address,
)
from libs.models.local_model import ContextTooLong
from libs.persistence import CheckpointerUnavailable, ThreadInUse, database_errors
from libs.sandbox import FileFailed, SandboxError
from libs.workspace import SnapshotsUnavailable

__all__ = ["complaint", "explained"]

_EXPLAINED = (
    *(ModelFailed, ModelUnavailable, ContextTooLong, ScriptExhausted),
    *(GraphRecursionError, httpx.HTTPError),
)


def explained(error: BaseException) -> str | None:
    """Return the explanation of an expected error; None for any other error."""
    if isinstance(error, (*_EXPLAINED, *database_errors())):
        return with_address(error)
    return provider_failure(error)


def complaint(error: BaseException) -> tuple[str, int] | None:
    """Return the text about an expected error and the exit status: 1, or 2 for bad usage or settings."""
    if isinstance(error, (AgentRefused, SettingsError, ScriptError, ModelUnavailable, ThreadInUse)):
        return str(error), 2
    if isinstance(error, (SandboxError, CheckpointerUnavailable, SnapshotsUnavailable)):
        return f"{error} {error.hint}", 1
    if isinstance(error, FileFailed):
        return f"{error} Look at the files in the workspace, and try again.", 1
    text = explained(error)
    return None if text is None else (text, 1)
