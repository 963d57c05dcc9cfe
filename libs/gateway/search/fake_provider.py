"""Search results from a file, for tests and demonstrations."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from libs.gateway.search.search_contract import (
    Result,
    SearchError,
    SearchProvider,
    SearchType,
    first,
    iso_utc,
    plain,
)

__all__ = ["Fake"]

logger = logging.getLogger(__name__)


class Fake(SearchProvider):
    """Returns results of a JSON file, which is read at each search.

    The file is a list of objects with `title` and `url`, and optionally `snippet`, `source` and
    `published_at`. `type` limits an object to searches of that type, `when` to queries with that text.
    """

    name = "fake"

    def __init__(self, file: Path) -> None:
        self._file = file
        logger.warning("SEARCH_PROVIDER=fake: search results come from %s, not from the web", file)

    async def search(self, query: str, max_results: int, type: SearchType) -> list[Result]:
        try:
            listed = json.loads(await asyncio.to_thread(self._file.read_bytes))
        except (OSError, ValueError, RecursionError) as error:
            raise SearchError(
                f"SEARCH_PROVIDER=fake:{self._file}: it cannot be read as JSON: {error}", 503
            ) from error
        if not isinstance(listed, list):
            raise SearchError(f"SEARCH_PROVIDER=fake:{self._file}: it is not a list of results.", 503)
        return first(_matching(listed, query, type), max_results)


def _matching(listed: list[Any], query: str, type: SearchType) -> Iterator[Result]:
    for item in listed:
        if (
            isinstance(item, dict)
            and item.get("type", type) == type
            and str(item.get("when", "")).lower() in query.lower()
        ):
            yield Result(
                plain(item.get("title")),
                str(item.get("url", "")),
                plain(item.get("snippet")),
                plain(item.get("source")),
                iso_utc(item.get("published_at")),
            )
