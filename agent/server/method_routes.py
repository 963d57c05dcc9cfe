"""Makes our paths answer every method and sub-path, because LangGraph's own errors have another shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from agent.server.json_exchange import answer

__all__ = ["nothing_below", "routes"]

Handler = Callable[[Request], Awaitable[Response]] | ASGIApp

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def routes(path: str, *, described: bool = True, **handlers: Handler) -> list[BaseRoute]:
    """Return routes for a path; methods without a handler get 405.

    Args:
        path: as `starlette.routing.Route` takes it.
        described: whether the OpenAPI document names the path.
        handlers: method -> handler; GET includes HEAD.
    """
    others = [each for each in _METHODS if each not in handlers and (each != "HEAD" or "GET" not in handlers)]

    async def refused(request: Request) -> Response:
        error = f"{request.method} is not for this path: send {' or '.join(handlers)}."
        refusal = answer({"error": error}, 405)
        refusal.headers["Allow"] = ", ".join(each for each in _METHODS if each not in others)
        return refusal

    return [
        *(Route(path, each, methods=[name], include_in_schema=described) for name, each in handlers.items()),
        Route(path, refused, methods=others, include_in_schema=False),
    ]


def nothing_below(path: str, what: str) -> list[BaseRoute]:
    """Return a route that answers 404 for everything else below a path.

    Args:
        path: without a slash at its end.
        what: the paths that exist, for the error message.
    """

    async def refused(request: Request) -> Response:  # noqa: ARG001
        return answer({"error": f"There is no such path; there is {what}."}, 404)

    return [Route(f"{path}/{{rest:path}}", refused, methods=list(_METHODS), include_in_schema=False)]
