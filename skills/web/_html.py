"""Extracts the article of an HTML page."""

from __future__ import annotations

import logging
import re

__all__ = ["html_text"]

MAX_TAGS = 60_000
"""Limit for the search of an article, which would take over ten seconds; a larger page is taken whole."""


def html_text(html: str, url: str) -> tuple[str, str, str]:
    """Return title, Markdown and plain text; empty strings for a page without text."""
    # trafilatura takes half a second to import.
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # its results say enough
    if html.count("<") > MAX_TAGS:
        text = trafilatura.html2txt(html)
        return "", text, text
    about = trafilatura.extract_metadata(html, default_url=url, extensive=False)
    title = (about.title if about else None) or ""
    markdown = trafilatura.extract(
        html, url=url, output_format="markdown", include_links=True, include_comments=False
    )
    text = trafilatura.extract(html, url=url, include_comments=False) or ""
    if not text.strip():  # no article, but perhaps links, a form or a table
        text = markdown = trafilatura.html2txt(html)
    return title, _rows(markdown or text), _rows(text)


def _rows(text: str) -> str:
    """Remove the space that trafilatura adds behind rows of tables."""
    return re.sub(r"\| $", "|", text, flags=re.MULTILINE)
