"""Serves `/page/threads/{thread_id}/turns`, `…/rewind` and `…/fork`: goes back in a thread, or copies it."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from agent.run import Point, ThreadPoints, WrongPoint
from agent.server.durable.listed_threads import listed
from agent.server.json_exchange import Refused, answer, endpoint, read_body
from agent.server.method_routes import routes
from agent.server.openapi import described
from agent.server.routes.run_service import OWNER, held_or_refused
from agent.server.routes.turn_requests import points_of, refusing, runtime_of, thread_of
from agent.threads import AT_WORK
from libs.workspace import Difference
from libs.workspace.history import Moved

__all__ = ["ROUTES"]


class _Files(BaseModel):
    created: list[str]
    changed: list[str]
    deleted: list[str]


class _TurnFiles(_Files):
    not_kept: dict[str, str] = Field(
        description="Paths of the turn that its snapshot leaves out, each with the reason."
    )


class _Turn(BaseModel):
    number: int = Field(description="0: the begin of the thread.")
    at: str = Field(description="When the turn ended, in ISO 8601.")
    words: str = Field(description="What the person asked.")
    messages: list[str] = Field(description="IDs of the messages with these words.")
    files: _TurnFiles | None = Field(description="What the turn changed; null: a snapshot is missing.")


class _Turns(BaseModel):
    turns: list[_Turn]
    undo: bool = Field(description="Whether the thread has gone back, and can return.")
    goes_back: bool = Field(description="Whether the thread can go back: false for the one-tool agent.")


class _Body(BaseModel):
    # A misspelt `dry_run` would change files.
    model_config = ConfigDict(extra="forbid", strict=True)


class _Rewind(_Body):
    to: int | None = Field(None, ge=0, description="Number of a turn; 0: before the first.")
    undo: bool = Field(False, description="Return to where the thread was, instead of `to`.")
    dry_run: bool = Field(False, description="Change nothing, and say what would change.")
    files_only: bool = Field(False, description="Leave the conversation as it is.")


class _Moved(_Files):
    kept: dict[str, str] = Field(description="Paths that stay as they are, each with the reason.")
    unlisted: list[str] = Field(
        description="Folders that cannot be read now: what would change in them is not listed."
    )
    note: str | None = Field(description="Why an earlier snapshot than the one asked for is used.")


class _Fork(_Body):
    at: int | None = Field(None, ge=0, description="Number of a turn; null: as the thread is now.")


class _Forked(BaseModel):
    thread_id: str
    note: str | None = Field(
        description="Which files the copy lacks, and why an earlier snapshot than the one asked for is used."
    )


_forking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
"""Thread -> held while the thread is copied."""


_REFUSALS = {
    400: "There is no such turn, nothing to undo, or no snapshots are kept; or `files_only` was asked while "
    "a call that has run waits for a decision.",
    404: "There is no such thread, or it belongs to another owner.",
    409: AT_WORK,
    410: "The files of this turn are not kept any more. Nothing was changed.",
    500: "The request failed.",
    503: "The server is ending or restarting.",
}


@endpoint
@described(
    "List the turns of a thread",
    path=("thread_id",),
    answers={200: ("The turns on the way to the latest message, the first first.", _Turns)},
    refusals={key: text for key, text in _REFUSALS.items() if key in (404, 500, 503)},
)
async def _turns(request: Request) -> Response:
    async with refusing():
        try:
            points = await points_of(request, thread_of(request))
        except WrongPoint:  # no run has begun in this thread
            return answer(_Turns(turns=[], undo=False, goes_back=False).model_dump())
        found = [_turn(point) for point in await points.points()]
        turns = _Turns(turns=found, undo=await points.can_undo(), goes_back=points.has_files)
        return answer(turns.model_dump())


@endpoint
@described(
    "Go back in a thread, conversation and files together",
    path=("thread_id",),
    body=_Rewind,
    answers={200: ("What was changed, or would be.", _Moved)},
    refusals=_REFUSALS,
)
async def _rewind(request: Request) -> Response:
    asked = await read_body(request, _Rewind)
    if asked.undo == (asked.to is not None):
        raise Refused(400, "Give either `to`, the number of a turn, or `undo`.")
    if asked.undo and asked.files_only:
        raise Refused(400, "`undo` takes the thread back to where it was: leave `files_only` away.")
    thread = thread_of(request)
    async with refusing(), held_or_refused(thread):
        points = await points_of(request, thread)
        if asked.to is None:
            work = points.undo(dry_run=asked.dry_run)
        else:
            work = points.go_to(asked.to, dry_run=asked.dry_run, files_only=asked.files_only)
        async with listed(points.graph, thread, _metadata(points, request)):
            # What is refused has changed nothing, so the thread is not listed as failed.
            [moved] = await asyncio.gather(work, return_exceptions=True)
        if isinstance(moved, BaseException):
            raise moved
    return answer(_moved(moved).model_dump())


@endpoint
@described(
    "Copy a thread with its files",
    path=("thread_id",),
    body=_Fork,
    answers={200: ("The copy.", _Forked)},
    refusals=_REFUSALS,
)
async def _fork(request: Request) -> Response:
    asked = await read_body(request, _Fork)
    thread = thread_of(request)
    copy = str(uuid4())
    # One after the other, so that a fork is not refused because of another fork.
    async with refusing(), _forking.setdefault(thread, asyncio.Lock()), held_or_refused(thread):
        await points_of(request, thread)  # `fork` would name the database's file on this machine
        moved = await runtime_of(request).fork(thread, asked.at, copy=copy)
        points = await points_of(request, copy)
        async with listed(points.graph, copy, _metadata(points, request)):
            pass
    return answer(_Forked(thread_id=copy, note=moved.copy_note).model_dump())


def _metadata(points: ThreadPoints, request: Request) -> dict[str, Any]:
    owner = request.scope.get("owner")
    return points.metadata | ({OWNER: owner} if owner else {})


def _turn(point: Point) -> _Turn:
    files = None
    if changed := point.changed:
        files = _TurnFiles(**_files(changed.difference), not_kept=dict(changed.not_kept))
    return _Turn(
        number=point.number, at=point.at, words=point.words, messages=list(point.messages), files=files
    )


def _moved(moved: Moved) -> _Moved:
    return _Moved(
        **_files(moved.restored.difference),
        kept=dict(moved.restored.kept),
        unlisted=list(moved.restored.unlisted),
        note=moved.instead,
    )


def _files(difference: Difference) -> dict[str, Any]:
    return {
        "created": list(difference.created),
        "changed": list(difference.changed),
        "deleted": list(difference.deleted),
    }


_PATH = "/page/threads/{thread_id}"
ROUTES = [
    *routes(f"{_PATH}/turns", GET=_turns),
    *routes(f"{_PATH}/rewind", POST=_rewind),
    *routes(f"{_PATH}/fork", POST=_fork),
]
