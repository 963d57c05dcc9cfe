"""Another owner's thread is not there, whatever the route: one rule before all those of LangGraph's server.

The server filters by owner in each operation. Its streams find out only after they have answered 200, and a
route of a later version may forget. So whose thread a path names is looked up first.
"""

from __future__ import annotations

import re
from uuid import UUID

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.server.refusals import comes_from_within, refuse
from agent.server.saver import running

__all__ = ["OwnThreads", "is_listed", "kept_for"]

_THREAD = re.compile(r"/threads/([^/]+)(/.*)?", re.DOTALL)
_OURS = re.compile(r"/(?:files|page/threads)/([^/]+)/.*", re.DOTALL)
"""Routes of this application about threads, which must be there: a sandbox is not made for any name."""
_RUN = re.compile(r"/threads/[^/]+/runs/([^/]+)/?", re.DOTALL)
_MAKES_IT = {"/runs", "/runs/stream", "/runs/wait", "/stream/events", "/commands"}
"""Routes below a thread that make it, or wait for it, where there is none of this id."""


class OwnThreads:
    """Answers 404 for threads of others, as for those that are not there; ASGI middleware.

    Below `TokensNeeded`, which says whose the request is. Costs one look-up among the threads. Routes
    of this application about a thread need one that is there, where nobody has a token, too.
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
                # The server deletes its checkpoints, in whichever thread, then looks (langgraph-api 0.16).
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
        """The owner of the thread, None if it has none; nothing where there is no thread."""
        asked = {"ids": [str(thread)], "select": ["metadata"], "limit": 1}
        found = await self._inner.post("/threads/search", json=asked)
        return [(each["metadata"] or {}).get("owner") for each in found.raise_for_status().json()]


async def kept_for(thread: UUID | str) -> list[object]:
    """Whose checkpoints of this thread the database has, None for nobody's; nothing where it has none.

    Threads of /run are there alone. Whoever made one of the same id in the server would find what it holds.
    """
    if (at_work := running()) is None:
        return []
    latest = await at_work.saver.aget_tuple({"configurable": {"thread_id": str(thread)}})
    return [latest.metadata.get("owner")] if latest else []


async def is_listed(thread: UUID) -> bool:
    """Whether LangGraph's server has a thread of this id; whose it is, its own filters look at."""
    from langgraph_runtime.database import connect

    async with connect() as connection:
        return any(str(each["thread_id"]) == str(thread) for each in connection.store["threads"])


def _run_to_delete(scope: Scope) -> UUID | None:
    named = _RUN.fullmatch(scope["path"]) if scope.get("method") == "DELETE" else None
    return _uuid(named[1]) if named else None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
