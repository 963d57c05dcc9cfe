"""Reads a file of any supported kind as names and columns, without converting values."""

from __future__ import annotations

import difflib
import glob
import gzip
import io
import json
import os
import re
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from tablereader import NotText, Raw, counted, decode, form_of, from_rows, lines_of, rows_of

from skills.tables._lines import from_pdf, from_text
from skills.tables._records import from_objects

_READS = "CSV, TSV and other separated text, JSON, JSON lines, logs (each also as .gz), .pdf and .xlsx"
_SEPARATED = {".csv", ".tsv", ".txt", ".tab", ".psv", ".dat", ""}
_LINES = {".jsonl", ".ndjson"}
_MOST_DIGITS = 4_000
"""Digits of the longest integer that Python reads in JSON. Longer ones stay text."""
MAX_BYTES = 50_000_000
"""Limit for a file, which leaves memory of the sandbox to work with the table."""


def find(path: str | os.PathLike[str]) -> Path:
    """Return the file at `path`, or in /data for a bare name.

    Raises:
        FileNotFoundError: there is no such file; the message lists the folder.
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
    """Return the files of a pattern such as /data/2024-*.csv, in order, or of the same pattern in /data.

    The list is empty if `path` is not a pattern.

    Raises:
        FileNotFoundError: no file matches; the message lists the folder.
    """
    pattern = os.fspath(path)
    if not re.search(r"[*?[]", pattern) or Path(pattern).exists():
        return []
    names = sorted(glob.glob(pattern, recursive=True)) or sorted(glob.glob(os.path.join("/data", pattern)))
    found = [Path(name) for name in names if os.path.isfile(name)]
    if not found:
        folder = Path(re.split(r"[*?[]", pattern)[0] + "x").absolute().parent
        has = f"; {folder} has: {_names(folder)}" if folder.is_dir() else ""
        raise FileNotFoundError(f"no file is called like {pattern}{has}")
    return found


def read_all(files: list[Path], rows: str | None = None) -> Raw:
    """Return the rows of several files as one table, with the column `file`: the name, or the path if two
    files have the same name.

    Raises:
        ValueError: as `read`, or the files together are too large.
    """
    raws, size = [], 0
    for file in files:
        raws.append(read(file, rows))
        size += sum(len(cell) for column in raws[-1].columns for cell in column if isinstance(cell, str))
        if size > MAX_BYTES:
            raise ValueError(
                f"these {len(files)} files have over {MAX_BYTES // 10**6} MB: load them one by one"
            )
    names = [file.name for file in files]
    if len(set(names)) < len(files):
        above = os.path.commonpath([file.parent for file in files])
        names = [os.path.relpath(file, above) for file in files]
    own = list(dict.fromkeys(name for raw in raws for name in raw.names))
    label = next(name for name in ("file", "file_name", "file_") if name not in own)
    columns: dict[str, list[Any]] = {name: [] for name in [*own, label]}
    notes = []
    for file_name, raw in zip(names, raws, strict=True):
        count = len(raw.columns[0]) if raw.columns else 0
        there = dict(zip(raw.names, raw.columns, strict=True)) | {label: [file_name] * count}
        for name, column in columns.items():
            column.extend(there.get(name, [None] * count))
        notes += [f"{file_name}: {note}" for note in raw.notes]
        if lacking := [name for name in own if name not in there]:
            notes.append(f"{file_name}: has no {', '.join(lacking)}")
    return Raw(list(columns), list(columns.values()), notes)


def read(file: Path, rows: str | None = None) -> Raw:
    """Read one file; `rows` as in `from_objects`.

    Raises:
        ValueError: the file is of an unknown kind, damaged or empty.
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
    try:
        text, foreign = decode(content)
    except NotText:
        raise ValueError(f"{file} is not a table that load can read; it reads {_READS}") from None
    notes = [f"letters: {counted(foreign, 'byte')} not in UTF-8, read as Latin"] if foreign else []
    if not text.strip():
        raise ValueError(f"{file} is empty")
    raw = _parse(file, text, suffixes, rows)
    if not raw.names:
        raise ValueError(f"{file} has separators, but no names and no values")
    return raw._replace(notes=notes + raw.notes)


def _names(folder: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    return ", ".join(names[:30]) + (", …" if len(names) > 30 else "") or "nothing"


def _parse(file: Path, text: str, suffixes: list[str], rows: str | None) -> Raw:
    start = text.lstrip()[:1]
    suffix = suffixes[-1]
    # A line of a log may begin with a time in brackets.
    opens_json = start == "{" or (start == "[" and ".log" not in suffixes)
    if suffix in _LINES or suffix == ".json" or (suffix not in _SEPARATED - {"", ".txt"} and opens_json):
        return _json(file, text, rows, lines=suffix in _LINES)
    if rows is not None:
        raise ValueError(f"rows={rows!r} is for JSON files, and {file} is not JSON")
    if start == "<" and suffix not in _SEPARATED:
        raise ValueError(f"{file} is not a table that load can read; it reads {_READS}")
    form = form_of(text)
    if ".log" in suffixes or (form.separator is None and suffix not in _SEPARATED - {"", ".txt"}):
        return from_text(text)
    unclosed: list[int] = []
    raw = from_rows(list(rows_of(lines_of(text), form, unclosed)))
    if not unclosed:
        return raw
    shown = ", ".join(map(str, unclosed[:5])) + (", …" if len(unclosed) > 5 else "")
    note = f"quotation marks: not closed in line {shown}, where they are taken as they stand"
    return raw._replace(notes=[note, *raw.notes])


def _json(file: Path, text: str, rows: str | None, *, lines: bool) -> Raw:
    reason = ""
    twice: dict[str, None] = {}
    decode = _decoder(twice).decode
    records, bad = [], []
    if not lines:
        try:
            return _noted(from_objects(decode(text), str(file), rows), twice)
        except json.JSONDecodeError as error:
            reason = f": {error}"
        except RecursionError:
            raise ValueError(f"{file} is nested too deeply") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append(decode(line))
            except (json.JSONDecodeError, RecursionError):
                bad.append(f"line {number}: {line.strip()[:60]}")
    # Lines of a document, such as `"id": 1,` or `]`, are not records.
    records = [record for record in records if isinstance(record, dict | list)]
    if len(bad) >= max(len(records), 1):
        raise ValueError(f"{file} is not valid JSON{reason or f'; {bad[0]}'}")
    raw = from_objects(records, str(file), rows)
    if bad:
        raw.notes.append(f"left out: {counted(len(bad), 'line')}, no JSON, {'; '.join(bad[:3])}")
    return _noted(raw, twice)


def _decoder(twice: dict[str, None]) -> json.JSONDecoder:
    """Return a reader of JSON. It adds keys that come twice in an object to `twice`."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            twice.update({key: None for key, count in Counter(key for key, _ in pairs).items() if count > 1})
        return made

    def integer(digits: str) -> int | str:
        return int(digits) if len(digits) <= _MOST_DIGITS else digits

    return json.JSONDecoder(object_pairs_hook=once, parse_int=integer)


def _noted(raw: Raw, twice: dict[str, None]) -> Raw:
    if twice:
        raw.notes.append(f"keys: {', '.join(list(twice)[:8])} twice in an object, the last value counts")
    return raw


def _sheet(file: Path, content: bytes) -> Raw:
    import openpyxl

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
