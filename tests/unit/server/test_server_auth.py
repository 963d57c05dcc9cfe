"""Tests the handlers for LangGraph's server: the owners that they write and their filters."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from langgraph_sdk.auth import types
from langgraph_sdk.auth.exceptions import HTTPException
from starlette.datastructures import Headers

from agent.server.guards import auth as module
from agent.server.guards.auth import auth, owner_of
from agent.settings import Settings
from agent.settings.token_settings import TokenRefused, new_token


class User:
    is_authenticated = True
    permissions = ()

    def __init__(self, identity: str) -> None:
        self.identity = self.display_name = identity


async def asked(owner: str, resource: str, action: str, value: dict[str, Any]) -> Any:
    """Call the handler that the server would choose: that of the resource, else the global one."""
    user = User(owner)
    context: Any = types.AuthContext(user=user, permissions=[], resource=resource, action=action)  # type: ignore[arg-type]
    keys = [(resource, action), (resource, "*")]
    found = [auth._handlers[key][-1] for key in keys if key in auth._handlers]
    handler = (found or auth._global_handlers)[0]
    return await handler(ctx=context, value=value)


ALL = [
    (resource, action)
    for resource in ("threads", "crons", "assistants")
    for action in ("create", "read", "update", "delete", "search")
] + [("threads", "create_run")]


@pytest.mark.parametrize(("resource", "action"), ALL)
async def test_every_request_is_limited_to_its_owner(
    resource: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SETTINGS", Settings(approvals="auto"))
    spoofed = {"owner": "bob", "created_by": "system", "mine": 1}
    value: dict[str, Any] = {"metadata": spoofed, "limit": 5}
    found = await asked("alice", resource, action, value)
    if resource == "assistants" and action in {"read", "search"}:
        assert found == {"$or": [{"owner": "alice"}, {"created_by": "system"}]}
    else:
        assert found == {"owner": "alice"}
    if action in {"create", "update", "create_run"}:
        assert spoofed == {"owner": "alice", "mine": 1}, "in place: the server keeps this very mapping"
        for empty in ({}, {"metadata": None}):
            await asked("alice", resource, action, empty)
            assert empty["metadata"] == {"owner": "alice"}


async def test_without_tokens_nothing_is_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SETTINGS", Settings(approvals="auto"))
    value: dict[str, Any] = {"metadata": {"owner": "x"}, "namespace": ("a",)}
    for resource, action in ALL:
        assert await asked("", resource, action, value) is None
    assert await asked("", "store", "get", value) is None
    assert value == {"metadata": {"owner": "x"}, "namespace": ("a",)}


@pytest.mark.parametrize("owner", ["", "alice"])
async def test_cron_without_a_thread_is_refused_while_approvals_are_on(
    owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could answer a question of its runs, so each of them would fail."""
    monkeypatch.setattr(module, "_SETTINGS", Settings(approvals="ask"))
    for payload in ({}, {"on_run_completed": "delete"}):
        with pytest.raises(HTTPException, match="a cron needs a thread") as refused:
            await asked(owner, "crons", "create", {"thread_id": None, "payload": payload})
        assert refused.value.status_code == 422
    await asked(owner, "crons", "create", {"thread_id": "t", "payload": {}})
    await asked(owner, "crons", "create", {"thread_id": None, "payload": {"on_run_completed": "keep"}})
    monkeypatch.setattr(module, "_SETTINGS", Settings(approvals="auto"))
    await asked(owner, "crons", "create", {"thread_id": None, "payload": {}})


async def test_unknown_resource_is_refused() -> None:
    assert await asked("alice", "vaults", "read", {}) is False
    assert await asked("", "vaults", "read", {}) is True


# headers

ALICE, ALICES = new_token("alice")
BOB, BOBS = new_token("bob")
TOKENS = (ALICES, BOBS)


def typed(name: str, password: str) -> str:
    """Return the header that a browser sends after a person has typed name and password."""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("headers", "owner"),
    [
        ({"Authorization": f"Bearer {ALICE}"}, "alice"),
        ({"X-Api-Key": BOB}, "bob"),
        ({"Authorization": f"Bearer {ALICE}", "X-Api-Key": "lsv2_of_something_else"}, "alice"),
        ({"Authorization": typed("", ALICE)}, "alice"),
        ({"Authorization": typed("x", ALICE), "Host": "here:2024", "Origin": "http://here:2024"}, "alice"),
    ],
)
def test_token_is_found_in_every_supported_header(headers: dict[str, str], owner: str) -> None:
    assert owner_of(Headers(headers), TOKENS) == owner
    assert owner_of(Headers(headers), ()) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"Bearer {ALICES.digest}"},
        {"Authorization": typed(ALICE, "")},
        {"Authorization": "Basic " + base64.b64encode(b"x:\xff").decode()},
        {"Authorization": "Basic é"},
        {"Authorization": typed("x", ALICE), "Host": "here:2024", "Origin": "https://smith.langchain.com"},
        {"Authorization": f"Bearer {ALICE}x", "X-Api-Key": ALICE},
        {"Cookie": f"token={ALICE}"},
    ],
)
def test_wrong_token_is_refused_in_every_header(headers: dict[str, str]) -> None:
    with pytest.raises(TokenRefused):
        owner_of(Headers(headers), TOKENS)


# how a browser is asked

PAGE = {"sec-fetch-mode": "navigate"}


@pytest.mark.parametrize(
    ("path", "headers", "asked"),
    [
        ("/app", PAGE, True),
        ("/app/threads/x", PAGE, True),
        ("/app", {"accept": "text/html,*/*"}, True),
        ("/app", {"sec-fetch-mode": "cors", "accept": "text/html"}, False),
        ("/app/assets/x.js", {"sec-fetch-mode": "no-cors"}, False),
        ("/apple", PAGE, False),
        ("/threads/search", PAGE, False),
    ],
)
async def test_only_opening_the_page_asks_for_a_password(
    path: str, headers: dict[str, str], asked: bool
) -> None:
    """Frames and pictures of other pages, and requests of the page's script, open no dialogue."""
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
