"""How the parts around the server say no: JSON `{"error": …}`, to a request or instead of a WebSocket."""

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
    """Answer with `status` and an error that says what to do."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": error[:120]})
        return
    await JSONResponse({"error": error}, status, headers)(scope, receive, send)


def comes_from_within(scope: Scope) -> bool:
    """Whether this is a call of the server to itself, as /mcp makes for a request that has been let in.

    LangGraph's clients in the process have this root path. No request can: it is not taken from one.
    """
    root = str(scope.get("root_path", ""))
    return root == "/noauth" or root.startswith("/noauth/")
