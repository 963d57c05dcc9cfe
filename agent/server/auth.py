"""Who asks, and what is theirs: tokens, and what LangGraph's server asks about its threads (V3, H5).

langgraph.json names `auth`. The server calls its handlers before each operation; a handler writes the owner
into what is made, and gives the filter that whatever is read must pass: what does not pass is not there.
Approvals, runs, streams and states are parts of threads. Where AUTH_TOKENS is unset, nothing has an owner,
and nothing is kept from anybody.
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

from agent.config import load_settings
from agent.server.listed import is_at_work
from agent.server.own_threads import is_listed, kept_for
from agent.server.refusals import comes_from_within, refuse
from agent.tokens import Token, TokenRefused, owner_by_token

__all__ = ["OPEN", "TokensNeeded", "auth", "owner_of"]

OPEN = frozenset({"/ok", "/health"})
"""What answers without a token: that the server is there. `langgraph dev` itself looks at /ok."""

_PAGE = re.compile(r"/app(?:/.*)?|/files/.*", re.DOTALL)
"""What a person opens in a browser. The first has no slash at its end: what a browser is told of a path holds
for the folder in which it is, so for all routes (RFC 7617, 2.2)."""

_TOKENS = load_settings().auth_tokens

auth = Auth()

Filter = dict[str, Any]

_CHANGES = {"create", "create_run", "update"}


def owner_of(headers: Mapping[str, str], tokens: tuple[Token, ...] = _TOKENS) -> str | None:
    """The owner whose token a request brings; None where AUTH_TOKENS is unset.

    Args:
        headers: of the request, names in lower case.
        tokens: who may come in.

    Raises:
        TokenRefused: it brings none, or one that does not hold.
    """
    if not tokens:
        return None
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        token = headers.get("x-api-key") or (_password(headers, token) if scheme.lower() == "basic" else "")
    return owner_by_token(tokens, token.strip())


def _password(headers: Mapping[str, str], given: str) -> str:
    """What a person has typed as the password, with whatever name, when their browser asked for it.

    The browser adds it to every request, whichever page makes it: to one of another page, even one that may
    call this server, it says nothing of who that page is. Such a page has to bring a token itself.
    """
    if (origin := headers.get("origin")) and urlsplit(origin).netloc != headers.get("host"):
        return ""
    try:
        return base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
    except ValueError:  # of either step
        return ""


class TokensNeeded:
    """Lets nobody in without a token, whatever the route; ASGI middleware. Leaves `owner` in the scope.

    LangGraph's own check leaves out this application's routes, /docs, /openapi.json, /metrics, /ui and more.
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
    """How a token is to be sent; a browser that is shown the page by a person asks that person for it.

    Requests that the page makes get no such answer: it says itself what is wrong.
    """
    headers = Headers(scope=scope)
    # Over plain http by another name than localhost, browsers tell nothing of what a request is for.
    shown = headers.get("sec-fetch-mode") or ("navigate" if "text/html" in headers.get("accept", "") else "")
    if shown == "navigate" and _PAGE.fullmatch(scope["path"]):
        return 'Basic realm="code-agent", charset="UTF-8"'
    return "Bearer"


@auth.authenticate
async def authenticate(headers: dict[bytes, bytes]) -> Auth.types.MinimalUserDict:
    """Whom LangGraph's server takes the request to be from; "" is anybody."""
    try:
        owner = owner_of({name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()})
    except TokenRefused as error:
        raise Auth.exceptions.HTTPException(401, str(error)) from None
    return {"identity": owner or "", "display_name": owner or "", "is_authenticated": owner is not None}


@auth.on
async def nothing_else(ctx: Auth.types.AuthContext, value: object) -> bool:  # noqa: ARG001 - called by name
    """What has no handler below, of a later version of the server, is for nobody."""
    return not ctx.user.identity


@auth.on(resources=["threads", "crons"])
async def of_the_owner(ctx: Auth.types.AuthContext, value: Any) -> Filter | None:
    """Threads, with their runs, streams and states, and what starts runs by the clock."""
    owner = ctx.user.identity
    if ctx.resource == "threads":
        _keep_apart(ctx.action, value, owner)
    if not owner:
        return None
    if ctx.resource == "crons" and ctx.action == "search":
        if value.get("limit") == 0 and not value.get("metadata"):
            # The server counts those without a thread whosever they are (langgraph-api 0.16), unless told.
            raise Auth.exceptions.HTTPException(422, f'Give metadata to count by: {{"owner": "{owner}"}}.')
        value["metadata"]["owner"] = owner
    elif ctx.action in _CHANGES:
        _mark(value, owner)
    made = value.get("thread_id") if ctx.resource == "threads" else None
    if made and ctx.action == "create" and await _is_anothers(made, owner):
        raise Auth.exceptions.HTTPException(409, f"Thread with ID {made} already exists")
    # A run may make its thread. Routes that name it in the body alone (/a2a) would so go on in another's.
    makes_it = ctx.action == "create_run" and value.get("if_not_exists") == "create"
    if made and makes_it and not await is_listed(made) and await _is_anothers(made, owner):
        raise Auth.exceptions.HTTPException(404, "There is no such thread.")
    return {"owner": owner}


@auth.on(resources="assistants")
async def assistants(ctx: Auth.types.AuthContext, value: Any) -> Filter | None:
    """Those that come with the graphs are read by all and changed by nobody; others are their owner's."""
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
    """Each owner has a part of the store: every namespace of theirs begins with their name, given or not."""
    owner = ctx.user.identity
    if owner:
        given = tuple(value.get("namespace") or ())
        value["namespace"] = given if given[:1] == (owner,) else (owner, *given)


async def _is_anothers(thread: UUID, owner: str) -> bool:
    return await kept_for(thread) not in ([], [owner])


def _keep_apart(action: str, value: Any, owner: str) -> None:
    """Of LangGraph's routes only what waits for its end goes into a thread in which /run is at work."""
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


def _mark(value: Any, owner: str) -> None:
    """Write the owner into what is made or changed; what a client wrote there does not count."""
    metadata = value.get("metadata")
    if metadata is None:
        metadata = value["metadata"] = {}
    metadata["owner"] = owner
    metadata.pop("created_by", None)
