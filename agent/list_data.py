"""Print what is in a folder, so that code can be written for it at once: runs in the sandbox.

    python3 -I -c "$PROGRAM" /data

Of each file the size; of a table its rows, and for each column the kind of its values, how they are written,
their range, the commonest, and what is missing; of JSON how it is nested; of any other text its first
lines. `agent.listing` makes one program of this, `list_columns.py` and `list_json.py`.

Standard library only, because it is sent there as it is; pypdf where there are PDF files. At most 40 files
and about 8,000 characters; of each file at most the first 2 MB are read, and no PDF file over 5 MB. Nothing
but regular files is opened; hidden ones are left out.
"""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import sys
import zlib
from pathlib import Path

from agent.list_columns import MAX_COLUMNS, column, plain
from agent.list_json import read_json

MAX_FILES = 40
MAX_CHARS = 8_000
MAX_FILE_CHARS = 2_500
MAX_PATH_CHARS = 250
HEAD_BYTES = 2_000_000
"""Bytes of a file that are read."""
ALIKE = 3
"""Tables with the same columns in one folder that are shown as one: two may be there to be compared."""
MAX_KEYS = 20_000
"""Rows up to which a table is compared with the others."""
MAX_PDF_BYTES = 5_000_000
MAX_PDF_LINES = 8


def table(names: list[str], rows: list[list[str]], *, more: bool) -> list[str]:
    """The lines about a table of texts. `more`: only its beginning was read."""
    repeated = len(rows) - len({tuple(row) for row in rows})
    count = f"{len(rows):,} row{'s' * (len(rows) != 1)}"
    head = f"the first {count}" if more else count
    lines = [head + (f", {repeated:,} of them exact repeats of another" if repeated else "")]
    for index, name in enumerate(names[:MAX_COLUMNS]):
        lines.append(f"- {plain(name)}: {column([row[index] if index < len(row) else '' for row in rows])}")
    if len(names) > MAX_COLUMNS:
        lines.append(f"- and {len(names) - MAX_COLUMNS} more columns")
    return lines


def read_table(text: str) -> tuple[list[str], list[list[str]], str]:
    """The columns' names, the rows, and how they are separated, where that is worth a word."""
    first = text.split("\n", 1)[0]
    separator = max(",;\t|", key=first.count)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
    written = {
        ",": "",
        ";": "separated by semicolons, ",
        "\t": "separated by tabs, ",
        "|": "separated by |, ",
    }
    return (rows[0], rows[1:], written[separator]) if rows else ([], [], "")


def keys(tables: dict[str, tuple[list[str], list[list[str]]]]) -> list[str]:
    """Which columns say what row of another table a row belongs to, going by names and values."""
    found: dict[tuple[str, str], list[str]] = {}
    values = {
        (path, name): [row[index] for row in rows if index < len(row)]
        for path, (names, rows) in tables.items()
        for index, name in enumerate(names[:MAX_COLUMNS])
    }
    different = {place: set(each) for place, each in values.items()}
    unique = [place for place in values if 1 < len(values[place]) == len(different[place])]
    for place, each in values.items():
        for key in unique:
            mine, theirs = place[1].strip().lower(), key[1].strip().lower()
            # A column without a name is in every name. Most of them: rows that belong to none are what people
            # ask for, too.
            if place[0] != key[0] and mine and theirs and (mine in theirs or theirs in mine):
                known = sum(value in different[key] for value in each)
                if known * 2 > len(each) and (place not in unique or place > key):
                    found.setdefault(key, []).append(f"{plain(place[1])} of {plain(Path(place[0]).name)}")
    return [
        f"- {' and '.join(places)}: {plain(name)} of {plain(Path(path).name)}"
        for (path, name), places in found.items()
    ]


def lines_of(text: str) -> list[str]:
    """Lines as other programs have them: a form feed, or a separator of Unicode, ends none."""
    return [line.rstrip("\r\n") for line in io.StringIO(text, newline="")]


def read_text(text: str, *, more: bool) -> list[str]:
    lines = text.splitlines()
    if not lines:
        return []
    shown = [f"  {plain(line, 160)}" for line in lines[:3]]
    return [f"{'more than ' if more else ''}{len(lines):,} lines, beginning with", *shown]


