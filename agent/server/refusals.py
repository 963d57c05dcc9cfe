"""Answers a refused request with JSON `{"error": …}`, or closes a refused WebSocket."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

__all__ = ["comes_from_within", "refuse"]


async def refuse(
    scope: Scope,
    receive: Receive,
    send: Send,
    status: int,
    error: str,
    *,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answer with `status` and `error`; the error says what to do."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": error[:120]})
        return
    await JSONResponse({"error": error}, status, headers)(scope, receive, send)


def comes_from_within(scope: Scope) -> bool:
    """Return whether the server calls itself, on behalf of a request that the guards have let in.

    LangGraph's in-process clients set this root path. A request from outside cannot set a root path.
    """
    root = str(scope.get("root_path", ""))
    return root == "/noauth" or root.startswith("/noauth/")
