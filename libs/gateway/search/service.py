"""The virtual host `search.gateway`: what programs in the sandbox ask, and what they are answered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, cast, get_args
from urllib.parse import parse_qs

from libs.gateway.protocol import ServiceRequest, ServiceResponse
from libs.gateway.search.provider import MAX_RESULTS, SearchError, SearchProvider, SearchType

__all__ = ["HOST", "SearchService"]

HOST = "search.gateway"

MAX_BODY = 64 * 2**10
MAX_QUERY_CHARS = 2_000
_TYPES = get_args(SearchType)


class SearchService:
    """Answers http://search.gateway/; a `Service` of the proxy.

    `GET` or `POST /search`, with `q`, `max_results` (1 to 20, default 10) and `type` (`web`, `news`,
    `academic`) in the URL, a form or a JSON object of at most 64 KB: `{"results": [...], "provider": "..."}`.
    `GET /feeds`: `{"feeds": [...]}`, the URLs of NEWS_FEEDS. Everything else, and what goes wrong, is
    `{"error": "..."}` with a status that fits.
    """

    def __init__(
        self,
        provider: SearchProvider,
        feeds: Sequence[str] = (),
        redact: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`redact` takes secrets out of what is answered: a provider might send back the key it was given."""
        self._provider = provider
        self._feeds = tuple(feeds)
        self._redact = redact or bytes

    async def __call__(self, request: ServiceRequest) -> ServiceResponse:
        try:
            status, answer = 200, await self._found(request)
        except SearchError as error:
            status, answer = error.status, {"error": str(error)}
        text = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
        return ServiceResponse(status, self._redact(text))

    async def aclose(self) -> None:
        """Close the connections of the provider."""
        await self._provider.aclose()

    async def _found(self, request: ServiceRequest) -> dict[str, Any]:
        if (request.method, request.path) == ("GET", "/feeds"):
            return {"feeds": self._feeds}
        if request.path != "/search":
            raise SearchError(f"{HOST} has GET /feeds, and /search, not {request.path[:100]}.", 404)
        if request.method not in {"GET", "POST"}:
            raise SearchError(f"{HOST}/search takes GET and POST.", 405)
        asked = _form(request.query) | (_sent(request) if request.method == "POST" else {})
        query, count, type = _query(asked), _count(asked), _type(asked)
        results = await self._provider.search(query, count, type)
        return {"results": [asdict(result) for result in results], "provider": self._provider.name}


def _form(text: str) -> dict[str, object]:
    try:
        return {name: values[-1] for name, values in parse_qs(text, max_num_fields=100).items()}
    except ValueError:
        raise SearchError("There are over 100 parameters.", 400) from None


def _sent(request: ServiceRequest) -> dict[str, object]:
    if len(request.body) > MAX_BODY:
        raise SearchError(f"The body is over {MAX_BODY >> 10} KB.", 413)
    if not any(name.lower() == b"content-type" and b"json" in value for name, value in request.headers):
        return _form(request.body.decode("utf-8", "replace"))
    try:
        sent = json.loads(request.body)
    except (ValueError, RecursionError):
        sent = None
    if not isinstance(sent, dict):
        raise SearchError("The body is no JSON object.", 400)
    return sent


def _query(asked: dict[str, object]) -> str:
    query = asked.get("q")
    if not isinstance(query, str) or not query.strip():
        raise SearchError("The query is empty: q says what to search for.", 400)
    if len(query) > MAX_QUERY_CHARS:
        raise SearchError(f"The query has {len(query):,} characters, over {MAX_QUERY_CHARS:,}.", 400)
    return query.strip()


def _count(asked: dict[str, object]) -> int:
    text = str(asked.get("max_results", 10))
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_RESULTS:
        raise SearchError(f"max_results is a number from 1 to {MAX_RESULTS}, not {text[:40]}.", 400)
    return int(text)


def _type(asked: dict[str, object]) -> SearchType:
    type = asked.get("type", "web")
    if type not in _TYPES:
        raise SearchError(f"type is {', '.join(_TYPES)}, not {str(type)[:40]}.", 400)
    return cast("SearchType", type)
