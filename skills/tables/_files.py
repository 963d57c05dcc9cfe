"""A file as names and columns of what stands in it, whatever it is written in; nothing is converted yet."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import json
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from skills.tables._cells import clean
from skills.tables._header import Raw, from_rows
from skills.tables._records import from_objects

csv.field_size_limit(2**31 - 1)  # a cell may hold a whole text
_READS = "CSV, TSV and other separated text, JSON, JSON lines (each also as .gz), and .xlsx"
_SEPARATORS = ",;\t|"
_SNIFFED_LINES = 200
_SEPARATED = {".csv", ".tsv", ".txt", ".tab", ".psv", ".dat", ""}
_LINES = {".jsonl", ".ndjson"}
_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


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


def read(file: Path) -> Raw:
    """What a file holds.

    Raises:
        ValueError: it is of a kind that cannot be read, damaged or empty.
    """
    content = file.read_bytes()
    suffixes = [suffix.lower() for suffix in file.suffixes] or [""]
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{file} is damaged: {error}") from error
        suffixes = (suffixes[:-1] if suffixes[-1] == ".gz" else suffixes) or [""]
    if content[:4] == b"PK\x03\x04" and suffixes[-1] in (".xlsx", ".xlsm"):
        return _sheet(file, content)
    text, notes = _decode(file, content)
    if not text.strip():
        raise ValueError(f"{file} is empty")
    raw = _parse(file, text, suffixes[-1])
    return raw._replace(notes=notes + raw.notes)


def _names(folder: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    return ", ".join(names[:30]) + (", …" if len(names) > 30 else "") or "nothing"


def _decode(file: Path, content: bytes) -> tuple[str, list[str]]:
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace"), []
    if b"\0" in content:
        raise ValueError(f"{file} is no table that load can read; it reads {_READS}")
    # cp1252 is what spreadsheets write, and has the euro sign; latin-1 reads any byte.
    for encoding in ("utf-8", "cp1252"):
        try:
            return content.decode(encoding), [] if encoding == "utf-8" else [
                "letters: not UTF-8, read as Latin"
            ]
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1"), ["letters: not UTF-8, read as Latin"]


def _parse(file: Path, text: str, suffix: str) -> Raw:
    start = text.lstrip()[:1]
    if suffix in _LINES or suffix == ".json" or (suffix not in _SEPARATED - {"", ".txt"} and start in "[{"):
        return _json(file, text, lines=suffix in _LINES)
    separator = _separator(text)
    if suffix not in _SEPARATED and (separator is None or start == "<"):
        raise ValueError(f"{file} is no table that load can read; it reads {_READS}")
    first, _, rest = text.partition("\n")
    if first.strip().lower() in {f"sep={mark}" for mark in _SEPARATORS}:  # Excel's own hint
        text, separator = rest, first.strip()[4:]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator or ",", skipinitialspace=True)
    rows: list[tuple[int, list[Any]]] = []
    line = 1
    for row in reader:
        if any(clean(cell) for cell in row):
            rows.append((line, row))
        line = reader.line_num + 1
    return from_rows(rows)


def _separator(text: str) -> str | None:
    """The separator by which most lines have the same number of fields; None where there is one column."""
    head = [line for _, line in zip(range(_SNIFFED_LINES), io.StringIO(text, newline=""), strict=False)]

    def score(separator: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(head, delimiter=separator, skipinitialspace=True) if row]
        several = [width for width in widths if width > 1]
        if not several:
            return 0.0, 0
        usual = max(set(several), key=lambda width: (several.count(width), width))
        return several.count(usual) / len(widths), usual

    best = max(_SEPARATORS, key=score)
    return best if score(best)[0] > 0 else None


class _Bad(NamedTuple):
    line: int
    text: str


def _json(file: Path, text: str, *, lines: bool) -> Raw:
    if not lines:
        try:
            return from_objects(json.loads(text), str(file))
        except json.JSONDecodeError as error:
            if "\n" not in text.strip():
                raise ValueError(f"{file} is no valid JSON: {error}") from error
            whole = error
    records, bad = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                bad.append(_Bad(number, line.strip()))
    if len(bad) >= max(len(records), 1):
        reason = f": {whole}" if not lines else f"; line {bad[0].line} is {bad[0].text[:60]}"
        raise ValueError(f"{file} is no valid JSON{reason}")
    raw = from_objects(records, str(file))
    if bad:
        shown = "; ".join(f"line {one.line}: {one.text[:60]}" for one in bad[:3])
        raw.notes.append(f"left out: {len(bad)} lines that are no JSON, {shown}")
    return raw


def _sheet(file: Path, content: bytes) -> Raw:
    try:
        import openpyxl
    except ImportError as error:
        raise ValueError(
            f"{file}: an .xlsx file needs the package openpyxl; save it as CSV instead"
        ) from error
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
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
