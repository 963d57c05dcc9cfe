"""Explains errors of model providers and removes secrets: a 401 may repeat the key, a URL its password."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
from langchain_core.exceptions import ContextOverflowError, ModelError

from libs.redaction import Redact

__all__ = [
    "ConversationTooLong",
    "ModelFailed",
    "explained_errors",
    "provider_failure",
    "with_address",
    "without_secrets",
]

_ADDRESSES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
"""Package of a provider -> the variable of another address."""
_PROVIDER_ERRORS = {
    "openai": "OpenAIError",
    "anthropic": "AnthropicError",
    "groq": "GroqError",
    "ollama": "ResponseError",
    "openrouter.errors": "OpenRouterError",
}
"""Module of a provider -> base class of its errors. Looked up only in loaded modules."""


class ModelFailed(RuntimeError):
    """Replaces an error of a provider, or an error that contained a secret and could not be changed.

    A RuntimeError, because LangGraph's server shows clients the messages of this class, and hides the
    messages of the classes of providers.

    Args:
        status_code: HTTP status of the answer. From it and the text, deepagents tells that a context is too
            long, and summarizes the conversation.
    """

    def __init__(self, text: str, status_code: int | None = None) -> None:
        super().__init__(text)
        self.status_code = status_code


class ConversationTooLong(ModelFailed, ContextOverflowError):
    """Replaces the error of a provider about a request that does not fit the model's context."""


@contextmanager
def explained_errors(redact: Redact | None) -> Iterator[None]:
    """Explain the errors of providers in the block, and remove secrets from all errors and their causes.

    The error of a provider is the cause of its `ModelFailed`. For a context that is too long, this is a
    `ConversationTooLong`: the agent then summarizes the conversation.
    """
    try:
        yield
    except Exception as error:
        shown = error if redact is None else without_secrets(error, redact)
        text = provider_failure(shown)
        if text is not None and not isinstance(shown, ModelFailed):
            failed = ConversationTooLong if isinstance(shown, ContextOverflowError) else ModelFailed
            raise failed(text, getattr(shown, "status_code", None)) from shown
        if shown is error:
            raise
        raise shown from None


def provider_failure(error: BaseException) -> str | None:
    """Return the explanation of an error of a provider or of its connection; None for any other error."""
    loaded = [getattr(sys.modules.get(module), name, None) for module, name in _PROVIDER_ERRORS.items()]
    if not isinstance(error, (ModelError, httpx.HTTPError, *filter(None, loaded))):
        return None
    return f"The model could not be reached or refused: {with_address(error)}"


def with_address(error: BaseException) -> str:
    """Return the message; if no answer came, with the address (no password, no query) and its variable."""
    try:
        url = None if hasattr(error, "response") else error.request.url  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # an error of another kind, or without a request
        url = None
    if url is None:
        return str(error)
    port = f":{url.port}" if url.port else ""
    # LangChain's packages have subclasses of the providers' errors.
    packages = [base.__module__.partition(".")[0] for base in type(error).__mro__]
    variable = next((_ADDRESSES[name] for name in packages if name in _ADDRESSES), None)
    hint = f" Check the address ({variable}) and that its server runs." if variable else ""
    return f"{str(error).rstrip('.')}. No answer from {url.scheme}://{url.host}{port}{url.path}.{hint}"


def without_secrets(error: Exception, redact: Redact) -> Exception:
    """Return the error without secrets, or a `ModelFailed` if the error cannot be changed."""
    chain = list(_chain(error, set()))
    if not any(_told(each, redact) for each in chain):
        return error
    for each in chain:
        _scrub(each, redact)
    if not any(_told(each, redact) for each in chain):
        return error
    return ModelFailed(f"{type(error).__name__}: {redact(str(error))}")


def _chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """Yield an error, its causes, and the errors of a group."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    yield from _chain(error.__cause__, seen)
    yield from _chain(error.__context__, seen)
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _chain(each, seen)


def _told(error: BaseException, redact: Redact) -> bool:
    """Return whether a print, log or trace of the error could show a secret."""
    texts = ["".join(traceback.format_exception_only(error)), repr(error)]
    held = [error.args, {key: value for key, value in vars(error).items() if key != "response"}]
    return _changed(redact, [texts, held, _said(error)])


def _changed(redact: Redact, value: Any) -> bool:
    return redact.values(value) is not value


def _said(error: BaseException) -> list[str]:
    """Return the answer of the server, which LangChain puts into traces."""
    response = getattr(error, "response", None)
    if response is None:
        return []
    with suppress(httpx.ResponseNotRead, AttributeError):  # a response of another library lacks these
        return [str(response.text), str(response.headers)]
    return []


def _scrub(error: BaseException, redact: Redact) -> None:
    error.args = redact.values(error.args)
    for name, value in list(vars(error).items()):
        if name == "response" and _changed(redact, _said(error)):
            error.__dict__[name] = _answered(value, redact)
        elif name != "response":
            error.__dict__[name] = redact.values(value)


def _answered(response: Any, redact: Redact) -> httpx.Response | None:
    """Return the response without secrets and without its request, whose header has the key."""
    if not isinstance(response, httpx.Response):
        return None
    headers = {
        name: redact(value)
        for name, value in response.headers.items()
        if name not in ("content-length", "content-encoding", "transfer-encoding")
    }
    return httpx.Response(response.status_code, headers=headers, content=redact(response.content))
