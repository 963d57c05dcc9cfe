"""SearXNG, by its documented API: https://docs.searxng.org/dev/search_api.html."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from libs.gateway.search.provider import Result, SearchError, SearchType, first, host_of, iso_utc, plain
from libs.gateway.search.web_api import WebApi

__all__ = ["SearXNG"]

URL = "SEARXNG_URL"
_CATEGORIES: dict[SearchType, str] = {"web": "general", "news": "news", "academic": "science"}


class SearXNG:
    """Results of an instance of SearXNG; academic ones are those of its category `science`."""

    name = "searxng"

    def __init__(self, url: str) -> None:
        """`url`: where the instance is, such as http://localhost:8888; it may have `user:password@`."""
        self._url = url.rstrip("/").removesuffix("/search") + "/search"
        self._api = WebApi("SearXNG", URL)

    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:
        parameters = {"q": query, "format": "json", "categories": _CATEGORIES[type]}
        answer = await self._api.get(self._url, parameters, _failure)
        found = answer.get("results")
        if not isinstance(found, list):
            raise self._api.malformed("no list of results")
        if not found and (silent := _silent(answer)):
            raise SearchError(
                f"None of the engines behind {URL} answered ({silent}): try again later, or look at the "
                "instance.",
                502,
            )
        return first(_results(found), max_results)

    async def aclose(self) -> None:
        await self._api.aclose()


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
    """The engines that did not answer, and why: pairs of a name and a reason."""
    listed = answer.get("unresponsive_engines")
    pairs = listed if isinstance(listed, list) else []
    return ", ".join(": ".join(map(plain, pair)) for pair in pairs[:5] if isinstance(pair, list))


def _failure(status: int, headers: Mapping[str, str], _body: dict[str, Any]) -> SearchError:
    if status == 403:
        return SearchError(
            f"The instance at {URL} does not give JSON (HTTP 403): ask the person to list json under "
            "search.formats in its settings.yml.",
            502,
        )
    if status == 401:
        return SearchError(
            f"The instance at {URL} wants a password (HTTP 401): ask the person to write it as "
            "https://user:password@host.",
            502,
        )
    if status == 429:
        return SearchError(
            f"The limiter of the instance at {URL} refuses (HTTP 429): try again later, or ask the person to "
            "let this machine pass it.",
            429,
        )
    if 300 <= status < 400:
        host = host_of(headers.get("Location", "")) or "another place"
        return SearchError(
            f"{URL} leads on to {host} (HTTP {status}): ask the person to set it to that.", 502
        )
    if status == 404:
        return SearchError(f"There is no SearXNG at {URL} (HTTP 404): ask the person to check it.", 502)
    return SearchError(f"The instance at {URL} answers with an error (HTTP {status}).", 502)
