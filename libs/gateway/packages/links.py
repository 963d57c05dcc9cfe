"""Pages of an index for pip, as HTML (PEP 503) and as JSON (PEP 691): the files that they list."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

__all__ = [
    "ACCEPT",
    "HTML",
    "JSON",
    "PackageFile",
    "as_html",
    "as_json",
    "files_of",
    "is_of",
    "normal_name",
    "package_file",
]

JSON: Final = "application/vnd.pypi.simple.v1+json"
HTML: Final = "text/html"
ACCEPT: Final = f"{JSON}, application/vnd.pypi.simple.v1+html; q=0.1, {HTML}; q=0.01"

_KINDS: Final = r"whl|zip|tar\.gz|tgz|tar\.bz2|tbz|tar\.xz|txz|tlz|tar\.lz|tar\.lzma|tar"
_FILE = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._+!~-]{{0,250}}\.(?:{_KINDS})")
_HASHES: Final = ("sha256", "sha512", "sha384", "sha224", "sha1", "md5")
"""That pip knows; in HTML there is room for one, and it is the first of these."""
_DIGEST = re.compile(r"[0-9a-fA-F]{32,128}")
_FRAGMENT = re.compile(rf"(?:^|&)({'|'.join(_HASHES)})=([0-9a-fA-F]+)")

Hashes = dict[str, str]


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file that a page lists."""

    name: str
    url: str
    """Without fragment."""
    hashes: Hashes = field(default_factory=dict)
    requires_python: str | None = None
    yanked: bool | str = False
    """Whether it is, or why."""
    metadata: bool | Hashes = False
    """Whether its metadata can be had by itself (PEP 658), or their hashes."""
    size: int | None = None
    upload_time: str | None = None


def normal_name(project: str) -> str:
    """The name of a project as it stands in URLs (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def is_of(project: str, file: str) -> bool:
    """Whether a file may be one of a project, by its name, as pip sees it."""
    return any(normal_name(file[: dash.start()]) == project for dash in re.finditer("-", file))


def package_file(name: str) -> bool:
    """Whether a file may be a package, by its name. Such a name is no path and needs no quotes in HTML."""
    return _FILE.fullmatch(name) is not None


def files_of(content: bytes, kind: str, url: str) -> list[PackageFile]:
    """The files of a page. What pip would not take for one is left out.

    Args:
        content: of the page.
        kind: its Content-Type.
        url: where it lay. Links to `file:` count only where it lay there itself.

    Raises:
        ValueError: it is no such page; says what it is.
    """
    plain = kind.partition(";")[0].strip().lower()
    if plain == JSON:
        return list(_in_json(content, url))
    if plain in (HTML, "application/vnd.pypi.simple.v1+html"):
        return list(_in_html(content, kind, url))
    raise ValueError(f"answers with {plain or 'nothing that says what it is'}, which is no page of an index")


def _in_json(content: bytes, page: str) -> Iterator[PackageFile]:
    try:
        listed = json.loads(content)["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        listed = None
    if not isinstance(listed, list):
        raise ValueError(  # noqa: TRY004 - of what came, not of an argument
            "answers with JSON that is no page of an index"
        )
    for file in listed:
        if not isinstance(file, dict) or not isinstance(file.get("url"), str):
            continue
        split = _split(page, file["url"], page)
        if split is None:
            continue
        name, url, fragment = split
        metadata = file.get("core-metadata", file.get("dist-info-metadata"))
        yanked, size = file.get("yanked"), file.get("size")
        yield PackageFile(
            name,
            url,
            fragment | _hashes(file.get("hashes")),
            _text(file.get("requires-python")),
            yanked if isinstance(yanked, str) and yanked else bool(yanked),
            _hashes(metadata) or bool(metadata),
            size if isinstance(size, int) else None,
            _text(file.get("upload-time")),
        )


class _Anchors(HTMLParser):
    """Every link, and the first base."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.base: str | None = None
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))
        elif tag == "base" and self.base is None:
            self.base = dict(attrs).get("href")


