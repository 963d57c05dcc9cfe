"""Recognizes expected errors that end a run, and explains them to a person."""

from __future__ import annotations

import sys

import httpx
from langgraph.errors import GraphRecursionError

from agent.run.agents import AgentRefused
from agent.settings import SettingsError
from libs.models import ModelUnavailable, ScriptError, ScriptExhausted
from libs.models.local_model import ContextTooLong
from libs.persistence import CheckpointerUnavailable, ThreadInUse, database_errors
from libs.sandbox import SandboxError

__all__ = ["complaint", "explained"]

_EXPLAINED = (
    *(ModelUnavailable, ContextTooLong, ScriptExhausted),
    *(GraphRecursionError, httpx.HTTPError),
)
# Package of a provider -> base class of its errors. Looked up only in loaded packages.
_PROVIDER_ERRORS = {"openai": "OpenAIError", "anthropic": "AnthropicError", "groq": "GroqError"}


def explained(error: BaseException) -> str | None:
    """Return the explanation of an expected error; None for any other error."""
    if isinstance(error, (*_EXPLAINED, *database_errors())):
        return str(error)
    if isinstance(error, _provider_errors()):
        return f"The model could not be reached or refused: {error}"
    return None


def complaint(error: BaseException) -> tuple[str, int] | None:
    """Return the text about an expected error and the exit status: 1, or 2 for bad usage or settings."""
    if isinstance(error, (AgentRefused, SettingsError, ScriptError, ModelUnavailable, ThreadInUse)):
        return str(error), 2
    if isinstance(error, (SandboxError, CheckpointerUnavailable)):
        return f"{error} {error.hint}", 1
    text = explained(error)
    return None if text is None else (text, 1)


def _provider_errors() -> tuple[type[Exception], ...]:
    """Return the error classes of the loaded packages of providers."""
    loaded = [(sys.modules.get(package), name) for package, name in _PROVIDER_ERRORS.items()]
    return tuple(getattr(package, name) for package, name in loaded if package is not None)
