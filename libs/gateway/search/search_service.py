"""The virtual host `search.gateway`, through which programs in the sandbox search the web."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, cast, get_args
from urllib.parse import parse_qs

from libs.gateway.gateway_protocol import ServiceRequest, ServiceResponse
from libs.gateway.search.search_contract import MAX_RESULTS, SearchError, SearchProvider, SearchType

__all__ = ["HOST", "SearchService"]

HOST = "search.gateway"

MAX_QUERY_CHARS = 2_000
_TYPES = get_args(SearchType)


class SearchService:
    """Answers http://search.gateway/; a `Service` of the proxy.

    `GET /search`, with `q`, `max_results` (1 to 20, default 10) and `type` (`web`, `news`, `academic`):
    `{"results": [...], "provider": "..."}`. `GET /feeds`: `{"feeds": [...]}`, the URLs of NEWS_FEEDS. Errors
    are `{"error": "..."}` with an HTTP status.
    """

    def __init__(
        self,
        provider: SearchProvider,
        feeds: Sequence[str] = (),
        redact: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`redact`: removes secrets from answers, because a provider might repeat its key."""
        self._provider = provider
        self._feeds = tuple(feeds)
        self._redact = redact or bytes

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        try:
            status, answer = 200, await self._answer(request)
        except SearchError as error:
            status, answer = error.status, {"error": str(error)}
        text = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
        return ServiceResponse(status, self._redact(text))

    async def aclose(self) -> None:
        """Close the connections of the provider."""
        await self._provider.aclose()

    async def _answer(self, request: ServiceRequest) -> dict[str, Any]:
        if request.method != "GET" or request.path not in {"/feeds", "/search"}:
            raise SearchError(
                f"{HOST} has GET /feeds and GET /search, not {request.method} {request.path[:100]}.", 404
            )
        if request.path == "/feeds":
            return {"feeds": self._feeds}
        try:
            listed = parse_qs(request.query, max_num_fields=100)
        except ValueError:
            raise SearchError("There are over 100 parameters.", 400) from None
        parameters = {name: values[-1] for name, values in listed.items()}
        query, count, type = _query(parameters), _count(parameters), _type(parameters)
        results = await self._provider.search(query, count, type)
        return {"results": [asdict(result) for result in results], "provider": self._provider.name}


def _query(parameters: dict[str, str]) -> str:
    query = parameters.get("q", "").strip()
    if not query:
        raise SearchError("The query is empty: q says what to search for.", 400)
    if len(query) > MAX_QUERY_CHARS:
        raise SearchError(f"The query has {len(query):,} characters, over {MAX_QUERY_CHARS:,}.", 400)
    return query


def _count(parameters: dict[str, str]) -> int:
    text = parameters.get("max_results", "10")
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_RESULTS:
        raise SearchError(f"max_results is a number from 1 to {MAX_RESULTS}, not {text[:40]}.", 400)
    return int(text)


def _type(parameters: dict[str, str]) -> SearchType:
    type = parameters.get("type", "web")
    if type not in _TYPES:
        raise SearchError(f"type is {', '.join(_TYPES)}, not {type[:40]}.", 400)
    return cast("SearchType", type)
