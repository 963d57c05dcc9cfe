"""Removes secrets from errors of model providers: a 401 may repeat the key, a URL its password."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from libs.redaction import Redact

__all__ = ["ModelFailed", "errors_without_secrets", "without_secrets"]


class ModelFailed(RuntimeError):
    """Replaces an error that contained a secret and could not be changed; keeps its class name and message.

    A RuntimeError, because LangGraph's server shows clients the messages of this class.
    """


@contextmanager
def errors_without_secrets(redact: Redact) -> Iterator[None]:
    """Remove secrets from errors of the block and from their causes."""
    try:
        yield
    except Exception as error:
        shown = without_secrets(error, redact)
        if shown is error:
            raise
        raise shown from None


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
