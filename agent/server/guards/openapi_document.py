"""Completes /openapi.json: the answers of the guards, how to send a token, LangGraph's own descriptions.

If an application adds routes, the server publishes its own routes with empty descriptions (langgraph-api
0.16); this module puts LangGraph's descriptions back.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.server.guards.auth import OPEN
from agent.server.guards.closed_routes import is_closed
from agent.server.langgraph_server import described_paths

__all__ = ["Described", "describe"]

_OF_ALL = {"403": "The host or the origin is not one of this server's."}
_OF_MOST = {
    "401": "A token is missing, unknown or expired.",
    "429": "Too many requests per minute or at once; Retry-After says when to try again.",
    "503": "The server is busy; Retry-After says when to try again.",
}
_OF_BODIES = {
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
}
_OF_THREADS = {"404": "There is no such thread, or it belongs to another owner."}
_OF_LANGGRAPHS = {
    "400": "The request cannot be processed; the error says why.",
    "404": "The object in the path or body does not exist, or belongs to another owner.",
    "422": "A part of the path, the query or the body is not valid; the answer says which.",
}
"""Answers of LangGraph's routes that their descriptions leave out (langgraph-api 0.16)."""
_UNDESCRIBED = {"default": {"description": "LangGraph's server does not describe this route."}}
_METHODS = ("get", "put", "post", "patch", "delete")


def describe(document: dict[str, Any], of_langgraph: Mapping[str, Any]) -> None:
    """Add the missing answers to an OpenAPI document and remove closed routes.

    Args:
        document: the server's document, changed in place.
        of_langgraph: path -> method -> LangGraph's description.
    """
    document.setdefault("components", {}).setdefault("securitySchemes", {})["token"] = {
        "type": "http",
        "scheme": "bearer",
        "description": "Needed if AUTH_TOKENS is set. `code-agent token new OWNER` creates a token.",
    }
    document["security"] = [{}, {"token": []}]
    document["paths"] = {path: each for path, each in document["paths"].items() if not is_closed(path)}
    for path, operations in document["paths"].items():
        theirs = of_langgraph.get(path, {})
        operations.update({name: copy.deepcopy(theirs[name]) for name in theirs if name in operations})
        for operation in (operations[method] for method in _METHODS if method in operations):
            if not operation.get("responses"):
                operation["responses"] = copy.deepcopy(_UNDESCRIBED)
            answers = dict(_OF_ALL)
            if path not in OPEN:
                answers |= _OF_MOST
            if "requestBody" in operation:
                answers |= _OF_BODIES
            if path.startswith("/threads/{thread_id}"):
                answers |= _OF_THREADS
            if path in of_langgraph and ("requestBody" in operation or "{" in path):
                answers |= _OF_LANGGRAPHS
            for status, why in answers.items():
                operation["responses"].setdefault(status, _answer(why))


def _answer(description: str) -> dict[str, Any]:
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    return {"description": description, "content": {"application/json": {"schema": error}}}


class Described:
    """Applies `describe` to the answer of GET /openapi.json; ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["method"], scope["path"]) != ("GET", "/openapi.json"):
            await self._app(scope, receive, send)
            return
        start: Message = {}
        body = b""

        async def kept(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
            else:
                body += message.get("body", b"")

        await self._app(scope, receive, kept)
        if start["status"] == 200:
            document = json.loads(body)
            describe(document, described_paths())
            body = json.dumps(document).encode()
        headers = [each for each in start["headers"] if each[0].lower() != b"content-length"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await send({"type": "http.response.body", "body": body})
