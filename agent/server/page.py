"""`GET /app`: the page, from the bundle in `agent/ui/dist`; nothing runs in it but what is there (V4, V7).

The bundle is read once, when the server starts. Its scripts and styles have names that change with what they
hold: a browser keeps them for ever, and asks each time for what names them.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from agent.server.exchange import Refused, endpoint
from agent.server.methods import only

__all__ = ["BUNDLE", "POLICY", "ROUTES", "Part", "read_bundle"]

BUNDLE = Path(__file__).absolute().parents[1] / "ui" / "dist"
"""What `npm run build` makes of `agent/ui/src`."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load and run: its own files. No script or style in the text, so none that got into it."""

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_START = "index.html"
_NAMED_BY_CONTENT = "assets/"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_PACKED = frozenset({".css", ".html", ".js", ".json", ".svg"})


@dataclass(frozen=True)
class Part:
    """A file of the bundle."""

    content: bytes
    packed: bytes | None
    """The same with gzip, where that is less."""
    kind: str
    """Its media type."""
    tag: str
    """The ETag: changes with what it holds."""


def read_bundle(folder: Path) -> dict[str, Part]:
    """The files of a bundle, by their paths in it; none where it was not built. Blocks on the disk."""
    if not (folder / _START).is_file():
        return {}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): _read(path) for path in files}


def _read(path: Path) -> Part:
    content = path.read_bytes()
    packed = gzip.compress(content, 9, mtime=0) if path.suffix in _PACKED else content
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Part(content, packed if len(packed) < len(content) else None, kind, tag)


@endpoint
async def _page(request: Request) -> Response:
    bundle: Mapping[str, Part] = request.app.state.page
    if not bundle:
        raise Refused(
            404,
            "The page was not built: its bundle is not in agent/ui/dist. In the folder of this project, "
            "`git checkout agent/ui/dist` brings back the one it comes with, and `make ui` builds one (that "
            "needs Node.js). Start the server again then.",
        )
    path = request.path_params.get("path", "")
    lasting = path.startswith(_NAMED_BY_CONTENT)
    if lasting and path not in bundle:
        raise Refused(404, "This page has no such file: it may be of another version. Load the page again.")
    # Every other path is the page's own: it reads from the address what to show.
    part = bundle.get(path) or bundle[_START]
    headers = {
        **_HEADERS,
        "ETag": part.tag,
        # Nobody but this browser: a token may be needed.
        "Cache-Control": "private, max-age=31536000, immutable" if lasting else "private, no-cache",
    }
    if part.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = part.content
    if part.packed is not None and _takes_gzip(request.headers.get("accept-encoding", "")):
        content = part.packed
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type=part.kind)


def _takes_gzip(accepted: str) -> bool:
    """Whether a list of encodings has gzip, and does not refuse it (`gzip;q=0`)."""
    for each in accepted.lower().split(","):
        name, _, weight = each.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "").rstrip("0.") != "q="
    return False


ROUTES = [
    *only("GET", "/app", _page, described=False),
    *only("GET", "/app/{path:path}", _page, described=False),
]
