"""Brave Search, by its documented API: https://api-dashboard.search.brave.com/documentation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

from libs.gateway.search.provider import Result, SearchError, SearchType, first, iso_utc, plain
from libs.gateway.search.web_api import WebApi

__all__ = ["Brave"]

KEY = "BRAVE_API_KEY"
MAX_QUERY_CHARS = 400
MAX_QUERY_WORDS = 50
PATIENCE = 2.0
"""Seconds that are waited for a rate limit, once: plans allow so many questions a second."""


class Brave:
    """Web and news results of Brave. It has no academic ones: asked for them, it says so."""

    name = "brave"

    def __init__(self, key: str, *, url: str = "https://api.search.brave.com/res/v1") -> None:
        self._url = url
        self._api = WebApi("Brave", KEY, headers={"X-Subscription-Token": key})

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
        try:
            answer = await self._api.get(f"{self._url}/{type}/search", parameters, _failure)
        except _TooFast as error:
            if error.wait > PATIENCE:
                raise
            await asyncio.sleep(error.wait)
            answer = await self._api.get(f"{self._url}/{type}/search", parameters, _failure)
        return first(self._results(answer, type), max_results)

    async def aclose(self) -> None:
        await self._api.aclose()

    def _results(self, answer: dict[str, Any], type: SearchType) -> Iterator[Result]:
        if answer.get("type") != {"web": "search", "news": "news"}[type]:
            raise self._api.malformed("something else than search results")
        # Where nothing is found on the web, the whole part is missing.
        part = answer.get("web", {"results": []}) if type == "web" else answer
        found = part.get("results") if isinstance(part, dict) else None
        if not isinstance(found, list):
            raise self._api.malformed("no list of results")
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


class _TooFast(SearchError):
    """A rate limit: `wait` seconds, and it may be asked again."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message, 429)
        self.wait = wait


def _failure(status: int, headers: Mapping[str, str], body: dict[str, Any]) -> SearchError:
    code = _code(body)
    shown = f"HTTP {status}, {code}" if code else f"HTTP {status}"
    if status in {401, 403} or "TOKEN" in code or "SUBSCRIPTION" in code or _header_is_wrong(body):
        return SearchError(
            f"Brave refuses the key ({shown}): ask the person to check {KEY} and its subscription.", 502
        )
    if status == 429:
        wait = _wait(headers)
        what = "quota" if code == "QUOTA_LIMITED" else "rate limit"
        again = f" Try again in {wait:,.0f} s." if wait else ""
        return _TooFast(f"The {what} of the plan of {KEY} is used up ({shown}).{again}", wait or PATIENCE + 1)
    if status in {400, 422}:
        return SearchError(f"Brave refuses this query ({shown}): word it differently.", 400)
    return SearchError(f"Brave answers with an error ({shown}); {KEY} may not be at fault.", 502)


def _errors(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Its errors: the documentation shows a list in one place and one object in another."""
    listed = body.get("errors")
    for error in [body.get("error"), *(listed if isinstance(listed, list) else [])]:
        if isinstance(error, dict):
            yield error


def _code(body: dict[str, Any]) -> str:
    codes = (str(error.get("code")) for error in _errors(body))
    return next((code for code in codes if re.fullmatch(r"[A-Z_]{1,60}", code)), "")


def _header_is_wrong(body: dict[str, Any]) -> bool:
    """A missing key is an error of validation that names its header."""
    return any("x-subscription-token" in str(error.get("meta")).lower() for error in _errors(body))


def _wait(headers: Mapping[str, str]) -> float:
    """Seconds until every limit that is used up counts anew: `1, 1419704` are one for each window."""

    def numbers(name: str) -> list[float]:
        return [float(part) for part in re.findall(r"\d+", headers.get(name, ""))]

    resets = numbers("X-RateLimit-Reset") or numbers("Retry-After")
    remaining = numbers("X-RateLimit-Remaining")
    used_up = [reset for reset, left in zip(resets, remaining, strict=False) if left == 0]
    return max(used_up or resets[:1], default=0)
