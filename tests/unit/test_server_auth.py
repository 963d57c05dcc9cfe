"""What the handlers tell LangGraph's server of owners: what is written, and which filter holds (V3)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from langgraph_sdk import Auth
from langgraph_sdk.auth import types
from starlette.datastructures import Headers

from agent.server import auth as module
from agent.server.auth import auth, owner_of
from agent.tokens import TokenRefused, new_token


class User:
    is_authenticated = True
    permissions = ()

    def __init__(self, identity: str) -> None:
        self.identity = self.display_name = identity


async def asked(owner: str, resource: str, action: str, value: dict[str, Any]) -> Any:
    """What the handler says that the server takes: the one for the resource, else the one for all."""
    user = User(owner)
    context: Any = types.AuthContext(user=user, permissions=[], resource=resource, action=action)  # type: ignore[arg-type]
    keys = [(resource, action), (resource, "*")]
    [handler, *_] = [
        auth._handlers[key][-1] for key in keys if key in auth._handlers
    ] or auth._global_handlers
    return await handler(ctx=context, value=value)


ALL = [
    (resource, action)
    for resource in ("threads", "crons", "assistants")
    for action in ("create", "read", "update", "delete", "search")
] + [("threads", "create_run")]


@pytest.mark.parametrize(("resource", "action"), ALL)
async def test_whatever_is_asked_is_asked_of_ones_own(resource: str, action: str) -> None:
    spoofed = {"owner": "bob", "created_by": "system", "mine": 1}
    value: dict[str, Any] = {"metadata": spoofed, "limit": 5}
    found = await asked("alice", resource, action, value)
    if resource == "assistants" and action in {"read", "search"}:
        assert found == {"$or": [{"owner": "alice"}, {"created_by": "system"}]}
    else:
        assert found == {"owner": "alice"}
    if action in {"create", "update", "create_run"}:
        assert spoofed == {"owner": "alice", "mine": 1}, "in place: the server keeps this very mapping"


@pytest.mark.parametrize("action", ["create", "create_run", "update"])
async def test_the_owner_is_written_where_nothing_is(action: str) -> None:
    for value in ({}, {"metadata": None}):
        await asked("alice", "threads", action, value)
        assert value["metadata"] == {"owner": "alice"}


async def test_without_tokens_nothing_is_kept_from_anybody() -> None:
    value: dict[str, Any] = {"metadata": {"owner": "x"}, "namespace": ("a",)}
    for resource, action in ALL:
        assert await asked("", resource, action, value) is None
    assert await asked("", "store", "get", value) is None
    assert value == {"metadata": {"owner": "x"}, "namespace": ("a",)}


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (None, ("alice",)),
        ((), ("alice",)),
        (("notes",), ("alice", "notes")),
        (("alice", "notes"), ("alice", "notes")),
        (("bob", "notes"), ("alice", "bob", "notes")),
    ],
)
@pytest.mark.parametrize("action", ["put", "get", "search", "delete", "list_namespaces"])
async def test_each_has_a_part_of_the_store(action: str, given: Any, used: tuple[str, ...]) -> None:
    value = {"namespace": given}
    await asked("alice", "store", action, value)
    assert value["namespace"] == used


async def test_what_a_later_server_may_ask_is_refused() -> None:
    assert await asked("alice", "vaults", "read", {}) is False
    assert await asked("", "vaults", "read", {}) is True


async def test_crons_of_others_are_not_counted() -> None:
    with pytest.raises(Auth.exceptions.HTTPException) as raised:
        await asked("alice", "crons", "search", {"limit": 0, "metadata": {}})
    assert raised.value.status_code == 422
    kept = {"x": 1}
    await asked("alice", "crons", "search", {"limit": 0, "metadata": kept})
    assert kept == {"x": 1, "owner": "alice"}


# headers

ALICE, ALICES = new_token("alice")
BOB, BOBS = new_token("bob")
TOKENS = (ALICES, BOBS)


def typed(name: str, password: str) -> str:
    """What a browser sends once a person has typed these."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("headers", "owner"),
    [
        ({"Authorization": f"Bearer {ALICE}"}, "alice"),
        ({"authorization": f"bearer  {ALICE} "}, "alice"),
        ({"X-Api-Key": BOB}, "bob"),
        ({"Authorization": f"Bearer {ALICE}", "X-Api-Key": "lsv2_of_something_else"}, "alice"),
        ({"Authorization": "Basic eDp5", "X-Api-Key": BOB}, "bob"),
        ({"Authorization": typed("", ALICE)}, "alice"),
        ({"Authorization": typed("any name", BOB).replace("Basic", "basic ")}, "bob"),
        ({"Authorization": typed("x", ALICE), "Host": "here:2024", "Origin": "http://here:2024"}, "alice"),
    ],
)
def test_where_a_token_is_looked_for(headers: dict[str, str], owner: str) -> None:
    assert owner_of(Headers(headers), TOKENS) == owner
    assert owner_of(Headers(headers), ()) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ALICE},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {ALICE}"},
        {"Authorization": typed(ALICE, "")},
        {"Authorization": typed("alice", f"{ALICE}:")},
        {"Authorization": f"Basic {base64.b64encode(ALICE.encode()).decode()}"},
        {"Authorization": "Basic " + base64.b64encode(b"x:\xff").decode()},
        {"Authorization": "Basic é"},
        {"Authorization": typed("x", ALICE), "Host": "here:2024", "Origin": "https://smith.langchain.com"},
        {"Authorization": typed("x", ALICE), "Host": "here:2024", "Origin": "http://here:2025"},
        {"Authorization": typed("x", ALICE), "Host": "here:2024", "Origin": "null"},
        {"Authorization": f"Bearer {ALICE}x", "X-Api-Key": ALICE},
        {"Cookie": f"token={ALICE}"},
        {"X-Auth-Scheme": "langsmith"},
    ],
)
def test_where_it_is_not(headers: dict[str, str]) -> None:
    with pytest.raises(TokenRefused):
        owner_of(Headers(headers), TOKENS)


