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

_ADDRESS_SETTINGS = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
"""Package of a provider -> the setting of another address."""


def explained(error: BaseException) -> str | None:
    """Return the explanation of an expected error; None for any other error."""
    if isinstance(error, (*_EXPLAINED, *database_errors())):
        return _with_address(error)
    if isinstance(error, _provider_errors()):
        return f"The model could not be reached or refused: {_with_address(error)}"
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


def _with_address(error: BaseException) -> str:
    """Return the message; if no answer came, with the address (no password, no query) and its setting."""
    try:
        url = None if hasattr(error, "response") else error.request.url  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # an error of another kind, or without a request
        url = None
    if url is None:
        return str(error)
    port = f":{url.port}" if url.port else ""
    # LangChain's packages have subclasses of the providers' errors.
    packages = [base.__module__.partition(".")[0] for base in type(error).__mro__]
    setting = next((_ADDRESS_SETTINGS[name] for name in packages if name in _ADDRESS_SETTINGS), None)
    hint = f" Check the address ({setting}) and that its server runs." if setting else ""
    return f"{str(error).rstrip('.')}. No answer from {url.scheme}://{url.host}{port}{url.path}.{hint}"
