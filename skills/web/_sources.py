"""The sources of news: the configured feeds, or the search engine."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from skills.web._feed import read_feed
from skills.web._fetch import fetch
from skills.web._gateway import ask

__all__ = ["from_feeds", "from_search"]

Item = dict[str, str]

MAX_FROM_SEARCH = 20


def from_feeds(feeds: Sequence[str], topic: str, limit: int) -> list[Item]:
    """Return the newest articles of all feeds, each URL once.

    Raises:
        ConnectionError: no feed could be read.
    """
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda feed: _from_feed(feed, topic), feeds))
    failed = [each for each in found if isinstance(each, Exception)]
    if len(failed) == len(found):
        raise ConnectionError("no feed of NEWS_FEEDS can be read: " + "; ".join(map(str, failed)))
    for error in failed:
        print(f"news: {error}", file=sys.stderr)
    items = (item for each in found if not isinstance(each, Exception) for item in each)
    newest: dict[str, Item] = {}
    for item in sorted(items, key=lambda item: item["published_at"], reverse=True):
        newest.setdefault(item["url"], item)
    return list(newest.values())[:limit]


def _from_feed(feed: str, topic: str) -> list[Item] | Exception:
    try:
        page = fetch(feed.replace("{topic}", quote(topic, safe="")))
        items = read_feed(page.content, page.url)[1]
    except (ConnectionError, TimeoutError, ValueError) as error:
        return error
    if "{topic}" in feed:
        return items
    words = re.findall(r"\w+", topic.casefold())
    return [item for item in items if _has(item, words)]


def _has(item: Item, words: list[str]) -> bool:
    text = f"{item['title']} {item['summary']}".casefold()
    return all(re.search(rf"\b{re.escape(word)}", text) for word in words)


def from_search(topic: str, limit: int) -> list[Item]:
    """Return the news of the search engine.

    Raises:
        ConnectionError: no search is set up, or the search does not answer.
    """
    try:
        found = ask("search", q=topic, max_results=min(limit, MAX_FROM_SEARCH), type="news")["results"]
    except ConnectionError as error:
        raise ConnectionError(
            f"NEWS_FEEDS is not set, and search gives no news: {error} Or ask the person to set NEWS_FEEDS "
            "to RSS or Atom feeds, and their hosts in EGRESS_ALLOW."
        ) from None
    return [
        {
            "title": hit["title"],
            "url": hit["url"],
            "source": hit["source"],
            "published_at": hit["published_at"] or "",
            "summary": hit["snippet"],
        }
        for hit in found
    ]
