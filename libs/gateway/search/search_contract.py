"""The interface of search providers, and helpers to normalize results."""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlsplit

__all__ = [
    "MAX_RESULTS",
    "Result",
    "SearchError",
    "SearchProvider",
    "SearchType",
    "first",
    "host_of",
    "iso_utc",
    "plain",
]

SearchType = Literal["web", "news", "academic"]

MAX_RESULTS = 20
"""Largest number of results of one search. Every provider returns as many in one request."""


@dataclass(frozen=True)
class Result:
    """One result in plain text; `source` is the publisher, or else the host of the URL."""

    title: str
    url: str
    snippet: str
    source: str
    published_at: str | None = None
    """ISO 8601 in UTC, or None if unknown."""


class SearchError(Exception):
    """A failed search. The message is for the person or the model and contains no key."""

    def __init__(self, message: str, status: int) -> None:
        """`status`: HTTP status. 400: change the query; 429: try later; 5xx: the set-up is wrong."""
        super().__init__(message)
        self.status = status


class SearchProvider(ABC):
    """A search provider. Used on one event loop."""

    name: str
    """The name in SEARCH_PROVIDER."""

    @abstractmethod
    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:
        """Return at most `max_results` (1 to 20) results, best first, each URL once.

        Raises:
            SearchError: the search failed.
        """

    async def aclose(self) -> None:  # noqa: B027 - only some providers have connections
        """Close the connections."""


def first(results: Iterable[Result], count: int) -> list[Result]:
    """Return the first `count` results with an http or https URL, each URL once."""
    found: dict[str, Result] = {}
    for result in results:
        if len(found) < count and (host := host_of(result.url)):
            complete = replace(result, title=result.title or result.url, source=result.source or host)
            found.setdefault(result.url, complete)
    return list(found.values())


def host_of(url: str) -> str:
    """Return the host of an http or https URL, or an empty text."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in {"http", "https"} else ""
    except ValueError:
        return ""


def plain(text: object) -> str:
    """Return text without emphasis tags, entities and line breaks; empty if `text` is not a string."""
    if not isinstance(text, str):
        return ""
    return " ".join(html.unescape(re.sub(r"</?(?:strong|b|em|i|mark)>", "", text)).split())


def iso_utc(text: object) -> str | None:
    """Return an ISO 8601 time as `2026-01-31T08:00:00Z`, or None. Without an offset, UTC is assumed."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text.strip())
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ") if time.year >= 1000 else None
