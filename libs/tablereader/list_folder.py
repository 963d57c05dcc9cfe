"""Prints a listing of a folder, so that a model can write code for its files at once. Runs in the sandbox.

    python3 -I -m tablereader.list_folder /data

Each file has its size. A table has its rows and, for each column, kind, form, range, common and missing
values. JSON has its nesting, and other text its first lines.

Standard library only, and pypdf for PDF files. The listing has at most 40 files and about 8,000 characters.
At most 2 MB of a file are read, and no PDF file over 5 MB. Only regular files are opened; hidden files are
left out.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
import sys
import zlib
from pathlib import Path

from .csv_rows import form_of, lines_of, rows_of
from .listed_columns import MAX_COLUMNS, column, plain
from .listed_json import read_json
from .table_header import Raw, from_rows
from .text_decoding import NotText, decode

MAX_FILES = 40
MAX_CHARS = 8_000
MAX_FILE_CHARS = 2_500
MAX_PATH_CHARS = 250
MAX_UNREAD = 3
HEAD_BYTES = 2_000_000
"""Limit of bytes read from a file."""
ALIKE = 3
"""From this number on, tables with the same columns are shown once; two may be meant for a comparison."""
MAX_KEYS = 20_000
"""Limit of rows for a comparison with other tables."""
MAX_PDF_BYTES = 5_000_000
MAX_PDF_LINES = 8
_WRITTEN = {";": "separated by semicolons, ", "\t": "separated by tabs, ", "|": "separated by |, "}
_NAMELESS = re.compile(r"column_\d+")
"""Names that the reader gives to columns without one."""


def table(text: str, *, more: bool) -> tuple[Raw, list[str]]:
    """Return a table and its lines of the listing; `more` says that only the beginning was read."""
    form = form_of(text, whole=not more)
    raw = from_rows(list(rows_of(lines_of(text), form)))
    count, different = (
        (len(raw.columns[0]), len(set(zip(*raw.columns, strict=True)))) if raw.columns else (0, 0)
    )
    said = f"{count:,} row{'s' * (count != 1)}"
    repeated = f", {count - different:,} of them exact repeats of another" if different < count else ""
    lines = [f"{_WRITTEN.get(form.separator or '', '')}{'the first ' * more}{said}{repeated}"]
    lines += [f"- ({plain(note, 160)})" for note in raw.notes]
    for name, values in list(zip(raw.names, raw.columns, strict=True))[:MAX_COLUMNS]:
        lines.append(f"- {plain(name)}: {column(values)}")
    if len(raw.names) > MAX_COLUMNS:
        lines.append(f"- and {len(raw.names) - MAX_COLUMNS} more columns")
    return raw, lines


def keys(tables: dict[str, Raw]) -> list[str]:
    """Return lines on columns that refer to a key of another table, by names and values."""
    found: dict[tuple[str, str], list[str]] = {}
    values = {
        (path, name): column
        for path, raw in tables.items()
        for name, column in list(zip(raw.names, raw.columns, strict=True))[:MAX_COLUMNS]
        if not _NAMELESS.fullmatch(name)
    }
    different = {place: set(each) for place, each in values.items()}
    unique = [place for place in values if 1 < len(values[place]) == len(different[place])]
    for place, each in values.items():
        for key in unique:
            mine, theirs = place[1].strip().lower(), key[1].strip().lower()
            # Half of the values is enough: people ask for rows without a partner too.
            if place[0] != key[0] and (mine in theirs or theirs in mine):
                known = sum(value in different[key] for value in each)
                if known * 2 > len(each) and (place not in unique or place > key):
                    found.setdefault(key, []).append(f"{plain(place[1])} of {plain(Path(place[0]).name)}")
    return [
        f"- {' and '.join(places)}: {plain(name)} of {plain(Path(path).name)}"
        for (path, name), places in found.items()
    ]


def read_text(text: str, *, more: bool) -> list[str]:
    lines = text.splitlines()
    if not lines:
        return []
    shown = [f"  {plain(line, 160)}" for line in lines[:3]]
    return [f"{'more than ' if more else ''}{len(lines):,} lines, beginning with", *shown]


def read_pdf(path: Path) -> list[str]:
    """Return the number of pages and the first lines of text."""
    import logging

    logging.disable()  # warnings of pypdf do not belong into the listing
    from pypdf import PdfReader  # type: ignore[import-not-found]

    pages = PdfReader(path).pages
    text = next((text for page in pages[:3] if (text := page.extract_text().strip())), "")
    count = f"{len(pages):,} page{'s' * (len(pages) != 1)}"
    shown = [f"  {plain(line, 100)}" for line in text.splitlines() if line.strip()][:MAX_PDF_LINES]
    return [f"{count}, beginning with", *shown] if shown else [f"{count}, without text"]


def content(path: Path, size: int, tables: dict[str, Raw]) -> list[str]:
    """Return lines on the content of a file, none for unknown kinds; keep a complete table in `tables`."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    more = size > len(head)
    ended = True
    kind = path.suffix.lower()
    if kind == ".gz":
        packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
        head = packed.decompress(head, HEAD_BYTES)
        # A .gz file may contain several packed files in a row.
        more = (more and not packed.eof) or len(head) >= HEAD_BYTES or bool(packed.unused_data.strip(b"\0"))
        ended = more or packed.eof
        kind = Path(path.stem).suffix.lower()
    if head.startswith(b"%PDF"):
        return read_pdf(path) if size <= MAX_PDF_BYTES else []
    if head.startswith(b"PK\3\4"):
        return []
    if more:
        head = head[: head.rfind(b"\n") + 1] or head
    try:
        text, foreign = decode(head)
    except NotText:
        return []
    lines: list[str] = []
    try:
        if kind in (".csv", ".tsv"):
            raw, lines = table(text, more=more) if text.strip() else (Raw([], [], []), [])
            if raw.names and len(raw.columns[0]) <= MAX_KEYS and not more:
                tables[str(path)] = raw
        elif kind == ".json" and not more:
            lines = read_json(json.loads(text))
        elif kind in (".jsonl", ".ndjson"):
            lines = read_json([json.loads(line) for line in lines_of(text) if line.strip()])
            lines[0] = f"one JSON object a line{', of the first 2 MB' * more}: " + lines[0]
    except (ValueError, RecursionError, csv.Error, LookupError):
        lines = ["cannot be read as what its name says", *read_text(text, more=more)]
    lines = lines or read_text(text, more=more)
    cut = "" if ended else "the packed file is cut, what is left: "
    encoding = "not UTF-8 (latin-1?), " if foreign else ""
    return [cut + encoding + lines[0], *lines[1:]] if lines else []


