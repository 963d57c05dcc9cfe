"""Reads files of the workspace for the page, from inside the sandbox. The host sends this program as text.

    python3 -I -c "$PROGRAM" ACTION ANSWER '{"path": …}'

writes a new file ANSWER: a line of JSON, then bytes. Actions: `list` a folder; `look` up a file's real path
and size; `place`, the real path of a new file; the beginning of a `text`; rows of a `table`; a `page` of a
PDF file as a PNG picture. An error is `{"error": code, "detail": …}`.

A path may contain links, but must end in the workspace: the program opens the file first and then asks the
kernel for its real path. It opens only regular files and folders. Standard library only, besides the image's
`tablereader` for tables and pypdfium2 for PDF.
`workspace_files` sends the program and trusts no answer: a process in the sandbox may have changed the file.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

WORKSPACE = "/workspace"
MOST_SEEN = 50_000
"""Entries of a folder that are looked at."""
MOST_LISTED = 2_000
"""Entries that are listed."""
OVERLAP = 4_096
"""Characters sent beyond each limit: the host redacts secrets, then cuts at the limit."""
MOST_TEXT = 262_144
MOST_CELL = 1_000
MOST_CELLS = 4_000_000
"""Characters of all cells together, without those of the last row."""
MOST_TABLE_CELL = 32_000_000
MOST_COLUMNS = 200
COUNT_SECONDS = 3.0
"""Seconds for counting rows."""
MOST_PDF = 200_000_000
PIXELS = 1_600
"""Length of a page's longer side."""


class Failed(Exception):
    """An answer with an error: its code, and the detail."""


def within(place: str, error: str = "outside") -> str:
    """Return `place` if it is in the workspace; else raise `Failed` with this code."""
    if place == WORKSPACE or place.startswith(f"{WORKSPACE}/"):
        return place
    raise Failed(error, "it leads out of /workspace")


