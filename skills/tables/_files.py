"""A file as names and columns of what stands in it, whatever it is written in; nothing is converted yet."""

from __future__ import annotations

import codecs
import difflib
import glob
import gzip
import io
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

from skills.tables._cells import counted
from skills.tables._header import Raw, from_rows
from skills.tables._lines import from_pdf, from_text
from skills.tables._records import from_objects
from skills.tables._separated import rows_of, separator

_READS = "CSV, TSV and other separated text, JSON, JSON lines, logs (each also as .gz), .pdf and .xlsx"
_SEPARATED = {".csv", ".tsv", ".txt", ".tab", ".psv", ".dat", ""}
_LINES = {".jsonl", ".ndjson"}
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_BYTES = 50_000_000
"""What fits into the memory of a sandbox, with room to work on it."""


def find(path: str | os.PathLike[str]) -> Path:
    """The file at `path`; a bare name is looked for in /data, too.

    Raises:
        FileNotFoundError: there is none; the message names what the folder has.
    """
    file = Path(path).absolute()
    if not file.exists() and (data := Path("/data") / path).exists():
        file = data
    if file.is_file():
        return file
    if file.is_dir():
        raise FileNotFoundError(f"{file} is a folder; give one of its files: {_names(file)}")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"no such file: {file}; there is no folder {file.parent}")
    near = difflib.get_close_matches(file.name, [entry.name for entry in file.parent.iterdir()], 1)
    meant = f"; did you mean {file.parent / near[0]}?" if near else ""
    raise FileNotFoundError(f"no such file: {file}; {file.parent} has: {_names(file.parent)}{meant}")


