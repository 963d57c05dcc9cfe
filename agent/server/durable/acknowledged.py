"""Holds back each answer until the change that it acknowledges is on the disk."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.server.durable.saver import Running, running
from agent.server.refusals import refuse
from libs.persistence import database_errors

__all__ = ["WrittenFirst", "keep_writing"]

logger = logging.getLogger(__name__)

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOKING_UP = ("/search", "/count", "/history")
"""Ends of the paths of POST requests that only read."""
_OURS = re.compile(r"/run(?:-lite|/.*)?", re.DOTALL)
"""Paths whose threads need no journal: their checkpoints, written at every step, hold everything."""
_UNWRITTEN = "The change could not be saved and may be lost: try again later."


class WrittenFirst:
    """Writes the journal before each answer begins; ASGI middleware.

    If the journal cannot be written, the answer is 503; the requested change may happen all the same.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        at_work = running()
        if scope["type"] != "http" or _reads(scope) or at_work is None:
            await self._app(scope, receive, send)
            return
        refused = False

        async def send_it(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and not await _written(at_work):
                refused = True
                await refuse(scope, receive, send, 503, _UNWRITTEN, headers={"Retry-After": "1"})
            elif not refused:
                await send(message)

        await self._app(scope, receive, send_it)


def _reads(scope: Scope) -> bool:
    path = scope["path"]
    return scope["method"] in _READING or path.endswith(_LOOKING_UP) or _OURS.fullmatch(path) is not None


@asynccontextmanager
async def keep_writing(seconds: float = 1) -> AsyncIterator[None]:
    """Write the journal every `seconds`, so that the end of a run is saved even if no client waits for it."""

    async def write() -> None:
        while True:
            await asyncio.sleep(seconds)
            if at_work := running():
                await _written(at_work)

    writing = asyncio.create_task(write(), name="journal")
    try:
        yield
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


async def _written(at_work: Running) -> bool:
    try:
        await at_work.journal.write()
    except database_errors() as error:
        logger.warning("threads and runs cannot be written down: %s", error)
        return False
    return True
