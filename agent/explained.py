"""Errors that end a run and whose message is all that a person needs: no defect of this program."""

from __future__ import annotations

import sys

import httpx
from langgraph.errors import GraphRecursionError

from libs.models.deferred import ModelUnavailable
from libs.models.local import ContextTooLong
from libs.models.scripted import ScriptExhausted
from libs.persistence.errors import database_errors

__all__ = ["explained"]

_EXPLAINED = (
    *(ModelUnavailable, ContextTooLong, ScriptExhausted),
    *(GraphRecursionError, httpx.HTTPError),
)
# The classes that the errors of a provider's package derive from, where that package is loaded at all.
_PROVIDER_ERRORS = {"openai": "OpenAIError", "anthropic": "AnthropicError", "groq": "GroqError"}


def explained(error: BaseException) -> str | None:
    """What to tell of an error; None for one that nobody has foreseen."""
    if isinstance(error, (*_EXPLAINED, *database_errors())):
        return str(error)
    if isinstance(error, _provider_errors()):
        return f"The model could not be reached or refused: {error}"
    return None


def _provider_errors() -> tuple[type[Exception], ...]:
    """What the packages of model providers raise: refused keys, unknown models, limits, no connection."""
    loaded = [(sys.modules.get(package), name) for package, name in _PROVIDER_ERRORS.items()]
    return tuple(getattr(package, name) for package, name in loaded if package is not None)
