"""Serves `/files/{thread_id}/…`: the workspace of a thread, for the page's file panel.

No answer can run as this origin, whatever the file holds: a file is sent as an attachment, plain text, JSON,
or a picture whose first bytes prove its type. `own_threads.py` has checked the thread and its owner.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Literal
from urllib.parse import quote

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from agent.server.json_exchange import Refused, answer, endpoint, read_query
from agent.server.method_routes import nothing_below, routes
from agent.server.openapi import BYTES, described
from agent.server.routes.files.captured_files import CapturedFiles
from agent.server.routes.files.held_bytes import ROOM, HeldResponse
from agent.server.routes.files.kept_files import beginning, find_kept
from agent.server.routes.files.workspace_files import MOST_ROWS, Listing, Table, WorkspaceFiles
from agent.server.routes.turn_requests import points_of, refusing, runtime_of, thread_of
from libs.sandbox.host import ChannelSandbox
from libs.workspace.ledger import ClaimLost

__all__ = ["ROUTES", "picture_type"]

_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
}
_BYTES = "application/octet-stream"
_SVG = "image/svg+xml"
_SVG_HEAD = 4_096
"""Bytes in which the root element of an SVG is looked for."""
_BEGINS_SVG = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<(?:\?[^>]*|!--(?:(?!-->).)*--|![A-Za-z][^>]*)>\s*)*<svg[\s>]", re.DOTALL
)


class _Folder(BaseModel):
    path: str = Field("", description="A path below /workspace. Empty: /workspace.")


class _File(BaseModel):
    path: str = Field(min_length=1, description="A path below /workspace.")


class _Content(_File):
    view: Literal["", "image", "text"] = Field(
        "",
        description="image: PNG, JPEG, GIF, WebP or SVG, to be shown as a picture. text: its beginning, with "
        "X-Truncated: 1 where there is more. Empty: all its bytes, to be saved.",
    )
    turn: int | None = Field(
        None,
        ge=0,
        description="Read the file as it was after this turn; 0: before the first. Default: as it is now.",
    )
    call: str | None = Field(
        None,
        max_length=400,
        description="Read the file as it was after a call that has run before its decision: the `key` of its "
        "effect.",
    )
    moment: Literal["after", "before"] = Field(
        "after",
        description="before: as the file was before the turn or call, such as a file that was deleted.",
    )


class _Rows(_File):
    offset: int = Field(0, ge=0, le=1_000_000_000)
    limit: int = Field(100, ge=1, le=MOST_ROWS)


class _Page(_File):
    page: int = Field(1, ge=1, le=100_000)


class _Upload(_File):
    replace: Literal["0", "1"] = Field("0", description="1: a file of this name is replaced.")


class _Written(BaseModel):
    path: str
    bytes: int


_REFUSALS = {
    400: "The path or another parameter is invalid.",
    403: "The host or the origin is not one of this server's; or the sandbox may not read or write there.",
    404: "There is no such thread, it belongs to another owner, or its workspace has no such file.",
    409: "The path is a folder, or a file with this name exists.",
    410: "The content of this file after the turn is not kept, or not any more.",
    413: "The file is too large.",
    422: "This file type has no such preview, it holds a known secret, or a kept path is behind a link.",
    500: "The request failed.",
    503: "The server is busy or no sandbox is available; the error says what to do.",
    507: "The sandbox has no space left.",
}


@endpoint
@described(
    "List a folder of the workspace",
    path=("thread_id",),
    query=_Folder,
    answers={200: ("Entries of the folder, folders first.", Listing)},
    refusals=_REFUSALS,
)
async def _list(request: Request) -> Response:
    asked, files = read_query(request, _Folder), await _files(request)
    return _data(await files.list(asked.path or "."))


@endpoint
@described(
    "Read a file of the workspace",
    path=("thread_id",),
    query=_Content,
    answers={200: ("The file.", BYTES)},
    media=(_BYTES, "text/plain; charset=utf-8", "image/png", "image/jpeg", "image/gif", "image/webp", _SVG),
    refusals=_REFUSALS,
)
async def _read(request: Request) -> Response:
    asked = read_query(request, _Content)
    at = asked.turn if asked.call is None else asked.call
    if at is not None:
        async with refusing():
            points = await points_of(request, thread_of(request))
            kept = await find_kept(points, asked.path, at, begin=asked.moment == "before")
            return await _held(asked, kept.size, kept.read)
    files = await _files(request)
    if asked.view == "text":
        return _text(asked.path, *await files.text(asked.path))
    found = await files.find(asked.path)
    return await _held(asked, found.bytes, partial(files.read, found))


async def _held(asked: _Content, size: int, read: Callable[[], Awaitable[bytes]]) -> Response:
    """Return a view of a file that is read as a whole, and hold its bytes until they are sent."""
    ROOM.take(size)
    try:
        content = await read()
        if asked.view == "text":
            response = _text(asked.path, *beginning(content))
            ROOM.give_back(size)
            return response
        kind = picture_type(content) if asked.view == "image" else _BYTES
        if kind is None:
            raise Refused(
                422,
                "Its content is not PNG, JPEG, GIF, WebP or SVG, whatever its name says: download it.",
            )
    except BaseException:
        ROOM.give_back(size)
        raise
    return HeldResponse(ROOM, size, content, headers=_attached(asked.path), media_type=kind)


def _text(path: str, text: bytes, truncated: bool) -> Response:
    headers = _attached(path) | {"X-Truncated": str(int(truncated))}
    return Response(text, headers=headers, media_type="text/plain; charset=utf-8")


@endpoint
@described(
    "Rows of a CSV file of the workspace",
    path=("thread_id",),
    query=_Rows,
    answers={200: ("Rows; the first line of the file names the columns.", Table)},
    refusals=_REFUSALS,
)
async def _table(request: Request) -> Response:
    asked, files = read_query(request, _Rows), await _files(request)
    return _data(await files.table(asked.path, asked.offset, asked.limit))


@endpoint
@described(
    "A page of a PDF file of the workspace, as a picture",
    path=("thread_id",),
    query=_Page,
    answers={200: ("The page; X-Page-Count says how many there are.", BYTES)},
    media=("image/png",),
    refusals=_REFUSALS,
)
async def _pdf(request: Request) -> Response:
    asked, files = read_query(request, _Page), await _files(request)
    picture, pages = await files.page(asked.path, asked.page)
    headers = _attached(f"{asked.path}-{asked.page}.png") | {"X-Page-Count": str(pages)}
    return Response(picture, headers=headers, media_type="image/png")


@endpoint
@described(
    "Put a file into the workspace",
    path=("thread_id",),
    query=_Upload,
    takes_file=True,
    answers={200: ("It is there.", _Written)},
    refusals=_REFUSALS,
)
async def _write(request: Request) -> Response:
    asked, content = read_query(request, _Upload), await request.body()
    async with refusing(), _kept(await _sandbox(request)) as sandbox:
        place = await WorkspaceFiles(sandbox).write(asked.path, content, replace=asked.replace == "1")
    return answer(_Written(path=place, bytes=len(content)).model_dump())


def picture_type(content: bytes) -> str | None:
    """Return a picture's media type by its first bytes; None for other files.

    An SVG runs nothing where it is shown as a picture. Opened by its address, it is saved: see `_attached`.
    """
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return _SVG if _BEGINS_SVG.match(content[:_SVG_HEAD]) else None


async def _files(request: Request) -> WorkspaceFiles | CapturedFiles:
    runtime, sandbox = runtime_of(request), await _sandbox(request)
    if sandbox.running or (kept := await runtime.travelling_files()) is None:
        return WorkspaceFiles(sandbox)
    async with refusing():
        latest = await kept.latest(thread_of(request))
    return CapturedFiles(latest, kept.content, runtime.computer.fresh_sandbox)


async def _sandbox(request: Request) -> ChannelSandbox:
    """Return the sandbox of a thread. It does not run if another server has taken the thread over."""
    # In a thread: the first look-up may read the disk.
    sandbox = await asyncio.to_thread(runtime_of(request).computer.sandbox_of, thread_of(request))
    if sandbox.running and sandbox.check:
        async with refusing():
            with suppress(ClaimLost):
                await sandbox.check()
    return sandbox


@asynccontextmanager
async def _kept(sandbox: ChannelSandbox) -> AsyncIterator[ChannelSandbox]:
    """Keep what the block changes, if the workspace would end with the sandbox. Starts the sandbox."""
    await sandbox.astart()
    tree = sandbox.tree
    yield sandbox
    if sandbox.keep:
        await sandbox.keep()
        if sandbox.tree is not tree:
            raise Refused(503, "The sandbox ended before the file was kept: put it there again.")


def _data(model: BaseModel) -> Response:
    response = answer(model.model_dump())
    response.headers.update(_HEADERS)
    return response


def _attached(path: str) -> dict[str, str]:
    """Return the headers of a file that a browser saves to disk if a person follows a link to the file."""
    name = quote(path.rstrip("/").rpartition("/")[2] or "file", safe="", errors="replace")
    return {**_HEADERS, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}


ROUTES = [
    *routes("/files/{thread_id}/list", GET=_list),
    *routes("/files/{thread_id}/content", GET=_read, PUT=_write),
    *routes("/files/{thread_id}/table", GET=_table),
    *routes("/files/{thread_id}/pdf", GET=_pdf),
    *nothing_below("/files", "GET /files/{thread_id}/list, content, table and pdf"),
]
