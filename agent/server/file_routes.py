"""`/files/{thread_id}/…`: the workspace of a thread, for the page's file panel.

No answer can run as this origin, whatever the file holds: it is data to be saved, or plain text, JSON, or a
picture that the first bytes prove to be one. `own_threads.py` has looked whether the thread is there, and its
owner's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from agent.served import served
from agent.server.exchange import Refused, answer, endpoint
from agent.server.held_bytes import ROOM
from agent.server.methods import by_method, nothing_below, only
from agent.server.openapi import Schema, described, object_of
from agent.server.workspace_files import MOST_ROWS, WorkspaceFiles
from libs.backends.docker import DockerExecutionBackend

__all__ = ["ROUTES", "picture_type", "thread_of"]

_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
}
_BYTES = "application/octet-stream"
_MOST_ROW = 1_000_000_000
_MOST_PAGE = 100_000

_STRING: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1, "description": "A path below /workspace."}
_COUNT: Schema = {"type": ["integer", "null"]}
_ENTRY = object_of(
    {
        "name": _STRING,
        "kind": {
            "enum": ["file", "folder", "link", "other"],
            "description": "other: a FIFO, a socket, a device, or a name that is not UTF-8.",
        },
        "bytes": {"type": "integer"},
        "modified": {"type": "number", "description": "Seconds since 1970."},
        "leads_to": {
            "enum": ["file", "folder", "other", None],
            "description": "What a link leads to, where that is there.",
        },
    }
)
_LISTING = object_of(
    {"path": _STRING, "entries": {"type": "array", "items": _ENTRY}, "truncated": {"type": "boolean"}}
)
_STRINGS: Schema = {"type": "array", "items": _STRING}
_TABLE = object_of(
    {
        "columns": _STRINGS,
        "rows": {"type": "array", "items": _STRINGS},
        "offset": {"type": "integer"},
        "total": {**_COUNT, "description": "Rows of all the file; null: too many to count."},
        "cut": {"type": "boolean", "description": "Whether columns, or parts of long cells, are left out."},
    }
)
_WRITTEN = object_of({"path": _STRING, "bytes": {"type": "integer"}})
_FILE: Schema = {"type": "string", "format": "binary"}
_REFUSALS = {
    400: "The path or another parameter is not what it must be.",
    403: "The host or the origin is not one of this server's; or the sandbox may not read or write there.",
    404: "There is no such thread, it is another owner's, or there is no such file in its workspace.",
    409: "It is a folder, or there is a file of this name already.",
    413: "The file is too large.",
    422: "It is not of a kind that can be shown so.",
    500: "It failed.",
    503: "The server is busy, or the sandbox cannot be had; the error says what mends it.",
    507: "The sandbox has no space left.",
}


@endpoint
@described(
    "List a folder of the workspace",
    path=("thread_id",),
    query={"path": {**_NAME, "default": "/workspace"}},
    answers={200: ("What is in it, folders first.", _LISTING)},
    refusals=_REFUSALS,
)
async def _list(request: Request) -> Response:
    files = await _files(request)
    return _data(await files.list(request.query_params.get("path", "/workspace")))


@endpoint
@described(
    "Read a file of the workspace",
    path=("thread_id",),
    query={
        "path": _NAME,
        "view": {
            "enum": ["image", "text"],
            "description": "image: PNG, JPEG, GIF or WebP, to be shown as a picture. text: its beginning, "
            "with X-Truncated: 1 where there is more. Left out: all its bytes, to be saved.",
        },
    },
    needed=("path",),
    answers={200: ("The file.", _FILE)},
    media={200: (_BYTES, "text/plain; charset=utf-8", "image/png", "image/jpeg", "image/gif", "image/webp")},
    refusals=_REFUSALS,
)
async def _read(request: Request) -> Response:
    path, view = _path(request), _choice(request, "view", "image", "text")
    files = await _files(request)
    if view == "text":
        text, truncated = await files.text(path)
        return _attached(path, text, "text/plain; charset=utf-8", {"X-Truncated": str(int(truncated))})
    found = await files.find(path)
    with ROOM.taken(found.bytes) as held:
        content = await files.read(found)
        kind = _BYTES if view is None else picture_type(content)
        if kind is None:
            raise Refused(
                422, "Its content is no PNG, JPEG, GIF or WebP, whatever its name says: download it instead."
            )
        return held.until_sent(_attached(path, content, kind))


@endpoint
@described(
    "Rows of a CSV file of the workspace",
    path=("thread_id",),
    query={
        "path": _NAME,
        "offset": {"type": "integer", "minimum": 0, "maximum": _MOST_ROW, "default": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": 100},
    },
    needed=("path",),
    answers={200: ("Rows; the first line of the file names the columns.", _TABLE)},
    refusals=_REFUSALS,
)
async def _table(request: Request) -> Response:
    path = _path(request)
    offset, limit = _number(request, "offset", 0, _MOST_ROW, 0), _number(request, "limit", 1, MOST_ROWS, 100)
    files = await _files(request)
    return _data(await files.table(path, offset, limit))


@endpoint
@described(
    "A page of a PDF file of the workspace, as a picture",
    path=("thread_id",),
    query={"path": _NAME, "page": {"type": "integer", "minimum": 1, "maximum": _MOST_PAGE, "default": 1}},
    needed=("path",),
    answers={200: ("The page; X-Page-Count says how many there are.", _FILE)},
    media={200: ("image/png",)},
    refusals=_REFUSALS,
)
async def _pdf(request: Request) -> Response:
    path, number = _path(request), _number(request, "page", 1, _MOST_PAGE, 1)
    files = await _files(request)
    picture, pages = await files.page(path, number)
    return _attached(f"{path}-{number}.png", picture, "image/png", {"X-Page-Count": str(pages)})


@endpoint
@described(
    "Put a file into the workspace",
    path=("thread_id",),
    query={
        "path": _NAME,
        "replace": {"enum": ["0", "1"], "description": "1: a file of this name is replaced."},
    },
    needed=("path",),
    body=_FILE,
    sends=_BYTES,
    answers={200: ("It is there.", _WRITTEN)},
    refusals=_REFUSALS,
)
async def _write(request: Request) -> Response:
    path, replace = _path(request), _choice(request, "replace", "0", "1") == "1"
    content = await request.body()
    files = await _files(request)
    place = await files.write(path, content, replace=replace)
    return answer({"path": place, "bytes": len(content)})


def thread_of(request: Request) -> str:
    """The thread that the path names, as its sandbox is called: a UUID may be written in several ways."""
    name = str(request.path_params["thread_id"])
    try:
        return str(UUID(name))
    except ValueError:  # of `code-agent run`
        return name


def picture_type(content: bytes) -> str | None:
    """The media type of a picture that a browser shows and does not run, by its first bytes; SVG is none."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


