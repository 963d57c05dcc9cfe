"""Our paths answer every request themselves: what LangGraph's server says otherwise has another shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from agent.server.exchange import answer

__all__ = ["by_method", "nothing_below", "only"]

Handler = Callable[[Request], Awaitable[Response]] | ASGIApp

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def only(
    method: str,
    path: str,
    handler: Handler,
    *,
    described: bool = True,
) -> list[BaseRoute]:
    """Routes for a path that takes one method; the others are answered with 405.

    Args:
        method: which; GET takes HEAD as well.
        path: as `starlette.routing.Route` takes it.
        handler: answers what has this method.
        described: whether the OpenAPI document names it.
    """
    return by_method(path, {method: handler}, described=described)


def by_method(path: str, handlers: Mapping[str, Handler], *, described: bool = True) -> list[BaseRoute]:
    """The same for a path that takes several: method -> what answers it."""
    taken = tuple(each for each in _METHODS if each in handlers or (each == "HEAD" and "GET" in handlers))

    async def refused(request: Request) -> Response:
        error = f"{request.method} is not for this path: send {' or '.join(handlers)}."
        refusal = answer({"error": error}, 405)
        refusal.headers["Allow"] = ", ".join(taken)
        return refusal

    others = [each for each in _METHODS if each not in taken]
    return [
        *(
            Route(path, handler, methods=[method], include_in_schema=described)
            for method, handler in handlers.items()
        ),
        Route(path, refused, methods=others, include_in_schema=False),
    ]


def nothing_below(path: str, what: str) -> list[BaseRoute]:
    """Routes for all that lies below a path and is no route: 404.

    Args:
        path: which, without a slash at its end.
        what: what there is, for a person who has mistyped it.
    """

    async def refused(request: Request) -> Response:  # noqa: ARG001
        return answer({"error": f"There is no such path; there is {what}."}, 404)

    return [Route(f"{path}/{{rest:path}}", refused, methods=list(_METHODS), include_in_schema=False)]
