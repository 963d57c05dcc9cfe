"""Turns errors into errors of the protocol, without secrets; those of expected errors say what to do."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from acp.exceptions import RequestError

from agent.run import complaint
from agent.secrets import KNOWN

__all__ = ["INTERNAL_ERROR", "INVALID_PARAMS", "INVALID_REQUEST", "as_request_errors"]

INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32600, -32602, -32603


@contextmanager
def as_request_errors() -> Iterator[None]:
    """Return a context that raises every error as `RequestError`."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:
        if (told := complaint(error)) is None:
            logging.getLogger(__name__).exception("unexpected error")
        text = told[0] if told else f"{type(error).__name__}: {error}"
        raise RequestError(INTERNAL_ERROR, KNOWN(text)) from error