async def test_the_servers_own_check_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = auth._authenticate_handler
    assert handler is not None
    assert (await handler(headers={}))["identity"] == ""
    monkeypatch.setattr(module, "owner_of", lambda headers: owner_of(headers, TOKENS))
    assert (await handler(headers={b"x-api-key": BOB.encode()}))["identity"] == "bob"
    with pytest.raises(Auth.exceptions.HTTPException) as raised:
        await handler(headers={b"x-api-key": b"wrong"})
    assert raised.value.status_code == 401


# how a browser is asked

PAGE = {"sec-fetch-mode": "navigate"}


@pytest.mark.parametrize(
    ("path", "headers", "asked"),
    [
        ("/app", PAGE, True),
        ("/app/threads/x", PAGE, True),
        ("/files/x/content", PAGE, True),
        ("/app", {"accept": "text/html,*/*"}, True),
        ("/app", {"sec-fetch-mode": "cors", "accept": "text/html"}, False),
        ("/app/assets/x.js", {"sec-fetch-mode": "no-cors"}, False),
        ("/app", {}, False),
        ("/apple", PAGE, False),
        ("/threads/search", PAGE, False),
        ("/page/config", {"sec-fetch-mode": "cors"}, False),
    ],
)
async def test_only_whoever_opens_the_page_is_asked_for_a_password(
    path: str, headers: dict[str, str], asked: bool
) -> None:
    """Another page's frames and pictures, and what the page itself fetches, bring no dialogue up."""
    sent: list[Any] = []

    async def nobody(*_: Any) -> None:
        raise AssertionError("nobody comes in")

    async def send(message: Any) -> None:
        sent.append(message)

    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": given}
    await module.TokensNeeded(nobody, TOKENS)(scope, nobody, send)
    assert sent[0]["status"] == 401
    challenge = Headers(raw=sent[0]["headers"])["www-authenticate"]
    assert challenge == ('Basic realm="code-agent", charset="UTF-8"' if asked else "Bearer")
