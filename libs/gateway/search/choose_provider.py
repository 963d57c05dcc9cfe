"""Makes the search provider that the settings name."""

from __future__ import annotations

from pathlib import Path

from libs.gateway.search.brave_provider import Brave
from libs.gateway.search.fake_provider import Fake
from libs.gateway.search.search_contract import Result, SearchError, SearchProvider, SearchType
from libs.gateway.search.searxng_provider import SearXNG

__all__ = ["search_provider"]


def search_provider(
    chosen: str | None, *, brave_api_key: str | None = None, searxng_url: str | None = None
) -> SearchProvider:
    """Return the provider named by SEARCH_PROVIDER: `brave`, `searxng` or `fake:<file>`.

    If a variable is missing, each search fails with an error that names the variable.

    Raises:
        ValueError: the provider is unknown.
    """
    if chosen is None:
        return _Missing(
            "No search provider is set: ask the person to set SEARCH_PROVIDER to brave, with BRAVE_API_KEY, "
            "or to searxng, with SEARXNG_URL."
        )
    if chosen == "brave":
        return Brave(brave_api_key) if brave_api_key else _Missing(_needs(chosen, "BRAVE_API_KEY"))
    if chosen == "searxng":
        return SearXNG(searxng_url) if searxng_url else _Missing(_needs(chosen, "SEARXNG_URL"))
    kind, _, file = chosen.partition(":")
    if kind == "fake" and file:
        return Fake(Path(file))
    raise ValueError("must be brave, searxng or fake:<file>")


def _needs(chosen: str, variable: str) -> str:
    return f"SEARCH_PROVIDER is {chosen}, and {variable} is not set: ask the person to set it."


class _Missing(SearchProvider):
    name = "none"

    def __init__(self, message: str) -> None:
        self._message = message

    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:  # noqa: ARG002
        raise SearchError(self._message, 503)