def _in_html(content: bytes, kind: str, page: str) -> Iterator[PackageFile]:
    charset = re.search(r"charset=[\"']?([\w.:-]+)", kind)
    parser = _Anchors()
    try:
        parser.feed(content.decode(charset[1] if charset else "utf-8", "replace"))
        parser.close()
    except LookupError:
        raise ValueError(f"answers in {charset[1] if charset else ''}, which nobody can read") from None
    base = page
    if parser.base:
        with suppress(ValueError):
            base = urljoin(page, parser.base)
    for anchor in parser.found:
        href = anchor.get("href")
        split = _split(base, href, page) if href else None
        if split is None:
            continue
        name, url, fragment = split
        metadata = anchor.get("data-core-metadata", anchor.get("data-dist-info-metadata"))
        yanked = "data-yanked" in anchor and (anchor["data-yanked"] or True)
        hashes = _fragment_hashes(metadata or "")
        yield PackageFile(
            name,
            url,
            fragment,
            anchor.get("data-requires-python") or None,
            yanked,
            hashes or metadata == "true",
        )


def _split(base: str, href: str, page: str) -> tuple[str, str, Hashes] | None:
    """Name, URL and hashes of what a link leads to; None where it is no package."""
    try:
        parts = urlsplit(href if href.startswith(("https://", "http://")) else urljoin(base, href))
    except ValueError:
        return None
    schemes = ("http", "https", "file") if page.startswith("file:") else ("http", "https")
    name = unquote(parts.path.rpartition("/")[2])
    if parts.scheme not in schemes or not package_file(name):
        return None
    return name, parts._replace(fragment="").geturl(), _fragment_hashes(parts.fragment)


def _fragment_hashes(text: str) -> Hashes:
    return {name: digest for name, digest in _FRAGMENT.findall(text) if _DIGEST.fullmatch(digest)}


def _hashes(said: object) -> Hashes:
    if not isinstance(said, dict):
        return {}
    return {
        name: said[name]
        for name in _HASHES
        if isinstance(said.get(name), str) and _DIGEST.fullmatch(said[name])
    }


def _text(said: object) -> str | None:
    return said if isinstance(said, str) else None


Listed = Iterable[tuple[str, PackageFile]]
"""Files, each with the URL at which it is to be had."""


def as_json(project: str, listed: Listed) -> bytes:
    """A page of a project, in JSON."""
    files = []
    for url, file in listed:
        said: dict[str, Any] = {"filename": file.name, "url": url, "hashes": file.hashes}
        optional: Mapping[str, object] = {
            "requires-python": file.requires_python,
            "core-metadata": file.metadata,
            "dist-info-metadata": file.metadata,
            "yanked": file.yanked,
            "size": file.size,
            "upload-time": file.upload_time,
        }
        files.append(said | {name: value for name, value in optional.items() if value not in (None, False)})
    page = {"meta": {"api-version": "1.0"}, "name": project, "files": files}
    return json.dumps(page, ensure_ascii=False).encode("utf-8", "replace")


def as_html(project: str, listed: Listed) -> bytes:
    """A page of a project, in HTML."""
    lines = [f"<!DOCTYPE html><html><head><title>{html.escape(project)}</title></head><body>"]
    for url, file in listed:
        said = {"href": url + _one_hash(file.hashes, "#")}
        if file.requires_python:
            said["data-requires-python"] = file.requires_python
        if file.yanked is not False:
            said["data-yanked"] = "" if file.yanked is True else file.yanked
        if file.metadata is not False:
            of = "true" if file.metadata is True else _one_hash(file.metadata)
            said["data-core-metadata"] = said["data-dist-info-metadata"] = of
        attributes = " ".join(f'{name}="{html.escape(value)}"' for name, value in said.items())
        lines.append(f"<a {attributes}>{html.escape(file.name)}</a><br>")
    return "\n".join([*lines, "</body></html>", ""]).encode("utf-8", "replace")


def _one_hash(hashes: Hashes, before: str = "") -> str:
    return next((f"{before}{name}={hashes[name]}" for name in _HASHES if name in hashes), "")