async def _files(request: Request) -> WorkspaceFiles:
    # In a thread: the first one may have to be looked up on the disk.
    return await asyncio.to_thread(_of, thread_of(request))


def _of(thread: str) -> WorkspaceFiles:
    computer = served().backend.default
    if not isinstance(computer, DockerExecutionBackend):
        raise TypeError(f"files are in a container, and {type(computer).__name__} has none")
    return WorkspaceFiles(computer.sandbox_of(thread))


def _path(request: Request) -> str:
    if (path := request.query_params.get("path")) is None:
        raise Refused(400, "Name the file: path=/workspace/results/plot.png, for one.")
    return path


def _choice(request: Request, name: str, *known: str) -> str | None:
    value = request.query_params.get(name)
    if value is not None and value not in known:
        raise Refused(400, f'"{name}" must be one of {", ".join(known)}.')
    return value


def _number(request: Request, name: str, least: int, most: int, default: int) -> int:
    value = request.query_params.get(name, str(default))
    if not (value.isascii() and value.isdigit() and len(value) < 20 and least <= int(value) <= most):
        raise Refused(400, f'"{name}" must be a whole number from {least} to {most}.')
    return int(value)


def _data(model: BaseModel) -> Response:
    told = answer(model.model_dump())
    told.headers.update(_HEADERS)
    return told


def _attached(path: str, content: bytes, kind: str, more: Mapping[str, str] = {}) -> Response:
    """An answer that a browser saves where a person follows a link to it."""
    name = quote(path.rstrip("/").rpartition("/")[2] or "file", safe="", errors="replace")
    saved = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(content, headers={**_HEADERS, **saved, **more}, media_type=kind)


ROUTES = [
    *only("GET", "/files/{thread_id}/list", _list),
    *by_method("/files/{thread_id}/content", {"GET": _read, "PUT": _write}),
    *only("GET", "/files/{thread_id}/table", _table),
    *only("GET", "/files/{thread_id}/pdf", _pdf),
    *nothing_below("/files", "GET /files/{thread_id}/list, content, table and pdf"),
]
