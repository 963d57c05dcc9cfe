"""`/page/threads/{thread_id}/grants`: what is approved for the rest of a thread, shown and taken back."""

from __future__ import annotations

import hashlib
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from starlette.requests import Request
from starlette.responses import Response

from agent.server.exchange import Refused, answer, endpoint
from agent.server.file_routes import thread_of
from agent.server.methods import nothing_below, only
from agent.server.openapi import Schema, described, object_of
from agent.server.saver import open_saver
from agent.turns import held
from libs.middleware.grants import Grant, revoke, standing_in
from libs.persistence.thread_lock import ThreadInUse

__all__ = ["ROUTES"]

_STRING: Schema = {"type": "string"}
_GRANT = object_of(
    {
        "id": _STRING,
        "tool": {"type": "string", "description": "The name of the calls that are not asked about."},
        "digest": {
            "type": ["string", "null"],
            "description": "Of the only call that is covered; null: every call of the tool.",
        },
        "shown": {"type": "string", "description": "The call that the person saw, whole."},
    }
)
_GRANTS = object_of({"grants": {"type": "array", "items": _GRANT}})
_NO_THREAD = "There is no such thread, it is another owner's, or there is no such approval in it."


@endpoint
@described(
    "What is approved for the rest of a thread",
    path=("thread_id",),
    answers={200: ("The approvals that hold, in the order in which they were given.", _GRANTS)},
    refusals={404: _NO_THREAD, 500: "It failed."},
)
async def _list(request: Request) -> Response:
    async with open_saver() as saver:
        return _told(await _standing(saver, thread_of(request)))


@endpoint
@described(
    "Take an approval back: such calls are asked about again",
    path=("thread_id", "grant_id"),
    answers={200: ("The approvals that still hold.", _GRANTS)},
    refusals={
        404: _NO_THREAD,
        409: "The thread is at work: wait until its run has ended.",
        500: "It failed.",
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
            return _told({key: grant for key, grant in grants.items() if key not in keys})
    except ThreadInUse:
        raise Refused(409, "The thread is at work: wait until its run has ended.") from None


async def _standing(saver: BaseCheckpointSaver[Any], thread: str) -> dict[str, Grant]:
    saved = await saver.aget_tuple({"configurable": {"thread_id": thread}})
    return standing_in(saved) if saved else {}


def _told(grants: dict[str, Grant]) -> Response:
    return answer(
        {
            "grants": [
                {"id": _id(key), "tool": grant["tool"], "digest": grant["digest"], "shown": grant["shown"]}
                for key, grant in grants.items()
            ]
        }
    )


def _id(key: str) -> str:
    """The key of a grant, as a path may have it."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


_GRANTS_PATH = "/page/threads/{thread_id}/grants"
ROUTES = [
    *only("GET", _GRANTS_PATH, _list),
    *only("DELETE", f"{_GRANTS_PATH}/{{grant_id}}", _revoke),
    *nothing_below("/page", "GET /page/config, GET and DELETE /page/threads/{thread_id}/grants"),
]
