"""Errors of model providers without secrets: a 401 may repeat the key, a URL its password."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, AnyStr, Protocol

import httpx

__all__ = ["ModelFailed", "Redact", "errors_without_secrets", "without_secrets"]


class Redact(Protocol):
    """Takes secrets out of texts, and of whatever holds texts."""

    def __call__(self, data: AnyStr) -> AnyStr:
        """`data` without secrets; the same object where there are none in it."""
        ...

    def values(self, value: Any) -> Any:
        """The same for messages and whatever else holds texts."""
        ...


class ModelFailed(RuntimeError):
    """In the place of an error that held a secret and could not be changed: its class, and what it said.

    A RuntimeError, because LangGraph's server tells clients the messages of those.
    """


@contextmanager
def errors_without_secrets(redact: Redact) -> Iterator[None]:
    """Errors from within say no secret, nor do those that they come from."""
    try:
        yield
    except Exception as error:
        shown = without_secrets(error, redact)
        if shown is error:
            raise
        raise shown from None


def without_secrets(error: Exception, redact: Redact) -> Exception:
    """`error` with the secrets taken out of it, or a `ModelFailed` where it cannot be changed."""
    chain = list(_chain(error, set()))
    if not any(_told(each, redact) for each in chain):
        return error
    for each in chain:
        _scrub(each, redact)
    if not any(_told(each, redact) for each in chain):
        return error
    return ModelFailed(f"{type(error).__name__}: {redact(str(error))}")


def _chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """An error, what it came from, and those it is made of."""
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
    """Whether anything that prints, logs or traces an error could tell a secret."""
    texts = ["".join(traceback.format_exception_only(error)), repr(error)]
    held = [error.args, {key: value for key, value in vars(error).items() if key != "response"}]
    return _changed(redact, [texts, held, _said(error)])


def _changed(redact: Redact, value: Any) -> bool:
    return redact.values(value) is not value


def _said(error: BaseException) -> list[str]:
    """What the server answered: LangChain puts it into traces."""
    response = getattr(error, "response", None)
    if response is None:
        return []
    with suppress(httpx.ResponseNotRead, AttributeError):  # one of another library has none of these
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
    """The same answer without secrets; its request, which has the key in a header, is left out."""
    if not isinstance(response, httpx.Response):
        return None
    headers = {
        name: redact(value)
        for name, value in response.headers.items()
        if name not in ("content-length", "content-encoding", "transfer-encoding")
    }
    return httpx.Response(response.status_code, headers=headers, content=redact(response.content))
