"""Serves the page at `GET /app` from `agent/ui/dist`; only scripts of this bundle can run.

Names of scripts and styles contain a hash of their content: a browser caches them for ever, and revalidates
only `index.html`, which names them.
"""

from __future__ import annotations

import mimetypes
import os
import stat
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from agent.server.json_exchange import Refused, endpoint
from agent.server.method_routes import routes

__all__ = ["POLICY", "ROUTES", "Bundle"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load and run only its own files; injected inline scripts and styles are refused."""

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NAMED_BY_CONTENT = "assets/"
mimetypes.init()  # reads the disk: not on the event loop


class Bundle(StaticFiles):
    """The output of `npm run build` in `agent/ui`.

    Every path without a file is an address of the page, which decides what to show.
    """

    def get_path(self, scope: Scope) -> str:
        """Return the path below `/app`."""
        return str(scope["path_params"].get("path", "")).replace("\0", "")

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Find a file; without one, `index.html`, except for a script or style of another version."""
        found, state = super().lookup_path(path)
        if state is not None and stat.S_ISREG(state.st_mode):
            return found, state
        return ("", None) if path.startswith(_NAMED_BY_CONTENT) else super().lookup_path("index.html")


BUNDLE = Bundle(directory=Path(__file__).absolute().parents[2] / "ui" / "dist", check_dir=False)


@endpoint
async def _page(request: Request) -> Response:
    path = BUNDLE.get_path(request.scope)
    lasting = path.startswith(_NAMED_BY_CONTENT)
    try:
        response = await BUNDLE.get_response(path, request.scope)
    except HTTPException:
        why = (
            "This page has no such file: it may be of another version. Load the page again."
            if lasting
            else "The page was not built: its bundle is not in agent/ui/dist. In the folder of this project, "
            "`git checkout agent/ui/dist` brings back the one it comes with, and `make ui` builds one (that "
            "needs Node.js)."
        )
        raise Refused(404, why) from None
    response.headers.update(_HEADERS)
    # private: shared caches must not keep an answer that may need a token.
    response.headers["Cache-Control"] = f"private, {'max-age=31536000, immutable' if lasting else 'no-cache'}"
    return response


_PACKED = GZipMiddleware(request_response(_page))
ROUTES = [
    *routes("/app", GET=_PACKED, described=False),
    *routes("/app/{path:path}", GET=_PACKED, described=False),
]
