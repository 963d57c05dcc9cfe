"""Reads and writes files of a thread's workspace for the page, always through the sandbox.

An agent made these files, so each answer is plain data: limited in size, without secrets, of a type that no
browser runs. Paths are resolved in the sandbox (`preview_program.py`) with the rights of a command, so a link
or a race reaches nothing that a command could not reach.
"""

from __future__ import annotations

import asyncio
import json
import logging
import posixpath
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel, Field

from agent.secrets import KNOWN
from agent.server.json_exchange import Refused
from agent.server.routes.files import preview_program
from agent.server.routes.files.preview_program import MOST_CELL, MOST_TEXT, OVERLAP
from libs.sandbox import FileFailed, SandboxError
from libs.sandbox.host import ChannelSandbox

__all__ = [
    "MOST_DOWNLOADED",
    "MOST_PATH",
    "MOST_ROWS",
    "PREVIEW_SECONDS",
    "Found",
    "Listing",
    "Table",
    "WorkspaceFiles",
    "absolute",
    "refused",
    "says",
]

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=BaseModel)

MOST_DOWNLOADED = 128 << 20
"""Largest file sent to the page, in bytes: the whole file is held in memory to search it for secrets."""
MOST_PATH = 4_000
"""Characters of a path."""
MOST_ROWS = 200
"""Rows of a table at once."""
PREVIEW_SECONDS = 20.0
"""Seconds that a preview may take."""

_WORKSPACE = "/workspace"
_AT_ONCE = 3
"""Previews at once in a sandbox: its processes are needed by the agent."""
_PICTURE = b"\x89PNG\r\n\x1a\n"
_PROGRAM = Path(preview_program.__file__).read_text(encoding="utf-8")
_ANSWER = "/tmp/.page-"  # noqa: S108 - a path in the sandbox

_SAYS: Mapping[str, tuple[int, str]] = {
    "ENOENT": (404, "There is no such file. It may have been moved or deleted: refresh the list."),
    "ENOTDIR": (404, "The path, or a part of it, names no folder."),
    "ELOOP": (404, "Its links lead in a circle."),
    "ENAMETOOLONG": (400, "The path is too long."),
    "EINVAL": (400, "This cannot be a path."),
    "EISDIR": (409, "It is a folder, and a file is needed."),
    "EACCES": (403, "The sandbox may not read it."),
    "EPERM": (403, "The sandbox may not do this."),
    "EROFS": (403, "This folder is read-only here: choose another one."),
    "ENOSPC": (
        507,
        "There is no space left in /tmp of the sandbox, where a preview is made: delete something.",
    ),
    "outside": (404, "It leads out of /workspace, and is not shown."),
    "new_outside": (404, "It leads out of /workspace, and cannot be written: choose a path in /workspace."),
    "not_regular": (422, "It is a FIFO, a socket or a device: it has no content to show."),
    "file_not_found": (404, "There is no such file. It may have been moved or deleted: refresh the list."),
    "is_directory": (409, "It is a folder, and a file is needed."),
    "not_a_directory": (404, "The path, or a part of it, names no folder."),
    "exists": (409, "There is a file of this name already: send replace=1 to replace it, or choose another."),
    "read_only": (403, "The disk of the workspace is read-only on the server."),
    "permission_denied": (403, "The sandbox may not do this: the folder or the file is read-only."),
    "secret": (
        422,
        "It holds a secret that this server knows, and is not text, so the secret cannot be removed.",
    ),
    "too_large": (413, "It is too large to be shown here; it is in the workspace folder on the server."),
    "timeout": (503, "The sandbox took too long over it: try again."),
}
"""Error code of the sandbox -> HTTP status and the message for a person."""


class _Entry(BaseModel, extra="forbid"):
    name: str
    kind: Literal["file", "folder", "link", "other"] = Field(
        description="other: a FIFO, a socket, a device, a name that is not UTF-8, or what cannot be read."
    )
    bytes: int = Field(description="0 if it cannot be read.")
    modified: float = Field(description="Seconds since 1970; 0 if it cannot be read.")
    leads_to: Literal["file", "folder", "other"] | None = Field(
        description="What a link leads to, if that exists."
    )


class Listing(BaseModel, extra="forbid"):
    """The content of a folder."""

    path: str
    entries: list[_Entry]
    truncated: bool


class Table(BaseModel, extra="forbid"):
    """Rows of a table."""

    columns: list[str]
    rows: list[list[str]]
    offset: int
    total: int | None = Field(description="Number of all rows; null: too many to count.")
    cut: bool = Field(description="Whether columns or parts of long cells are left out.")


class Found(BaseModel, extra="forbid"):
    """A file's real path and size."""

    path: str
    bytes: int


class _Place(BaseModel, extra="forbid"):
    path: str


class _Begun(BaseModel, extra="forbid"):
    truncated: bool
    more: bool


class _Pages(BaseModel, extra="forbid"):
    pages: int


_turns: WeakKeyDictionary[ChannelSandbox, asyncio.Semaphore] = WeakKeyDictionary()


