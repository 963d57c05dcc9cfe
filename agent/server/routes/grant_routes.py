"""Serves `/page/threads/{thread_id}/grants`: lists and revokes approvals for the rest of a thread."""

from __future__ import annotations

import hashlib
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from agent.server.durable.saver import open_saver
from agent.server.json_exchange import Refused, answer, endpoint
from agent.server.method_routes import nothing_below, routes
from agent.server.openapi import described
from agent.server.routes.turn_requests import thread_of
from agent.threads import AT_WORK, held
from libs.middleware.approvals import Grant, revoke, standing_in
from libs.persistence import ThreadInUse

__all__ = ["ROUTES"]


class _Grant(BaseModel):
    id: str
    tool: str = Field(description="Name of the tool.")
    digest: str | None = Field(
        description="Digest of the approved call; null: the approval covers every call of the tool."
    )
    shown: str = Field(description="The whole call, as shown to the person.")


class _Grants(BaseModel):
    grants: list[_Grant]


_NO_THREAD = "There is no such thread, it belongs to another owner, or it has no such approval."


@endpoint
@described(
    "List approvals for the rest of a thread",
    path=("thread_id",),
    answers={200: ("The approvals that hold, in the order in which they were given.", _Grants)},
    refusals={404: _NO_THREAD, 500: "The request failed."},
)
async def _list(request: Request) -> Response:
    async with open_saver() as saver:
        return _response(await _standing(saver, thread_of(request)))


@endpoint
@described(
    "Revoke an approval",
    path=("thread_id", "grant_id"),
    answers={200: ("The approvals that still hold.", _Grants)},
    refusals={
        404: _NO_THREAD,
        409: AT_WORK,
        500: "The request failed.",
    },
)
async def _revoke(request: Request) -> Response:
    thread = thread_of(request)
    try:
        async with held(thread), open_saver() as saver:
            grants = await _standing(saver, thread)
            saved = await saver.aget_tuple({"configurable": {"thread_id": thread}})
            keys = [key for key in grants if _id(key) == request.path_params["grant_id"]]
            if not keys or saved is None:
                raise Refused(404, "This approval does not hold in this thread, or not any more.")
            await revoke(saver, saved, keys)
            return _response({key: grant for key, grant in grants.items() if key not in keys})
    except ThreadInUse:
        raise Refused(409, AT_WORK) from None


async def _standing(saver: BaseCheckpointSaver[Any], thread: str) -> dict[str, Grant]:
    saved = await saver.aget_tuple({"configurable": {"thread_id": thread}})
    return standing_in(saved) if saved else {}


def _response(grants: dict[str, Grant]) -> Response:
    shown = [
        _Grant(id=_id(key), tool=grant["tool"], digest=grant["digest"], shown=grant["shown"])
        for key, grant in grants.items()
    ]
    return answer(_Grants(grants=shown).model_dump())


def _id(key: str) -> str:
    """Return a grant's key in a form that fits into a path."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


_GRANTS_PATH = "/page/threads/{thread_id}/grants"
ROUTES = [
    *routes(_GRANTS_PATH, GET=_list),
    *routes(f"{_GRANTS_PATH}/{{grant_id}}", DELETE=_revoke),
    *nothing_below(
        "/page",
        "GET /page/config; below /page/threads/{thread_id}: GET turns, POST rewind, POST fork, "
        "GET and DELETE grants, GET and POST rules",
    ),
]