def read_pdf(path: Path) -> list[str]:
    """Pages, and the first lines of text."""
    import logging

    logging.disable()  # what is wrong with a file is not for the listing
    from pypdf import PdfReader  # type: ignore[import-not-found]

    pages = PdfReader(path).pages
    text = next((text for page in pages[:3] if (text := page.extract_text().strip())), "")
    count = f"{len(pages):,} page{'s' * (len(pages) != 1)}"
    shown = [f"  {plain(line, 100)}" for line in text.splitlines() if line.strip()][:MAX_PDF_LINES]
    return [f"{count}, beginning with", *shown] if shown else [f"{count}, without text"]


def content(path: Path, size: int, tables: dict[str, tuple[list[str], list[list[str]]]]) -> list[str]:
    """What is in a file, as lines; none where that cannot be told. A table that was read whole is kept."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    more = size > len(head)
    kind = path.suffix.lower()
    if kind == ".gz":
        packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
        head = packed.decompress(head, HEAD_BYTES)
        # Files that were packed apart may stand in one, one behind the other.
        more = len(head) >= HEAD_BYTES or bool(packed.unused_data.strip(b"\0"))
        kind = Path(path.stem).suffix.lower()
    if head.startswith(b"%PDF"):
        return read_pdf(path) if size <= MAX_PDF_BYTES else []
    if b"\0" in head[:8_000] or head.startswith(b"PK\3\4"):
        return []
    if more:
        head = head[: head.rfind(b"\n") + 1] or head
    try:
        text, encoding = head.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        text, encoding = head.decode("latin-1"), "not UTF-8 (latin-1?), "
    lines: list[str] = []
    try:
        if kind in (".csv", ".tsv"):
            names, rows, written = read_table(text)
            if names:
                lines = table(names, rows, more=more)
                lines[0] = written + lines[0]
            if len(rows) <= MAX_KEYS and not more:
                tables[str(path)] = (names, rows)
        elif kind == ".json" and not more:
            lines = read_json(json.loads(text))
        elif kind in (".jsonl", ".ndjson"):
            lines = read_json([json.loads(line) for line in lines_of(text) if line.strip()])
            lines[0] = f"one JSON object a line{', of the first 2 MB' * more}: " + lines[0]
    except (ValueError, RecursionError, csv.Error, LookupError):
        lines = ["cannot be read as what its name says", *read_text(text, more=more)]
    lines = lines or read_text(text, more=more)
    return [encoding + lines[0], *lines[1:]] if lines else []


def describe(path: Path, tables: dict[str, tuple[list[str], list[list[str]]]]) -> str | None:
    """The lines about a file; None where it is no regular file."""
    try:
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            return None
        said = content(path, state.st_size, tables)
    except ImportError:
        said = []
    except Exception:  # noqa: BLE001 - whatever a broken file makes of its reader
        said = ["cannot be read"]
    head = f"{plain(path, MAX_PATH_CHARS)} ({state.st_size:,} bytes)"
    shown = "\n".join([f"{head}: {said[0]}", *said[1:]] if said else [head])
    return shown if len(shown) <= MAX_FILE_CHARS else shown[:MAX_FILE_CHARS] + "…"


def form(path: str, columns: list[str]) -> tuple[Path, str, tuple[str, ...]]:
    """What tables have in common that are shown as one: folder, ending and columns."""
    return Path(path).parent, Path(path).suffix, tuple(columns)


def main(folder: str) -> None:
    """Print the listing of `folder`, nothing where it is empty or missing."""
    said: dict[Path, str] = {}
    tables: dict[str, tuple[list[str], list[list[str]]]] = {}
    forms: dict[tuple[Path, str, tuple[str, ...]], list[str]] = {}
    room, left_out = MAX_CHARS, 0
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(name for name in files if not name.startswith(".")):
            if len(said) >= MAX_FILES or room <= 0:
                left_out += 1
                continue
            path = Path(parent, name)
            if text := describe(path, tables):
                said[path] = text
                columns = tables.get(str(path), ([], []))[0]
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
    if left_out:
        shown.append(f"and more: ls -R {folder}")
    if belonging := keys(tables)[:MAX_COLUMNS]:
        shown += ["Columns that belong together:", *belonging]
    sys.stdout.buffer.write("\n".join(shown).encode("utf-8", "replace"))


if __name__ == "__main__":
    main(*sys.argv[1:])
