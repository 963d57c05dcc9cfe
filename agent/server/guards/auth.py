"""Checks tokens, and keeps the threads of each owner from all others.

langgraph.json names `auth`. The server calls its handlers before each operation. A handler writes the owner
into new objects and returns a filter for reading; an object that does not match is treated as missing.
Approvals, runs, streams and states belong to threads. If AUTH_TOKENS is unset, nothing has an owner and
everybody may read everything.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from langgraph_sdk import Auth
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.server.durable.listed_threads import is_at_work
from agent.server.durable.saver import running
from agent.server.guards.own_threads import is_listed, kept_for
from agent.server.refusals import comes_from_within, refuse
from agent.settings import Token, TokenRefused, load_settings, owner_by_token

__all__ = ["OPEN", "TokensNeeded", "auth", "owner_of"]

OPEN = frozenset({"/ok", "/health"})
"""Paths that need no token: they only say that the server is up. `langgraph dev` itself polls /ok."""

_PAGE = re.compile(r"/app(?:/.*)?|/files/.*", re.DOTALL)
"""Paths that a person opens in a browser. `/app` has no slash at its end, so a password that the browser asks
for there is sent to all routes (RFC 7617, 2.2)."""

_SETTINGS = load_settings()
_TOKENS = _SETTINGS.auth_tokens

auth = Auth()

Filter = dict[str, Any]

_CHANGES = {"create", "create_run", "update"}


def owner_of(headers: Mapping[str, str], tokens: tuple[Token, ...] = _TOKENS) -> str | None:
    """Return the owner of the request's token; None if AUTH_TOKENS is unset.

    Args:
        headers: the request's headers, names in lower case.
        tokens: the valid tokens.

    Raises:
        TokenRefused: the request has no valid token.
    """
    if not tokens:
        return None
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        token = headers.get("x-api-key") or (_password(headers, token) if scheme.lower() == "basic" else "")
    return owner_by_token(tokens, token.strip())


def _password(headers: Mapping[str, str], given: str) -> str:
    """Return the password of a Basic header: the token that a person typed into the browser's dialog.

    The browser adds it to requests of every page, so it does not show that a page of another origin may act
    for this person. Such a page must send a token itself.
    """
    if (origin := headers.get("origin")) and urlsplit(origin).netloc != headers.get("host"):
        return ""
    try:
        return base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
    except ValueError:  # no base64, or no UTF-8
        return ""


class TokensNeeded:
    """Requires a token on every route; ASGI middleware. Writes `owner` into the scope.

    LangGraph's own check skips this application's routes, /docs, /openapi.json, /metrics, /ui and more.
    """

    def __init__(self, app: ASGIApp, tokens: tuple[Token, ...]) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] in {"http", "websocket"}
            and not comes_from_within(scope)
            and scope["path"] not in OPEN
        ):
            try:
                scope["owner"] = owner_of(Headers(scope=scope), self._tokens)
            except TokenRefused as error:
                await refuse(
                    scope, receive, send, 401, str(error), headers={"WWW-Authenticate": _challenge(scope)}
                )
                return
        await self._app(scope, receive, send)


def _challenge(scope: Scope) -> str:
    """Return the WWW-Authenticate header: Basic where a person opens the page, so that the browser asks them.

    Requests that the page's script makes get Bearer: the page shows the error itself.
    """
    headers = Headers(scope=scope)
    # Over plain http under another name than localhost, browsers send no Sec-Fetch headers.
    shown = headers.get("sec-fetch-mode") or ("navigate" if "text/html" in headers.get("accept", "") else "")
    if shown == "navigate" and _PAGE.fullmatch(scope["path"]):
        return 'Basic realm="code-agent", charset="UTF-8"'
    return "Bearer"


@auth.authenticate
async def authenticate(headers: dict[bytes, bytes]) -> Auth.types.MinimalUserDict:
    """Tell LangGraph's server who sent the request; "" if AUTH_TOKENS is unset."""
    try:
        owner = owner_of({name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()})
    except TokenRefused as error:
        raise Auth.exceptions.HTTPException(401, str(error)) from None
    return {"identity": owner or "", "display_name": owner or "", "is_authenticated": owner is not None}


@auth.on
async def nothing_else(ctx: Auth.types.AuthContext, value: object) -> bool:  # noqa: ARG001 - called by name
    """Refuse owners the resources without a handler below: a later version of the server may add some."""
    return not ctx.user.identity


