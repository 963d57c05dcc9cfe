"""What is asked of a search provider, and what comes back."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, Protocol
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
"""Results one search may ask for: what every provider gives for one request."""


@dataclass(frozen=True)
class Result:
    """One page that was found, in plain text; `source` is its publisher, or else the host of its URL."""

    title: str
    url: str
    snippet: str
    source: str
    published_at: str | None = None
    """ISO 8601 in UTC, where the provider says when."""


class SearchError(Exception):
    """Why there are no results: a message for the person or the model, without any key in it."""

    def __init__(self, message: str, status: int) -> None:
        """`status`: what HTTP calls it. 400: another question may do; 429: later; 5xx: not as it is."""
        super().__init__(message)
        self.status = status


class SearchProvider(Protocol):
    """Finds pages. Used by one event loop."""

    name: str
    """As SEARCH_PROVIDER names it."""

    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:
        """At most `max_results` (1 to 20) pages, best first, each URL once.

        Raises:
            SearchError: there is no answer, and why.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


def first(results: Iterable[Result], count: int) -> list[Result]:
    """The first `count` that are pages of the web, each URL once."""
    return [result for _, result in zip(range(count), _pages(results), strict=False)]


def _pages(results: Iterable[Result]) -> Iterator[Result]:
    seen: set[str] = set()
    for result in results:
        host = host_of(result.url)
        if host and result.url not in seen:
            seen.add(result.url)
            yield replace(result, title=result.title or result.url, source=result.source or host)


def host_of(url: str) -> str:
    """The host of an http or https URL; empty for what is none."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme in {"http", "https"} else ""
    except ValueError:
        return ""


def plain(text: object) -> str:
    """Text as it is read: no marks of emphasis, no entities, no line breaks; empty for what is no text."""
    if not isinstance(text, str):
        return ""
    return " ".join(html.unescape(re.sub(r"</?(?:strong|b|em|i|mark)>", "", text)).split())


def iso_utc(text: object) -> str | None:
    """A time in ISO 8601 as `2026-01-31T08:00:00Z`; one without an offset counts as UTC. None for no time."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text.strip())
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ") if time.year >= 1000 else None