class WorkspaceFiles:
    """The files in one sandbox.

    Every method raises `Refused`: 400 for an invalid path; 403, 404, 409, 413 or 422 if the file does not
    allow the operation; 503, with a hint, if the sandbox fails.

    Args:
        sandbox: is started if it is not running.
    """

    def __init__(self, sandbox: ChannelSandbox) -> None:
        self._sandbox = sandbox

    async def list(self, path: str) -> Listing:
        """List a folder, 2,000 entries at most."""
        return (await self._look("list", Listing, path=absolute(path)))[0]

    async def find(self, path: str) -> Found:
        """Return a file's real path and size, 128 MiB at most."""
        found, _ = await self._look("look", Found, path=absolute(path))
        if found.bytes > MOST_DOWNLOADED:
            raise Refused(
                413,
                f"It has {found.bytes:,} bytes; {MOST_DOWNLOADED:,} are sent at most. It is in the "
                "workspace folder on the server.",
            )
        return found

    async def read(self, found: Found) -> bytes:
        """Return the whole content of a file."""
        return (await self._file("read", path=found.path))[1]

    async def text(self, path: str) -> tuple[bytes, bool]:
        """Return the first 256 KiB of a text in UTF-8, and whether there is more."""
        begun, data = await self._look("text", _Begun, path=absolute(path))
        if begun.more:
            data = data[:-OVERLAP]  # may end with half a secret, which redaction cannot find
        data = data[:MOST_TEXT]
        return data.decode("utf-8", "replace").rstrip("\ufffd" * begun.truncated).encode(), begun.truncated

    async def table(self, path: str, offset: int, limit: int) -> Table:
        """Return rows of a CSV file; the first line names the columns."""
        found, _ = await self._look("table", Table, path=absolute(path), offset=offset, limit=limit)
        found.columns = [_cell(cell) for cell in found.columns]
        found.rows = [[_cell(cell) for cell in row] for row in found.rows]
        return found

    async def page(self, path: str, number: int) -> tuple[bytes, int]:
        """Return a page of a PDF file as a PNG picture, and the number of pages."""
        found, picture = await self._look("page", _Pages, path=absolute(path), number=number)
        if not picture.startswith(_PICTURE):
            raise _no_answer()
        return picture, found.pages

    async def write(self, path: str, content: bytes, *, replace: bool) -> str:
        """Write a file atomically, create missing folders, and return the file's real path."""
        path = absolute(path)
        if any(ord(each) < 32 or ord(each) == 127 for each in path):
            raise Refused(400, "The name of a file cannot have control characters: rename it.")
        if KNOWN(content) is not content:
            raise Refused(
                422,
                "The file holds a secret that this server knows, such as a key in .env. Agents must not have "
                "it: take it out.",
            )
        place, _ = await self._look("place", _Place, path=path)
        await self._file("write", path=place.path, replace=replace, content=content)
        return place.path

    async def _look(self, action: str, kind: type[T], **arguments: Any) -> tuple[T, bytes]:
        """Run the preview program in the sandbox; return its answer's head and the bytes that follow."""
        answer = f"{_ANSWER}{secrets.token_hex(8)}"
        command = shlex.join(["python3", "-I", "-c", _PROGRAM, action, answer, json.dumps(arguments)])
        async with _turns.setdefault(self._sandbox, asyncio.Semaphore(_AT_ONCE)):
            try:
                done = await self._sandbox.arun(command, timeout=PREVIEW_SECONDS)
            except SandboxError as error:
                raise _failed(error) from error
            if done.exit_code:
                logger.info("a preview failed in the sandbox: %s", done.output[-500:])
                if done.timed_out:
                    raise refused("timeout")
                raise refused("ENOSPC") if "No space left" in done.output else _no_answer()
            try:
                _, content = await self._file("read", path=answer)
            finally:
                with suppress(FileFailed, SandboxError):
                    await self._sandbox.afile("delete", path=answer)
        head, _, body = content.partition(b"\n")
        return _parsed(head, kind), body

    async def _file(self, do: str, **arguments: Any) -> tuple[dict[str, Any], bytes]:
        try:
            return await self._sandbox.afile(do, **arguments)
        except FileFailed as error:
            raise Refused(*says(error)) from error
        except SandboxError as error:
            raise _failed(error) from error


def refused(code: str) -> Refused:
    """Return the refusal for an error code of the sandbox."""
    return Refused(*_SAYS[code])


def says(error: FileFailed) -> tuple[int, str]:
    """Return the HTTP status of an error, and the message for a person."""
    return _SAYS.get(error.code, (422, f"It could not be done: {str(error).rstrip('.')}."))


def absolute(path: str) -> str:
    """Return an absolute path for the sandbox, which resolves links itself.

    Raises:
        Refused: the path is empty, too long, or contains NUL.
    """
    if not path or "\0" in path or len(path) > MOST_PATH:
        raise Refused(400, f'"path" must be a path of at most {MOST_PATH:,} characters, without NUL.')
    return "/" + posixpath.normpath(posixpath.join(_WORKSPACE, path)).lstrip("/")


def _parsed(head: bytes, kind: type[T]) -> T:
    try:
        value = json.loads(head)
        if isinstance(value, dict) and "error" in value:
            code, detail = str(value["error"]), str(value.get("detail"))[:300]
            raise Refused(*_SAYS.get(code, (422, f"It cannot be shown: {detail.rstrip('.')}.")))
        return kind.model_validate(value, strict=True)
    except (ValueError, RecursionError) as error:  # a ValidationError is one
        raise _no_answer() from error


def _cell(cell: str) -> str:
    """Cut a long cell. A cell that was cut in the sandbox ends with NUL, and may end with half a secret."""
    whole = not cell.endswith("\0")
    if whole and len(cell) <= MOST_CELL:
        return cell
    return f"{(cell if whole else cell[: -OVERLAP - 1])[:MOST_CELL]}…"


def _failed(error: SandboxError) -> Refused:
    return Refused(503, f"{error} {error.hint}")


def _no_answer() -> Refused:
    return Refused(
        503, "The sandbox gave no answer that can be read: its memory or processes may be used up. Try again."
    )
