"""Reads RSS and Atom as articles in plain text."""

from __future__ import annotations

import html
import io
import re
import time
from typing import Any
from urllib.parse import urlsplit

__all__ = ["feed_text", "read_feed"]

Item = dict[str, str]

MAX_SUMMARY_CHARS = 1_000


def read_feed(content: bytes, url: str) -> tuple[str, list[Item]]:
    """Return the title of a feed and its articles: title, url, source, published_at and summary.

    Raises:
        ValueError: the content is not a feed.
    """
    import feedparser

    # feedparser would read text or bytes that look like an address or a path as such; a file object is safe.
    found = feedparser.parse(io.BytesIO(content), response_headers={"content-location": url})
    if not found.get("version"):
        raise ValueError(f"{url} is not an RSS or Atom feed")
    title = _plain(found.feed.get("title"))
    items = (_item(entry, title or urlsplit(url).hostname or url) for entry in found.entries)
    return title, [item for item in items if item["url"]]


def _item(entry: Any, feed: str) -> Item:
    source = entry.get("source") or {}
    link = str(entry.get("link") or "")
    summary = _plain(entry.get("summary"))
    title = _plain(entry.get("title"))
    return {
        "title": title or _short(summary, 80) or link,
        "url": link if link.startswith(("http://", "https://")) else "",
        "source": _plain(source.get("title")) or feed,
        "published_at": _time(entry.get("published_parsed") or entry.get("updated_parsed")),
        "summary": _short(summary, MAX_SUMMARY_CHARS),
    }


def feed_text(content: bytes, url: str) -> tuple[str, str, str]:
    """Return title, Markdown and plain text of a feed with all articles."""
    title, items = read_feed(content, url)
    markdown, text = [f"# {title}"], [title]
    for item in items:
        when = f" ({item['published_at']})" if item["published_at"] else ""
        markdown.append(f"- [{_escaped(item['title'])}]({item['url']}){when}\n  {item['summary']}".rstrip())
        text.append(f"{item['title']}{when}\n{item['url']}\n{item['summary']}".rstrip())
    return title, "\n\n".join(markdown) + "\n", "\n\n".join(text) + "\n"


def _plain(markup: object) -> str:
    text = re.sub(r"<[^<>]*>", " ", str(markup or ""))
    return " ".join(html.unescape(text).split())


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _escaped(text: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", text)


def _time(utc: time.struct_time | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", utc) if utc and utc.tm_year >= 1000 else ""
