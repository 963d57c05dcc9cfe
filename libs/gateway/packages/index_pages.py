"""Parses and writes pages of pip indexes in HTML (PEP 503), which every index and every pip supports."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

from packaging.utils import canonicalize_name

__all__ = ["ACCEPT", "HTML", "PackageFile", "as_html", "files_of", "is_of", "package_file"]

HTML: Final = "text/html"
_HTML_V1: Final = "application/vnd.pypi.simple.v1+html"
ACCEPT: Final = f"{_HTML_V1}, {HTML}; q=0.1"

_KINDS: Final = r"whl|zip|tar\.gz|tgz|tar\.bz2|tbz|tar\.xz|txz|tlz|tar\.lz|tar\.lzma|tar"
_FILE = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._+!~-]{{0,250}}\.(?:{_KINDS})")
_HASH = re.compile(r"(?:^|&)((?:sha256|sha512|sha384|sha224|sha1|md5)=[0-9a-fA-F]{32,128})(?:&|$)")
"""Hashes that pip knows."""


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A listed file."""

    name: str
    url: str
    """URL without fragment."""
    hash: str = ""
    """Such as `sha256=…`."""
    requires_python: str = ""
    yanked: str | None = None
    """The reason, which may be empty; None if the file is not yanked."""
    metadata: str = ""
    """The hash of its metadata file (PEP 658), or `true`; empty without metadata file."""


def is_of(project: str, file: str) -> bool:
    """Return whether a file belongs to a project, by the rules of pip."""
    return any(canonicalize_name(file[: dash.start()]) == project for dash in re.finditer("-", file))


def package_file(name: str) -> bool:
    """Return whether a name names a package file. Such a name is not a path and needs no HTML quoting."""
    return _FILE.fullmatch(name) is not None


def files_of(content: bytes, kind: str, url: str) -> list[PackageFile]:
    """Return the package files of a page. Other links are ignored.

    `kind` is the Content-Type of the page. Links to `file:` count only on pages of `file:`.

    Raises:
        ValueError: the content is not an index page; the message names its type.
    """
    plain = kind.partition(";")[0].strip().lower()
    if plain not in (HTML, _HTML_V1):
        raise ValueError(
            f"answers with {plain or 'nothing that says what it is'}, which is not an index page"
        )
    charset = re.search(r"charset=[\"']?([\w.:-]+)", kind)
    parser = _Anchors()
    try:
        parser.feed(content.decode(charset[1] if charset else "utf-8", "replace"))
        parser.close()
    except LookupError:
        raise ValueError(f"answers in {charset[1] if charset else ''}, which nobody can read") from None
    return list(_listed(parser, url))


class _Anchors(HTMLParser):
    """Collects all links and the first base."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.base: str | None = None
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))
        elif tag == "base" and self.base is None:
            self.base = dict(attrs).get("href")


def _listed(parser: _Anchors, page: str) -> Iterator[PackageFile]:
    schemes = ("http", "https", "file") if page.startswith("file:") else ("http", "https")
    base = page
    if parser.base:
        with suppress(ValueError):
            base = urljoin(page, parser.base)
    for anchor in parser.found:
        try:
            parts = urlsplit(urljoin(base, anchor.get("href") or ""))
        except ValueError:
            continue
        name = unquote(parts.path.rpartition("/")[2])
        if parts.scheme not in schemes or not package_file(name):
            continue
        metadata = anchor.get("data-core-metadata", anchor.get("data-dist-info-metadata")) or ""
        yield PackageFile(
            name,
            parts._replace(fragment="").geturl(),
            _hash(parts.fragment),
            anchor.get("data-requires-python") or "",
            (anchor["data-yanked"] or "") if "data-yanked" in anchor else None,
            "true" if metadata == "true" else _hash(metadata),
        )


def _hash(text: str) -> str:
    found = _HASH.search(text)
    return found[1] if found else ""


def as_html(
    project: str, listed: Iterable[tuple[str, PackageFile]], redact: Callable[[str], str] = str
) -> bytes:
    """Write the page of a project: files, each with the URL to list.

    `redact` removes secrets from free texts, before they are quoted.
    """
    clean = cache(redact)  # the texts repeat
    lines = [f"<!DOCTYPE html><html><head><title>{html.escape(project)}</title></head><body>"]
    for url, file in listed:
        fields = {"href": f"{url}#{file.hash}" if file.hash else url}
        if file.requires_python:
            fields["data-requires-python"] = clean(file.requires_python)
        if file.yanked is not None:
            fields["data-yanked"] = clean(file.yanked)
        if file.metadata:
            fields["data-core-metadata"] = fields["data-dist-info-metadata"] = file.metadata
        attributes = " ".join(f'{name}="{html.escape(value)}"' for name, value in fields.items())
        lines.append(f"<a {attributes}>{file.name}</a><br>")
    return "\n".join([*lines, "</body></html>", ""]).encode("utf-8", "replace")
