"""Searches with Brave Search (https://api-dashboard.search.brave.com/documentation)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

from libs.gateway.search.search_contract import Result, SearchError, SearchType, first, iso_utc, plain
from libs.gateway.search.search_web_api import WebApi

__all__ = ["Brave"]

KEY = "BRAVE_API_KEY"
MAX_QUERY_CHARS = 400
MAX_QUERY_WORDS = 50
PAUSE = 1.0
"""Seconds after which a request over the rate limit is repeated once. Plans limit requests a second."""


class Brave(WebApi):
    """Web and news results of Brave. Academic searches are an error."""

    name = "brave"

    def __init__(self, key: str, *, url: str = "https://api.search.brave.com/res/v1") -> None:
        super().__init__("Brave", KEY, headers={"X-Subscription-Token": key})
        self._url = url

    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:
        if type == "academic":
            raise SearchError(
                'Brave has no academic search: use type="web", or ask the person to set '
                "SEARCH_PROVIDER=searxng, which has one.",
                400,
            )
        if len(query) > MAX_QUERY_CHARS or len(query.split()) > MAX_QUERY_WORDS:
            raise SearchError(
                f"Brave takes queries of at most {MAX_QUERY_CHARS} characters and {MAX_QUERY_WORDS} words.",
                400,
            )
        parameters: dict[str, str | int] = {"q": query, "count": max_results}
        if type == "web":
            parameters |= {"result_filter": "web", "text_decorations": "false"}
        url = f"{self._url}/{type}/search"
        try:
            answer = await self.get(url, parameters, _failure)
        except SearchError as error:
            if error.status != 429:
                raise
            await asyncio.sleep(PAUSE)
            answer = await self.get(url, parameters, _failure)
        return first(self._results(answer, type), max_results)

    def _results(self, answer: dict[str, Any], type: SearchType) -> Iterator[Result]:
        if answer.get("type") != {"web": "search", "news": "news"}[type]:
            raise self.malformed("something else than search results")
        # Without results, the part "web" is missing.
        part = answer.get("web", {"results": []}) if type == "web" else answer
        found = part.get("results") if isinstance(part, dict) else None
        if not isinstance(found, list):
            raise self.malformed("no list of results")
        for item in found:
            if isinstance(item, dict) and isinstance(url := item.get("url"), str):
                named = item.get("profile") or item.get("source")
                yield Result(
                    plain(item.get("title")),
                    url,
                    plain(item.get("description")),
                    plain(named.get("name")) if isinstance(named, dict) else "",
                    iso_utc(item.get("page_age")),
                )


def _failure(status: int, _headers: Mapping[str, str], body: dict[str, Any]) -> SearchError:
    error = body.get("error")
    code = str(error.get("code")) if isinstance(error, dict) else ""
    code = code if re.fullmatch(r"[A-Z_]{1,60}", code) else ""
    reply = f"HTTP {status}, {code}" if code else f"HTTP {status}"
    if status in {401, 403} or "TOKEN" in code or "SUBSCRIPTION" in code:
        return SearchError(
            f"Brave refuses the key ({reply}): ask the person to check {KEY} and its subscription.", 502
        )
    if status == 429:
        what = "quota" if code == "QUOTA_LIMITED" else "rate limit"
        return SearchError(f"The {what} of the plan of {KEY} is used up ({reply}).", 429)
    if status in {400, 422}:
        return SearchError(f"Brave refuses this query ({reply}): word it differently.", 400)
    return SearchError(f"Brave answers with an error ({reply}); {KEY} may not be at fault.", 502)
