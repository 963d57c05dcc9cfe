"""Refuses requests of foreign web pages, so that none can read, start a run or answer an approval.

A browser sends requests wherever a page tells it to, but it reports truthfully where the page comes from
(`Origin`, `Sec-Fetch-Site`) and under which name it reached the server (`Host`). With DNS rebinding, a page
gives its own host name the server's address and so gets the right `Origin`; therefore `Host` must name this
server. Forms send bodies that are not JSON, without a preflight request; such bodies are refused as well.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.server.json_exchange import JSON_TYPE
from agent.server.refusals import comes_from_within, refuse

__all__ = ["Origins", "cross_origin"]

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@]+)(?::(\d{1,5}))?")
_EMBEDDED = {"iframe", "frame", "embed", "object"}


class Origins:
    """Refuses requests of foreign pages (403) and bodies that are not JSON (415); ASGI middleware.

    Args:
        app: the guarded application: all routes, including WebSockets.
        allowed: origins whose pages may call the server, `https://host[:port]` in lower case.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(allowed)
        self._hosts = frozenset(urlsplit(origin).hostname for origin in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or comes_from_within(scope):
            await self._app(scope, receive, send)
        elif why := self._foreign(scope):
            await refuse(scope, receive, send, 403, why)
        elif why := _no_json(scope):
            await refuse(scope, receive, send, 415, why)
        else:
            await self._app(scope, receive, send)

    def _foreign(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None:
            return "A request must name one host."
        name, port = match[1].strip("[]").lower(), match[2]
        own = _is_own(name, scope)
        if not own and name not in self._hosts:
            return (
                f"This server is not called {name[:200]}. If it is, add its origin to ALLOWED_ORIGINS, "
                f"such as https://{name[:200]}."
            )
        for origin in headers.getlist("origin"):
            if origin not in self._origins and not (own and _same(origin, name, port)):
                return f"Pages of {origin[:200]} may not call this server: they are not in ALLOWED_ORIGINS."
        # Browsers send no Origin when a foreign page loads a picture, script or frame.
        if headers.get("sec-fetch-site") in {"cross-site", "same-site"} and "origin" not in headers:
            to_it = headers.get("sec-fetch-mode") == "navigate" and scope.get("method") in {"GET", "HEAD"}
            if not to_it or headers.get("sec-fetch-dest") in _EMBEDDED:
                return "Pages from elsewhere may link to this server, not load parts of it."
        return None


def cross_origin(app: ASGIApp, allowed: Collection[str]) -> CORSMiddleware:
    """Return the CORS middleware: the pages that may call the server may also read its answers."""
    return CORSMiddleware(
        app,
        allow_origins=list(allowed),
        allow_methods=["*"],
        allow_headers=["*"],
        allow_private_network=True,
        expose_headers=["x-pagination-total", "x-pagination-next", "content-location", "retry-after"],
    )


def _is_own(name: str, scope: Scope) -> bool:
    """Return whether the host is localhost or the server's own address, so that DNS had no part in it."""
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    server = scope.get("server")
    here = address.is_loopback or address.is_unspecified  # 0.0.0.0, which `langgraph dev --host` prints
    return here or (server is not None and str(address) == str(server[0]))


def _same(origin: str, name: str, port: str | None) -> bool:
    try:
        parts = urlsplit(origin)
        theirs = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return False
    ours = int(port) if port else {"http": 80, "https": 443}[parts.scheme]
    return parts.hostname == name and theirs == ours


def _no_json(scope: Scope) -> str | None:
    headers = Headers(scope=scope)
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not has_body:
        return None
    kind = headers.get("content-type", "")
    kind_alone = kind.partition(";")[0].strip()
    if JSON_TYPE.fullmatch(kind_alone):
        return None
    # A page can send neither this method nor this type without a preflight request.
    if scope.get("method") == "PUT" and scope["path"].startswith("/files/"):
        if kind_alone.lower() == "application/octet-stream":
            return None
        return (
            f"A file must be sent as application/octet-stream, not {kind[:100] or 'without a Content-Type'}."
        )
    return f"The body must be JSON, sent as application/json, not {kind[:100] or 'without a Content-Type'}."
