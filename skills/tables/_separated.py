"""Text with separators as rows of cells, each with the number of its first line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import islice

SEPARATORS = ",;\t|"
_NONE = "\x1f"
_SNIFFED_LINES = 200
csv.field_size_limit(2**31 - 1)  # a cell may hold a whole text


def separator(text: str) -> str | None:
    """The separator by which most lines have the same number of cells; None where each line is one cell."""
    head = list(islice(_lines(text), _SNIFFED_LINES))

    def score(mark: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(head, delimiter=mark, skipinitialspace=True) if row]
        several = [width for width in widths if width > 1]
        if not several:
            return 0.0, 0
        usual = max(set(several), key=lambda width: (several.count(width), width))
        # Above the names may stand anything. A comma here and there in the lines below them is none of these.
        start = widths.index(usual)
        if start and several.count(usual) < (len(widths) - start) / 2:
            return 0.0, 0
        return several.count(usual) / len(widths), usual

    best = max(SEPARATORS, key=score)
    return best if score(best)[0] > 0 else None


def rows_of(text: str, mark: str | None, notes: list[str]) -> list[tuple[int, list[str]]]:
    """The rows that are not empty.

    A quotation mark that is never closed would make one cell of all that follows: then each line is a row.
    """
    hint = text[4:5] if text[:4].lower() == "sep=" else ""  # Excel's own, in a line before the names
    mark = hint if hint and hint in SEPARATORS else mark
    rows: list[tuple[int, list[str]]] = []
    line = 1
    reader = csv.reader(_lines(text), delimiter=mark or _NONE, skipinitialspace=True)
    for row in reader:
        if any(map(str.strip, row)) and not (line == 1 and hint):
            rows.append((line, row))
        line = reader.line_num + 1
    several_lines = any("\n" in cell or "\r" in cell for _, row in rows for cell in row)
    return _line_by_line(text, mark, notes) if several_lines and not _sound(text, mark) else rows


def _lines(text: str) -> Iterator[str]:
    # Not io.StringIO, which takes four times the memory of the text.
    return (match[0] for match in re.finditer(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text))


def _sound(text: str, mark: str | None) -> bool:
    """Whether each quotation mark that opens a cell is closed, before a separator or the end of a line."""
    try:
        for _ in csv.reader(_lines(text), delimiter=mark or _NONE, skipinitialspace=True, strict=True):
            pass
    except csv.Error:
        return False
    return True


def _line_by_line(text: str, mark: str | None, notes: list[str]) -> list[tuple[int, list[str]]]:
    rows, unclosed = [], []
    for number, line in enumerate(_lines(text), 1):
        quoting = csv.QUOTE_MINIMAL
        if not _sound(line, mark):
            unclosed.append(str(number))
            quoting = csv.QUOTE_NONE
        for row in csv.reader([line], delimiter=mark or _NONE, skipinitialspace=True, quoting=quoting):
            if any(map(str.strip, row)):
                rows.append((number, row))
    shown = ", ".join(unclosed[:5]) + (", …" if len(unclosed) > 5 else "")
    notes.append(f"quotation marks: not closed in line {shown}, where they are taken as they stand")
    return rows
