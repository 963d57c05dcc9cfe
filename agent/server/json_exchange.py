"""Reads JSON requests, writes JSON answers and errors, and cancels the work when the client disconnects."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agent.secrets import KNOWN

__all__ = [
    "INTERNAL",
    "JSON_TYPE",
    "MAX_BODY",
    "Refused",
    "answer",
    "endpoint",
    "problem",
    "read_body",
    "read_query",
    "until_left",
]

logger = logging.getLogger(__name__)

INTERNAL = "Internal error: the server's log says more."
MAX_BODY = 1 << 20
"""Largest body, in bytes."""
JSON_TYPE = re.compile(r"application/(?:[\w.-]+\+)?json", re.IGNORECASE)
"""Media types of JSON, without their parameters."""

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Handler = Callable[[Request], Awaitable[Response]]


class Refused(Exception):
    """The request is refused: the answer has this status, `{"error": message}` and the fields of `more`."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


def answer(content: Any, status: int = 200) -> Response:
    """Return a JSON response. Text is escaped to ASCII, so every string can be sent. NaN becomes a string."""
    try:
        text = json.dumps(content, allow_nan=False)
    except ValueError:
        text = json.dumps(json.loads(json.dumps(content), parse_constant=str))
    return Response(text, status, media_type="application/json")


def endpoint(handler: Handler) -> Handler:
    """Wrap a handler so that every failure is answered with `{"error": …}`, never with a stack trace."""

    @functools.wraps(handler)
    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            return answer({"error": KNOWN(str(refused)), **refused.more}, refused.status)
        except ClientDisconnect:
            return Response(status_code=499)  # for the access log: the client has gone
        except Exception:
            logger.exception("a request failed")
            return answer({"error": INTERNAL}, 500)

    return answered


async def read_body(request: Request, kind: type[M]) -> M:
    """Read the body, which must be one JSON object.

    Raises:
        Refused: 415 if the Content-Type is not JSON (a foreign page can send a form or plain text without a
            preflight request, but not JSON); 413 if the body is over `MAX_BODY`; 400 if it does not fit.
        ClientDisconnect: the client left before the body was complete.
    """
    body = await _read(request)
    media = request.headers.get("content-type", "").partition(";")[0].strip()
    if body and not JSON_TYPE.fullmatch(media):
        raise Refused(415, "The body must be JSON: send Content-Type: application/json.")
    try:
        value = json.loads(body.decode("utf-8"))
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        surrogate = isinstance(error, UnicodeEncodeError)
        what = "holds half of a surrogate pair, which is not text" if surrogate else "is not JSON in UTF-8"
        raise Refused(400, f"The body {what}.") from None
    if not isinstance(value, dict):
        raise Refused(400, "The body must be a JSON object.")
    return _checked(kind, value)


def read_query(request: Request, kind: type[M]) -> M:
    """Return the query parameters.

    Raises:
        Refused: 400 if they are not of the kind.
    """
    return _checked(kind, dict(request.query_params))


def _checked(kind: type[M], value: Any) -> M:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise Refused(400, problem(error)) from None


def problem(error: ValidationError) -> str:
    """Return the name of each wrong field with its first problem."""
    messages: dict[str, str] = {}
    for each in error.errors(include_url=False):
        field = f"{str(each['loc'][0])[:100]}: " if each["loc"] else ""
        messages.setdefault(field, each["msg"].removeprefix("Value error, "))
    return "; ".join(f"{field}{message}" for field, message in messages.items())


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise Refused(413, f"The body is too large: at most {MAX_BODY:,} bytes are taken.")
    return bytes(body)


async def until_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` and return its result. If the client disconnects, cancel `work` and wait for its end.

    Raises:
        ClientDisconnect: the client has left.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
