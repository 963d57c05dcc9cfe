"""One exchange with a program: JSON comes in, JSON goes out, and the work ends when the client leaves."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agent.sinks import KNOWN

__all__ = ["MAX_BODY", "Refused", "answer", "endpoint", "read_object", "until_left"]

logger = logging.getLogger(__name__)

MAX_BODY = 1 << 20
"""Bytes that a body may have."""

_JSON = re.compile(r"application/(?:[\w.-]+\+)?json", re.IGNORECASE)

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


class Refused(Exception):
    """The request is answered with this status, `{"error": …}`, and what else `more` holds."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


def answer(content: Any, status: int = 200) -> Response:
    """An answer in JSON, all of it ASCII, so that no text there is breaks it. NaN becomes a string."""
    try:
        text = json.dumps(content, allow_nan=False)
    except ValueError:
        text = json.dumps(json.loads(json.dumps(content), parse_constant=str))
    return Response(text, status, media_type="application/json")


def endpoint(handler: Handler) -> Handler:
    """Make a handler that always answers: whatever goes wrong is `{"error": …}` without a stack trace."""

    @functools.wraps(handler)
    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as refused:
            return answer({"error": KNOWN(str(refused)), **refused.more}, refused.status)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it; the log has it, as other servers' logs do
        except Exception:
            logger.exception("a request failed")
            return answer({"error": "Internal error: the server's log says more."}, 500)

    return answered


async def read_object(request: Request) -> dict[str, Any]:
    """The body, which must be one JSON object.

    Raises:
        Refused: 415 where it is not said to be JSON (a page from elsewhere can send a form or plain text
            without asking, but not that), 413 over `MAX_BODY` bytes, 400 for what is no object.
        ClientDisconnect: the client has left before all of it had come.
    """
    body = await _read(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if body and not _JSON.fullmatch(kind):
        raise Refused(415, "The body must be JSON: send Content-Type: application/json.")
    try:
        value = json.loads(body.decode("utf-8"))
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        surrogate = isinstance(error, UnicodeEncodeError)
        what = "holds half of a surrogate pair, which is no text" if surrogate else "is not JSON in UTF-8"
        raise Refused(400, f"The body {what}.") from None
    if not isinstance(value, dict):
        raise Refused(400, "The body must be a JSON object.")
    return value


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise Refused(413, f"The body is too large: at most {MAX_BODY:,} bytes are taken.")
    return bytes(body)


async def until_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Carry out `work`; the client's leaving cancels it, and is waited for no longer than it takes to end.

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
