"""The article in a page of HTML."""

from __future__ import annotations

import logging
import re

__all__ = ["html_text"]

MAX_TAGS = 60_000
"""Of a page with more, all words are taken: to look for the article in it would take over ten seconds."""


def html_text(html: str, url: str) -> tuple[str, str, str]:
    """Title, Markdown and plain text; empty where the page has none."""
    # trafilatura takes half a second to import, and not before it is needed.
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # what it could not find, it says by None
    if html.count("<") > MAX_TAGS:
        text = trafilatura.html2txt(html)
        return "", text, text
    about = trafilatura.extract_metadata(html, default_url=url, extensive=False)
    title = (about.title if about else None) or ""
    markdown = trafilatura.extract(
        html, url=url, output_format="markdown", include_links=True, include_comments=False
    )
    text = trafilatura.extract(html, url=url, include_comments=False) or ""
    if not text.strip():  # no article, but perhaps words: a list of links, a form, a table alone
        text = markdown = trafilatura.html2txt(html)
    return title, _rows(markdown or text), _rows(text)


def _rows(text: str) -> str:
    """Rows of tables without the space that trafilatura puts behind them."""
    return re.sub(r"\| $", "|", text, flags=re.MULTILINE)