@contextlib.contextmanager
def opened(path: str, flags: int = 0) -> Iterator[tuple[int, str, os.stat_result]]:
    """Open a file or folder: its descriptor, real path and status. A FIFO is refused without waiting."""
    # O_PATH needs no right to read and does not open a device or FIFO.
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        within(os.readlink(f"/proc/self/fd/{handle}"))
        kind = os.fstat(handle)
        if not (stat.S_ISREG(kind.st_mode) or stat.S_ISDIR(kind.st_mode)):
            raise Failed("not_regular", "it is a FIFO, a socket or a device")
        file = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC | flags)
    finally:
        os.close(handle)
    try:
        yield file, within(os.readlink(f"/proc/self/fd/{file}")), os.fstat(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def regular(path: str) -> Iterator[tuple[int, str, int]]:
    """Open a file: its descriptor, real path and size."""
    with opened(path) as (file, place, state):
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        yield file, place, state.st_size


def kind_of(mode: int) -> str:
    """Return the kind of entry that a mode describes."""
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "other"


def entry_of(found: os.DirEntry[str]) -> dict[str, Any]:
    """Describe an entry; a link with its own size and time, and the kind of its target."""
    try:
        state = found.stat(follow_symlinks=False)
    except PermissionError:  # the folder may be read, and not entered
        state = os.stat_result(10 * [0])
    kind, leads_to = kind_of(state.st_mode), None
    if kind == "link":
        with contextlib.suppress(OSError):
            leads_to = kind_of(found.stat().st_mode)
    name = found.name.encode("utf-8", "surrogateescape")
    shown = name.decode("utf-8", "backslashreplace")
    if shown.encode() != name:  # no request could name it
        kind, leads_to = "other", None
    size, modified = state.st_size, state.st_mtime
    return {"name": shown, "kind": kind, "bytes": size, "modified": modified, "leads_to": leads_to}


def folder(path: str) -> tuple[dict[str, Any], bytes]:
    """List a folder: folders first, by name."""
    entries: list[dict[str, Any]] = []
    truncated = False
    with opened(path, os.O_DIRECTORY) as (handle, place, _), os.scandir(handle) as found:
        for seen, each in enumerate(found):
            if seen == MOST_SEEN:
                truncated = True
                break
            with contextlib.suppress(OSError):  # gone meanwhile
                entries.append(entry_of(each))
    entries.sort(key=lambda each: ("folder" not in (each["kind"], each["leads_to"]), each["name"].lower()))
    truncated = truncated or len(entries) > MOST_LISTED
    return {"path": place, "entries": entries[:MOST_LISTED], "truncated": truncated}, b""


def look(path: str) -> tuple[dict[str, Any], bytes]:
    """Return a file's real path and size."""
    with regular(path) as (_, place, size):
        return {"path": place, "bytes": size}, b""


def new_place(path: str) -> tuple[dict[str, Any], bytes]:
    """Return the real path of a new file; links are followed, also at the end of the path."""
    above, name = os.path.split(path)
    place = within(os.path.join(os.path.realpath(above), name), "new_outside")
    if os.path.islink(place):
        place = within(os.path.realpath(place), "new_outside")
    if place == WORKSPACE or os.path.isdir(place):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    return {"path": place}, b""


def text(path: str) -> tuple[dict[str, Any], bytes]:
    """Return the beginning of a text."""
    with regular(path) as (file, _, size):
        data = os.pread(file, MOST_TEXT + OVERLAP, 0)
    if b"\0" in data:
        raise Failed("not_text", "it holds NUL bytes, so it is not text")
    return {"truncated": size > MOST_TEXT, "more": size > len(data)}, data


def table(path: str, offset: int, limit: int) -> tuple[dict[str, Any], bytes]:
    """Return rows of a table without its row of names, read as skills and the listing of /data read it."""
    from tablereader import NotText, OpenTable  # type: ignore[import-not-found]

    csv.field_size_limit(MOST_TABLE_CELL)
    with regular(path) as (file, _, _), os.fdopen(os.dup(file), "rb") as content:
        try:
            with OpenTable(content, 65_536) as found:
                return _rows(found.names, found.all_rows(), offset, limit), b""
        except NotText:
            raise Failed("not_text", "it holds NUL bytes, so it is not a table in text") from None
        except csv.Error as error:
            raise Failed("not_text", f"it is not a table: {error}") from None


def _rows(names: list[str], rows: Iterator[tuple[int, list[str]]], offset: int, limit: int) -> dict[str, Any]:
    shown: list[list[str]] = []
    left, count, cut = MOST_CELLS, -1, is_cut(names)
    began = time.monotonic()
    total: int | None = None
    for count, (_, row) in enumerate(rows):
        if offset <= count < offset + limit and left > 0:
            cut = cut or is_cut(row)
            shown.append(cells(row))
            left -= sum(len(cell) for cell in row[:MOST_COLUMNS])
        if count >= offset + limit and count % 1_000 == 0 and time.monotonic() - began > COUNT_SECONDS:
            break
    else:
        total = count + 1
    return {"columns": cells(names), "rows": shown, "offset": offset, "total": total, "cut": cut}


def is_cut(row: list[str]) -> bool:
    """Return whether a row is shown in part."""
    return len(row) > MOST_COLUMNS or any(len(cell) > MOST_CELL for cell in row)


def cells(row: list[str]) -> list[str]:
    """Return the cells of a row; NUL ends a cell that is cut."""
    most = MOST_CELL + OVERLAP
    return [f"{cell[:most]}\0" if len(cell) > most else cell for cell in row[:MOST_COLUMNS]]


def page(path: str, number: int) -> tuple[dict[str, Any], bytes]:
    """Return a page of a PDF file, counted from 1, as a picture."""
    import pypdfium2  # type: ignore[import-not-found]

    with regular(path) as (file, _, size):
        if size > MOST_PDF:
            raise Failed("too_large", f"PDF files up to {MOST_PDF // 1_000_000} MB are shown")
        with os.fdopen(os.dup(file), "rb") as content:
            data = content.read(MOST_PDF + 1)
    try:
        document = pypdfium2.PdfDocument(data)
        pages = len(document)
        if not 1 <= number <= pages:
            raise Failed("no_page", f"it has {pages} page{'s' * (pages != 1)}, and no page {number}")
        shown = document[number - 1]
        width, height = shown.get_size()
        # A PDF can declare a page that is kilometres long.
        scale = min(PIXELS / max(width, height, 1), 4)
        picture = io.BytesIO()
        shown.render(scale=scale).to_pil().convert("RGB").save(picture, "PNG")
    except pypdfium2.PdfiumError as error:
        raise Failed("not_pdf", str(error)) from None
    return {"pages": pages}, picture.getvalue()


ACTIONS: dict[str, Callable[..., tuple[dict[str, Any], bytes]]] = {
    "list": folder,
    "look": look,
    "place": new_place,
    "text": text,
    "table": table,
    "page": page,
}


def main(action: str, answer: str, arguments: str) -> None:
    """Carry out one action."""
    content = b""
    try:
        head, content = ACTIONS[action](**json.loads(arguments))
    except Failed as failed:
        head = {"error": failed.args[0], "detail": failed.args[1]}
    except OSError as error:
        head = {"error": errno.errorcode.get(error.errno or 0, "EIO"), "detail": error.strerror or str(error)}
    except ValueError as error:
        head = {"error": "EINVAL", "detail": str(error)}
    with open(answer, "xb") as file:
        file.write(json.dumps(head, ensure_ascii=False).encode("utf-8", "replace") + b"\n" + content)


if __name__ == "__main__":
    main(*sys.argv[1:4])
