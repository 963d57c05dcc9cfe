"""Look at files of the workspace for the page: runs in the sandbox, where it is sent as text.

    python3 -I -c "$PROGRAM" ACTION ANSWER '{"path": …}'

writes into ANSWER, a new file: a line of JSON, then bytes that belong to it. Actions: `list` a folder; `look`
at what a path leads to; `place`, where a new file would be; the beginning of a `text`; rows of a `table`; a
`page` of a PDF file as a PNG picture. What cannot be done is `{"error": code, "detail": …}`.

What a path leads to must be in the workspace, whatever links there are on the way: it is opened first, then
the kernel is asked where it is. Nothing but regular files and folders is opened for long. Standard library
only, and pypdfium2 for PDF. `agent.server.workspace_files` sends it, and trusts no answer: what is in the
sandbox may have changed the file.
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
from typing import Any, TypedDict

WORKSPACE = "/workspace"
MOST_SEEN = 50_000
"""Entries of a folder that are looked at."""
MOST_LISTED = 2_000
"""Entries that are told of."""
OVERLAP = 4_096
"""Characters beyond each limit: the host cuts there, once it has taken secrets out."""
MOST_TEXT = 262_144
MOST_CELL = 1_000
MOST_CELLS = 4_000_000
"""Characters of all cells together, but for those of the last row."""
MOST_LINE = 16_000_000
MOST_COLUMNS = 200
COUNT_SECONDS = 3.0
"""How long rows are counted."""
MOST_PDF = 200_000_000
PIXELS = 1_600
"""Of the longer side of a page."""


class Failed(Exception):
    """An answer with an error: its code, and the detail."""


class Cut(TypedDict):
    """The beginning of a long cell."""

    cut: str
    more: bool


Cell = str | Cut


class Entry(TypedDict):
    """What a folder holds."""

    name: str
    kind: str
    bytes: int
    modified: float
    leads_to: str | None


def within(place: str) -> str:
    """The place itself, where that is in the workspace."""
    if place == WORKSPACE or place.startswith(f"{WORKSPACE}/"):
        return place
    raise Failed("outside", "it leads out of /workspace")


@contextlib.contextmanager
def opened(path: str, flags: int = 0) -> Iterator[tuple[int, str, os.stat_result]]:
    """A descriptor, where it is, and what it is; a FIFO without a writer keeps nobody waiting."""
    # To look where it leads takes no right to read, and a device is not woken.
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
def regular(path: str) -> Iterator[tuple[int, int]]:
    """A descriptor of a file, and its size."""
    with opened(path) as (file, _, state):
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        yield file, state.st_size


def kind_of(mode: int) -> str:
    """What a mode says that it is."""
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "other"


def entry_of(found: os.DirEntry[str]) -> Entry:
    """What there is to tell of an entry; a link's own size and time, and what it leads to."""
    state = found.stat(follow_symlinks=False)
    kind, leads_to = kind_of(state.st_mode), None
    if kind == "link":
        with contextlib.suppress(OSError):
            leads_to = kind_of(found.stat().st_mode)
    name = found.name.encode("utf-8", "surrogateescape")
    shown = name.decode("utf-8", "replace")
    if shown.encode() != name:  # no request could name it
        kind, leads_to = "other", None
    return Entry(name=shown, kind=kind, bytes=state.st_size, modified=state.st_mtime, leads_to=leads_to)


def folder(path: str) -> tuple[dict[str, Any], bytes]:
    """What is in a folder: folders first, by name."""
    entries: list[Entry] = []
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
    """Where a file really is, and its size."""
    with opened(path) as (_, place, state):
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        return {"path": place, "bytes": state.st_size}, b""


def new_place(path: str) -> tuple[dict[str, Any], bytes]:
    """Where a file of this path would be made, the links on the way followed; a link at its end, too."""
    above, name = os.path.split(path)
    place = within(os.path.join(os.path.realpath(above), name))
    if os.path.islink(place):
        place = within(os.path.realpath(place))
    if place == WORKSPACE or os.path.isdir(place):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    return {"path": place}, b""


