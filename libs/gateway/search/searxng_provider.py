"""Searches with SearXNG (https://docs.searxng.org/dev/search_api.html)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from libs.gateway.search.search_contract import (
    Result,
    SearchError,
    SearchType,
    first,
    host_of,
    iso_utc,
    plain,
)
from libs.gateway.search.search_web_api import WebApi

__all__ = ["SearXNG"]

URL = "SEARXNG_URL"
_CATEGORIES: dict[SearchType, str] = {"web": "general", "news": "news", "academic": "science"}


class SearXNG(WebApi):
    """Results of a SearXNG instance. Academic searches use its category `science`."""

    name = "searxng"

    def __init__(self, url: str) -> None:
        """`url`: of the instance, such as http://localhost:8888; may contain `user:password@`."""
        super().__init__("SearXNG", URL)
        self._url = url.rstrip("/").removesuffix("/search") + "/search"

    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:
        parameters = {"q": query, "format": "json", "categories": _CATEGORIES[type]}
        answer = await self.get(self._url, parameters, _failure)
        found = answer.get("results")
        if not isinstance(found, list):
            raise self.malformed("no list of results")
        if not found and (silent := _silent(answer)):
            raise SearchError(
                f"None of the engines behind {URL} answered ({silent}): try again later, or look at the "
                "instance.",
                502,
            )
        return first(_results(found), max_results)


def _results(found: list[Any]) -> Iterator[Result]:
    for item in found:
        if isinstance(item, dict) and isinstance(url := item.get("url"), str):
            yield Result(
                plain(item.get("title")),
                url,
                plain(item.get("content")),
                plain(item.get("journal")) or plain(item.get("publisher")),
                iso_utc(item.get("publishedDate")),
            )


def _silent(answer: dict[str, Any]) -> str:
    """Return the engines that did not answer, each with its reason."""
    listed = answer.get("unresponsive_engines")
    pairs = listed if isinstance(listed, list) else []
    return ", ".join(": ".join(map(plain, pair)) for pair in pairs[:5] if isinstance(pair, list))


def _failure(status: int, headers: Mapping[str, str], _body: dict[str, Any]) -> SearchError:
    if status == 429:
        return SearchError(
            f"The limiter of the instance at {URL} refuses (HTTP 429): try again later, or ask the person to "
            "let this machine pass it.",
            429,
        )
    place = host_of(headers.get("Location", "")) or "another place"
    why = {
        401: "wants a password: ask the person to write it as https://user:password@host",
        403: "does not give JSON: ask the person to list json under search.formats in its settings.yml",
        404: "is not a SearXNG instance: ask the person to check it",
        **dict.fromkeys(range(300, 400), f"leads on to {place}: ask the person to set it to that"),
    }.get(status, "answers with an error")
    return SearchError(f"The instance at {URL} {why} (HTTP {status}).", 502)
