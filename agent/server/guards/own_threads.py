"""Answers 404 on every path that names another owner's thread, before the request reaches LangGraph's server.

The server filters by owner in each operation. But its streams answer 200 before they check, and a route of a
later version may forget to check. So this guard looks up the owner of the thread in the path first.
"""

from __future__ import annotations

import re
from uuid import UUID

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.server.durable.saver import running
from agent.server.langgraph_server import lists
from agent.server.refusals import comes_from_within, refuse

__all__ = ["OwnThreads", "is_listed", "kept_for"]

_THREAD = re.compile(r"/threads/([^/]+)(/.*)?", re.DOTALL)
_OURS = re.compile(r"/(?:files|page/threads)/([^/]+)/.*", re.DOTALL)
"""Our routes about threads. The thread must exist: no sandbox is created for an unknown name."""
_RUN = re.compile(r"/threads/[^/]+/runs/([^/]+)/?", re.DOTALL)
_MAKES_IT = {"/runs", "/runs/stream", "/runs/wait", "/stream/events", "/commands"}
"""Routes below a thread that create the thread, or wait for it, if it does not exist."""


class OwnThreads:
    """Answers 404 for threads of others, as for missing threads; ASGI middleware.

    Stands inside `TokensNeeded`, which sets the owner. Costs one search for the thread. Our own routes need
    an existing thread even if AUTH_TOKENS is unset.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        transport = httpx.ASGITransport(app, root_path="/noauth")
        self._inner = httpx.AsyncClient(transport=transport, base_url="http://server", trust_env=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        owner = scope.get("owner")
        if (ours := _OURS.fullmatch(scope["path"])) and not comes_from_within(scope):
            if not await self._may_see(ours[1], owner):
                await refuse(scope, receive, send, 404, "There is no such thread.")
                return
            await self._app(scope, receive, send)
            return
        named = _THREAD.fullmatch(scope["path"]) if owner and not comes_from_within(scope) else None
        if named and (thread := _uuid(named[1])):
            owners = await self._owners(thread) or await kept_for(thread)
            if owners != [owner] and (owners or named[2] not in _MAKES_IT):
                await refuse(scope, receive, send, 404, "There is no such thread.")
                return
            if (run := _run_to_delete(scope)) and not await self._has(thread, run):
                # The server deletes the run's checkpoints in any thread, then checks (langgraph-api 0.16).
                await refuse(scope, receive, send, 404, "There is no such run in this thread.")
                return
        await self._app(scope, receive, send)

    async def _may_see(self, name: str, owner: str | None) -> bool:
        thread = _uuid(name)
        owners = (await self._owners(thread) if thread else None) or await kept_for(thread or name)
        return bool(owners) and owner in (None, *owners)

    async def _has(self, thread: UUID, run: UUID) -> bool:
        return (await self._inner.get(f"/threads/{thread}/runs/{run}")).is_success

    async def _owners(self, thread: UUID) -> list[object]:
        """Return a list with the thread's owner (None if it has none); empty if there is no thread."""
        asked = {"ids": [str(thread)], "select": ["metadata"], "limit": 1}
        found = await self._inner.post("/threads/search", json=asked)
        return [(each["metadata"] or {}).get("owner") for each in found.raise_for_status().json()]


async def kept_for(thread: UUID | str) -> list[object]:
    """Return a list with the owner in the thread's checkpoints (None if they name none); empty without any.

    Threads of /run may exist only in the database. A thread of the same id, created through LangGraph's
    routes, would show their content.
    """
    if (at_work := running()) is None:
        return []
    latest = await at_work.saver.aget_tuple({"configurable": {"thread_id": str(thread)}})
    return [latest.metadata.get("owner")] if latest else []


def is_listed(thread: UUID) -> bool:
    """Return whether LangGraph's server lists this thread; its own filters check the owner."""
    return any(str(each["thread_id"]) == str(thread) for each in (lists() or {}).get("threads", ()))


def _run_to_delete(scope: Scope) -> UUID | None:
    named = _RUN.fullmatch(scope["path"]) if scope.get("method") == "DELETE" else None
    return _uuid(named[1]) if named else None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