@auth.on(resources=["threads", "crons"])
async def of_the_owner(ctx: Auth.types.AuthContext, value: Any) -> Filter | None:
    """Filter threads, with their runs, streams and states, and crons by owner."""
    owner = ctx.user.identity
    if ctx.resource == "threads":
        _keep_apart(ctx.action, value, owner)
        if ctx.action == "create_run":
            await _keep_to_graph(value, owner)
    elif ctx.action == "create":
        _require_thread(value)
    if not owner:
        return None
    if ctx.resource == "crons" and ctx.action == "search":
        if value.get("limit") == 0 and not value.get("metadata"):
            # Without metadata, the server counts crons without a thread of all owners (langgraph-api 0.16).
            raise Auth.exceptions.HTTPException(422, f'Give metadata to count by: {{"owner": "{owner}"}}.')
        value["metadata"]["owner"] = owner
    elif ctx.action in _CHANGES:
        _mark(value, owner)
    made = value.get("thread_id") if ctx.resource == "threads" else None
    if made and ctx.action == "create" and await _is_anothers(made, owner):
        raise Auth.exceptions.HTTPException(409, f"Thread with ID {made} already exists")
    # A run may create its thread. Routes that name the thread only in the body (/a2a) could enter another's.
    makes_it = ctx.action == "create_run" and value.get("if_not_exists") == "create"
    if made and makes_it and not is_listed(made) and await _is_anothers(made, owner):
        raise Auth.exceptions.HTTPException(404, "There is no such thread.")
    return {"owner": owner}


@auth.on(resources="assistants")
async def assistants(ctx: Auth.types.AuthContext, value: Any) -> Filter | None:
    """Let everybody read, and nobody change, the assistants of the graphs; others belong to their owner."""
    owner = ctx.user.identity
    if not owner:
        return None
    if ctx.action in _CHANGES:
        _mark(value, owner)
    if ctx.action in {"read", "search"}:
        return {"$or": [{"owner": owner}, {"created_by": "system"}]}
    return {"owner": owner}


@auth.on.store
async def store(ctx: Auth.types.AuthContext, value: Any) -> None:
    """Put each owner's name in front of every namespace, so that owners have separate parts of the store."""
    owner = ctx.user.identity
    if owner:
        given = tuple(value.get("namespace") or ())
        value["namespace"] = given if given[:1] == (owner,) else (owner, *given)


async def _is_anothers(thread: UUID, owner: str) -> bool:
    return await kept_for(thread) not in ([], [owner])


def _keep_apart(action: str, value: Any, owner: str) -> None:
    """Refuse operations of LangGraph's routes that would disturb a run of /run in its thread."""
    if not is_at_work(value.get("thread_id"), owner):
        return
    if action == "create_run" and value.get("multitask_strategy") != "enqueue":
        raise Auth.exceptions.HTTPException(
            409,
            "A request of /run is at work in this thread, and its client alone can stop it: "
            'send "multitask_strategy": "enqueue" to wait for its end.',
        )
    if action == "delete" and not value.get("run_id"):
        raise Auth.exceptions.HTTPException(409, "A request of /run is at work in this thread.")


async def _keep_to_graph(value: Any, owner: str) -> None:
    """Refuse a run in a thread of another graph, as /run does: each graph has a state of its own."""
    server, thread = running(), value.get("thread_id")
    if server is None or thread is None:
        return
    latest = await server.saver.aget_tuple({"configurable": {"thread_id": str(thread)}})
    if latest is None or owner not in ("", latest.metadata.get("owner")):
        return  # new, or another owner's thread, which gets 404
    of_thread = latest.metadata.get("graph_id")
    asked = next(
        (
            each["graph_id"]
            for each in server.store["assistants"]
            if str(each["assistant_id"]) == str(value.get("assistant_id"))
        ),
        None,
    )
    if asked and of_thread and asked != of_thread:
        raise Auth.exceptions.HTTPException(
            409, f"Thread {thread} is one of {of_thread}: go on with that graph, or create a new thread."
        )


def _require_thread(cron: Any) -> None:
    """Refuse a cron whose runs have no thread while approvals are on: each of its runs would fail."""
    keeps = (cron.get("payload") or {}).get("on_run_completed") == "keep"  # a new thread for each run
    if _SETTINGS.approvals != "auto" and not cron.get("thread_id") and not keeps:
        raise Auth.exceptions.HTTPException(
            422,
            f"Approvals are on (APPROVALS={_SETTINGS.approvals}), so a cron needs a thread, where a person "
            "can answer. Create the cron in a thread (crons.create_for_thread), or send "
            '"on_run_completed": "keep": each run then gets a thread.',
        )


def _mark(value: Any, owner: str) -> None:
    """Set the owner in an object's metadata, whatever the client wrote there."""
    metadata = value.get("metadata")
    if metadata is None:
        metadata = value["metadata"] = {}
    metadata["owner"] = owner
    metadata.pop("created_by", None)