def several(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a pattern such as /data/2024-*.csv names, in order; none where it is no pattern. Where
    there are none, they are looked for in /data.

    Raises:
        FileNotFoundError: there is none; the message names what the folder has.
    """
    pattern = os.fspath(path)
    if not any(mark in pattern for mark in "*?[") or Path(pattern).exists():
        return []
    names = sorted(glob.glob(pattern, recursive=True)) or sorted(glob.glob(os.path.join("/data", pattern)))
    found = [Path(name) for name in names if os.path.isfile(name)]
    if not found:
        folder = Path(pattern.partition("*")[0].partition("?")[0].partition("[")[0] + "x").absolute().parent
        has = f"; {folder} has: {_names(folder)}" if folder.is_dir() else ""
        raise FileNotFoundError(f"no file is called like {pattern}{has}")
    return found


def read_all(files: list[Path], rows: str | None = None) -> Raw:
    """What several files hold, one below the other, with the column `file`: its name, and the folder where
    names alone do not tell them apart.

    Raises:
        ValueError: as `read`; or together they are too large.
    """
    raws, size = [], 0
    for file in files:
        raws.append(read(file, rows))
        size += sum(len(cell) for column in raws[-1].columns for cell in column if isinstance(cell, str))
        if size > MAX_BYTES:
            raise ValueError(
                f"these {len(files)} files have over {MAX_BYTES // 10**6} MB: load them one by one"
            )
    own_names = len({file.name for file in files}) == len(files)
    above = "" if own_names else os.path.commonpath([file.parent for file in files])
    own = list(dict.fromkeys(name for raw in raws for name in raw.names))
    label = next(name for name in ("file", "file_name", "file_") if name not in own)
    columns: list[list[Any]] = [[] for _ in own]
    labels: list[Any] = []
    notes = []
    for file, raw in zip(files, raws, strict=True):
        count = len(raw.columns[0]) if raw.columns else 0
        there = dict(zip(raw.names, raw.columns, strict=True))
        for name, column in zip(own, columns, strict=True):
            column.extend(there.get(name, [None] * count))
        labels += [file.name if own_names else os.path.relpath(file, above)] * count
        notes += [f"{file.name}: {note}" for note in raw.notes]
        if lacking := [name for name in own if name not in there]:
            notes.append(f"{file.name}: has no {', '.join(lacking)}")
    return Raw([*own, label], [*columns, labels], notes)


def read(file: Path, rows: str | None = None) -> Raw:
    """What a file holds; `rows` as `from_objects` takes it.

    Raises:
        ValueError: it is of a kind that cannot be read, damaged or empty.
    """
    size = file.stat().st_size
    content = b"" if size > MAX_BYTES else file.read_bytes()
    suffixes = [suffix.lower() for suffix in file.suffixes] or [""]
    if content[:2] == b"\x1f\x8b":
        try:
            with gzip.open(io.BytesIO(content)) as packed:
                content = packed.read(MAX_BYTES + 1)
            size = len(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{file} is damaged: {error}") from error
        suffixes = (suffixes[:-1] if suffixes[-1] == ".gz" else suffixes) or [""]
    if size > MAX_BYTES:
        raise ValueError(
            f"{file} has over {MAX_BYTES // 10**6} MB, too much for load: use the scripts of"
            " /skills/csv-analytics, or pd.read_csv(path, chunksize=100_000)"
        )
    if content[:4] == b"PK\x03\x04" and suffixes[-1] in (".xlsx", ".xlsm"):
        return _sheet(file, content)
    if content[:4] == b"%PDF":
        return from_pdf(content, str(file))
    text, notes = _decode(file, content)
    if not text.strip():
        raise ValueError(f"{file} is empty")
    raw = _parse(file, text, suffixes, rows)
    return raw._replace(notes=notes + raw.notes)


def _names(folder: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    return ", ".join(names[:30]) + (", …" if len(names) > 30 else "") or "nothing"


def _decode(file: Path, content: bytes) -> tuple[str, list[str]]:
    if content.startswith(_UTF_16):
        return content.decode("utf-16", errors="replace"), []
    if b"\0" in content:
        raise ValueError(f"{file} is no table that load can read; it reads {_READS}")
    foreign = 0

    def as_windows(error: UnicodeError) -> tuple[str, int]:
        # cp1252 is what spreadsheets write, and has the euro sign; latin-1 reads any byte.
        nonlocal foreign
        assert isinstance(error, UnicodeDecodeError)
        piece = error.object[error.start : error.end]
        foreign += len(piece)
        try:
            return piece.decode("cp1252"), error.end
        except UnicodeDecodeError:
            return piece.decode("latin-1"), error.end

    codecs.register_error("skills.tables", as_windows)
    text = content.decode("utf-8-sig", errors="skills.tables")
    return text, [f"letters: {counted(foreign, 'byte')} not in UTF-8, read as Latin"] if foreign else []


def _parse(file: Path, text: str, suffixes: list[str], rows: str | None) -> Raw:
    start = text.lstrip()[:1]
    suffix = suffixes[-1]
    if suffix in _LINES or suffix == ".json" or (suffix not in _SEPARATED - {"", ".txt"} and start in "[{"):
        return _json(file, text, rows, lines=suffix in _LINES)
    if rows is not None:
        raise ValueError(f"rows={rows!r} is for JSON files, and {file} is none")
    if start == "<" and suffix not in _SEPARATED:
        raise ValueError(f"{file} is no table that load can read; it reads {_READS}")
    mark = separator(text)
    if ".log" in suffixes or (mark is None and suffix not in _SEPARATED - {"", ".txt"}):
        return from_text(text)
    notes: list[str] = []
    raw = from_rows(rows_of(text, mark, notes))
    return raw._replace(notes=notes + raw.notes)


def _json(file: Path, text: str, rows: str | None, *, lines: bool) -> Raw:
    reason = ""
    if not lines:
        try:
            return from_objects(json.loads(text), str(file), rows)
        except json.JSONDecodeError as error:
            reason = f": {error}"
    records, bad = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                bad.append(f"line {number}: {line.strip()[:60]}")
    # Half a document is no list of objects: its lines are `"id": 1,` or `]`.
    records = [record for record in records if isinstance(record, dict | list)]
    if len(bad) >= max(len(records), 1):
        raise ValueError(f"{file} is no valid JSON{reason or f'; {bad[0]}'}")
    raw = from_objects(records, str(file), rows)
    if bad:
        raw.notes.append(f"left out: {counted(len(bad), 'line')}, no JSON, {'; '.join(bad[:3])}")
    return raw


def _sheet(file: Path, content: bytes) -> Raw:
    try:
        import openpyxl
    except ImportError as error:
        raise ValueError(
            f"{file}: an .xlsx file needs the package openpyxl; save it as CSV instead"
        ) from error
    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    sheet, *others = book.worksheets
    rows = [
        (number, ["" if cell is None else cell for cell in row])
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1)
        if any(cell is not None and str(cell).strip() for cell in row)
    ]
    if not rows:
        raise ValueError(f"the sheet {sheet.title!r} of {file} is empty")
    raw = from_rows(rows)
    if others:
        names = ", ".join(other.title for other in others)
        raw.notes.append(f"sheet: {sheet.title} is read; there are also {names} (pd.read_excel reads those)")
    return raw