def text(path: str) -> tuple[dict[str, Any], bytes]:
    """The beginning of a text."""
    with regular(path) as (file, size):
        data = os.pread(file, MOST_TEXT + OVERLAP, 0)
    if b"\0" in data:
        raise Failed("not_text", "it holds NUL bytes, so it is no text")
    return {"truncated": size > MOST_TEXT, "more": size > len(data)}, data


def separator(first: str) -> str:
    """What parts the columns of a table, by its first line."""
    return max(",;\t|", key=lambda each: (first.count(each), each == ","))


def table(path: str, offset: int, limit: int) -> tuple[dict[str, Any], bytes]:
    """Rows of a table as CSV has it, the first of which names the columns."""
    csv.field_size_limit(2 * MOST_LINE)
    with regular(path) as (file, _):
        start = os.pread(file, 65_536, 0)
        if b"\0" in start:
            raise Failed("not_text", "it holds NUL bytes, so it is no table in text")
        lines = io.TextIOWrapper(os.fdopen(os.dup(file), "rb"), "utf-8-sig", "replace", newline="")
        with lines:
            first = start.decode("utf-8-sig", "replace").split("\n", 1)[0]
            # A line that does not end would fill the memory.
            rows = csv.reader(iter(lambda: lines.readline(MOST_LINE), ""), delimiter=separator(first))
            try:
                return _rows(rows, offset, limit), b""
            except csv.Error as error:
                raise Failed("not_text", f"it is no table: {error}") from None


def _rows(rows: Iterator[list[str]], offset: int, limit: int) -> dict[str, Any]:
    names = next(rows, [])
    told: list[list[Cell]] = []
    left, count, cut = MOST_CELLS, -1, len(names) > MOST_COLUMNS
    began = time.monotonic()
    total: int | None = None
    for count, row in enumerate(rows):
        if offset <= count < offset + limit and left > 0:
            cut = cut or len(row) > MOST_COLUMNS
            told.append(cells(row))
            left -= sum(len(cell) for cell in row[:MOST_COLUMNS])
        if count >= offset + limit and count % 1_000 == 0 and time.monotonic() - began > COUNT_SECONDS:
            break
    else:
        total = count + 1
    return {"columns": cells(names), "rows": told, "total": total, "cut": cut}


def cells(row: list[str]) -> list[Cell]:
    """The cells of a row; of one that is too long the beginning."""
    return [short(cell) if len(cell) > MOST_CELL else cell for cell in row[:MOST_COLUMNS]]


def short(cell: str) -> Cut:
    """The beginning of a cell, and whether there is more."""
    return Cut(cut=cell[: MOST_CELL + OVERLAP], more=len(cell) > MOST_CELL + OVERLAP)


def page(path: str, number: int) -> tuple[dict[str, Any], bytes]:
    """A page of a PDF file, counted from 1, as a picture."""
    import pypdfium2  # type: ignore[import-not-found]

    with regular(path) as (file, size):
        if size > MOST_PDF:
            raise Failed("too_large", f"PDF files up to {MOST_PDF // 1_000_000} MB are shown")
        with os.fdopen(os.dup(file), "rb") as content:
            data = content.read(MOST_PDF + 1)
    try:
        document = pypdfium2.PdfDocument(data)
        pages = len(document)
        if not 1 <= number <= pages:
            raise Failed("no_page", f"it has {pages} pages, and no page {number}")
        shown = document[number - 1]
        width, height = shown.get_size()
        # A page may say of itself that it is kilometres long.
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
        told, content = ACTIONS[action](**json.loads(arguments))
    except Failed as failed:
        told = {"error": failed.args[0], "detail": failed.args[1]}
    except OSError as error:
        told = {"error": errno.errorcode.get(error.errno or 0, "EIO"), "detail": error.strerror or str(error)}
    except ValueError as error:
        told = {"error": "EINVAL", "detail": str(error)}
    head = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
    with open(answer, "xb") as file:
        file.write(head + b"\n" + content)


if __name__ == "__main__":
    main(*sys.argv[1:4])
