"""Extracts the text of a fetched page by its kind."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from skills.web._decode import decode
from skills.web._fetch import Page

__all__ = ["read"]

_TEXTS = re.compile(
    r"text/|application/(?:[\w.-]+\+)?(?:json|xml|yaml|toml|x-yaml|javascript|x-ndjson|sql)$|.*\+(?:json|xml)$"
)
_HTML = {"text/html", "application/xhtml+xml"}
_UNKNOWN = {"", "application/octet-stream", "binary/octet-stream"}


def read(page: Page) -> dict[str, str]:
    """Return a page as url, title, markdown and text.

    Raises:
        ValueError: the page has no text, or a kind without text.
    """
    title, markdown, text = _parts(page)
    if not text.strip():
        raise ValueError(
            f"{page.url} ({page.kind or 'of no stated kind'}, {len(page.content):,} bytes) has no text that "
            "can be read; a page may be drawn by a program, which is not run here"
        )
    return {"url": page.url, "title": title, "markdown": markdown, "text": text}


def _parts(page: Page) -> tuple[str, str, str]:
    head = page.content[:1024].lstrip()
    if page.kind == "application/pdf" or head.startswith(b"%PDF-"):
        from skills.web._pdf import pdf_text

        return pdf_text(page)
    if not page.content:
        return "", "", ""
    if b"\0" in page.content[:8192] and not page.content.startswith((b"\xff\xfe", b"\xfe\xff")):
        _refuse(page)
    if not (_TEXTS.match(page.kind) or page.kind in _UNKNOWN):
        _refuse(page)
    text = decode(page.content, page.charset, markup=page.kind in _HTML or head.startswith(b"<"))
    if _is_feed(page, text):
        from skills.web._feed import feed_text

        return feed_text(page.content, page.url)
    if page.kind in _HTML or (page.kind in _UNKNOWN and _looks_like_html(text)):
        from skills.web._html import html_text

        return html_text(text, page.url)
    text = text.replace("\r\n", "\n")
    return _name(page.url), _fenced(page.kind, text), text


def _refuse(page: Page) -> None:
    kind = page.kind or "binary"
    raise ValueError(
        f"{page.url} is {kind}, {len(page.content):,} bytes: no text; save it with curl -o /workspace/NAME"
    )


def _is_feed(page: Page, text: str) -> bool:
    if page.kind in {"application/rss+xml", "application/atom+xml"}:
        return True
    start = re.sub(r"^\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>|\s)*", "", text[:4096], flags=re.DOTALL)
    return "xml" in page.kind and bool(re.match(r"<(?:rss|feed|rdf:RDF)\b", start))


def _looks_like_html(text: str) -> bool:
    return bool(
        re.match(r"\s*(?:<\?xml.*?\?>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype html|html)\b", text, re.I | re.S)
    )


def _name(url: str) -> str:
    parts = urlsplit(url)
    return unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.hostname or url


def _fenced(kind: str, text: str) -> str:
    """Return plain text and Markdown unchanged, and other kinds as a code block."""
    if kind in {"", "text/plain", "text/markdown", "application/octet-stream", "binary/octet-stream"}:
        return text
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    language = re.sub(r"^.*[/+](?:x-)?", "", kind)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