def named(path: Path | str) -> str:
    """Return a path as text. Paths that differ only in bytes that are not UTF-8 stay different."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def describe(path: Path, tables: dict[str, Raw]) -> str | None:
    """Return the lines on a file, or None if the path is not a regular file."""
    head = plain(named(path), MAX_PATH_CHARS)
    try:
        state = path.lstat()
    except FileNotFoundError:  # removed meanwhile
        return None
    except OSError:  # such as in a folder that may be read and not entered
        return f"{head}: cannot be read"
    if not stat.S_ISREG(state.st_mode):
        return None
    try:
        said = content(path, state.st_size, tables)
    except ImportError:
        said = []
    except Exception:  # noqa: BLE001 - a broken file can cause any error
        said = ["cannot be read"]
    head += f" ({state.st_size:,} bytes)"
    shown = "\n".join([f"{head}: {said[0]}", *said[1:]] if said else [head])
    return shown if len(shown) <= MAX_FILE_CHARS else shown[:MAX_FILE_CHARS] + "…"


def form(path: str, columns: list[str]) -> tuple[Path, str, tuple[str, ...]]:
    """Return folder, ending and columns: tables with equal results are shown once."""
    return Path(path).parent, Path(path).suffix, tuple(columns)


def main(folder: str) -> None:
    """Print the listing of `folder`; nothing for an empty or missing folder."""
    said: dict[Path, str] = {}
    tables: dict[str, Raw] = {}
    forms: dict[tuple[Path, str, tuple[str, ...]], list[str]] = {}
    room, left_out = MAX_CHARS, 0
    unread: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=unread.append):
        folders.sort()
        for name in sorted(name for name in files if not name.startswith(".")):
            if len(said) >= MAX_FILES or room <= 0:
                left_out += 1
                continue
            path = Path(parent, name)
            if text := describe(path, tables):
                said[path] = text
                columns = tables[str(path)].names if str(path) in tables else []
                alike = forms.setdefault(form(str(path), columns), []) if columns else []
                room -= len(text.partition("\n")[0] if alike else text)
                alike.append(str(path))
        if left_out > MAX_FILES:
            break
    for first, *others in forms.values():
        for other in others if len(others) + 1 >= ALIKE else ():
            head = said[Path(other)].splitlines()[0]
            said[Path(other)] = f"{head}, columns as in {plain(Path(first).name)}"
            del tables[other]
    shown = list(said.values())
    unread = [error for error in unread if not isinstance(error, FileNotFoundError)]
    for error in unread[:MAX_UNREAD]:
        shown.append(f"{plain(named(error.filename), MAX_PATH_CHARS)}/: this folder cannot be read")
    if len(unread) > MAX_UNREAD:
        shown.append(f"{len(unread) - MAX_UNREAD} more folders cannot be read")
    if left_out:
        shown.append(f"and more: ls -R {folder}")
    if belonging := keys(tables)[:MAX_COLUMNS]:
        shown += ["Columns that belong together:", *belonging]
    sys.stdout.buffer.write("\n".join(shown).encode("utf-8", "replace"))


if __name__ == "__main__":
    main(*sys.argv[1:])
