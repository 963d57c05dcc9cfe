"""Reads text with separators as rows of cells, each with the number of its first line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

SEPARATORS = ",;\t|"
_NONE = "\x1f"
_SNIFFED_LINES = 200
csv.field_size_limit(50_000_000)  # a cell may contain a long text

Row = tuple[int, list[Any]]
"""Number of the first line, and the cells."""


class Form(NamedTuple):
    """How a file separates its cells."""

    separator: str | None  # None: each line is one cell
    quoted: bool = True  # False: a quotation mark is never closed, so each line is a row
    says: bool = False  # the first line is sep=; of Excel and no row


def form_of(head: str, *, whole: bool = True) -> Form:
    """Return the form of a text by its beginning; `whole` says that no text follows.

    The separator gives most lines the same number of cells.
    """
    if not whole:
        head = head[: max(head.rfind("\n"), head.rfind("\r")) + 1] or head
    said = head[4:5] if head[:4].lower() == "sep=" else ""
    says = bool(said) and said in SEPARATORS
    mark = said if says else _separator(list(islice(lines_of(head), _SNIFFED_LINES)))
    return Form(mark, _closes(head, mark, whole=whole), says)


def rows_of(lines: Iterable[str], form: Form, unclosed: list[int] | None = None) -> Iterator[Row]:
    """Yield the rows that are not empty; append to `unclosed` the lines with an unclosed quotation mark."""
    mark = form.separator or _NONE
    if form.quoted:
        reader = csv.reader(lines, delimiter=mark, skipinitialspace=True)
        line = 1
        for row in reader:
            if any(map(str.strip, row)) and not (line == 1 and form.says):
                yield line, row
            line = reader.line_num + 1
        return
    for number, text in enumerate(lines, 1):
        closed = '"' not in text or _sound([text], mark)
        if not closed and unclosed is not None:
            unclosed.append(number)
        form_of_line: dict[str, Any] = {} if closed else {"quoting": csv.QUOTE_NONE}
        for row in csv.reader([text], delimiter=mark, skipinitialspace=True, **form_of_line):
            if any(map(str.strip, row)) and not (number == 1 and form.says):
                yield number, row


def lines_of(text: str) -> Iterator[str]:
    """Yield lines with their ends; only CR and LF end a line."""
    # io.StringIO takes four times the memory of the text.
    return (match[0] for match in re.finditer(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text))


def _separator(head: list[str]) -> str | None:
    def score(mark: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(head, delimiter=mark, skipinitialspace=True) if row]
        several = [width for width in widths if width > 1]
        if not several:
            return 0.0, 0
        usual = max(set(several), key=lambda width: (several.count(width), width))
        # Lines above the names are ignored. Commas in a few of the other lines are not separators.
        start = widths.index(usual)
        if start and several.count(usual) < (len(widths) - start) / 2:
            return 0.0, 0
        return several.count(usual) / len(widths), usual

    best = max(SEPARATORS, key=score)
    return best if score(best)[0] > 0 else None


def _closes(head: str, mark: str | None, *, whole: bool) -> bool:
    """Return whether quotation marks are closed; an unclosed one would turn the rest into one cell."""
    if '"' not in head:
        return True
    rows = csv.reader(lines_of(head), delimiter=mark or _NONE, skipinitialspace=True)
    if not any("\n" in cell or "\r" in cell for row in rows for cell in row):
        return True
    return _sound(lines_of(head), mark or _NONE, cut=not whole)


def _sound(lines: Iterable[str], mark: str, *, cut: bool = False) -> bool:
    """Return whether each opening quotation mark is closed before a separator or the end of a line.

    `cut`: more lines follow, so a last row that begins in the second half may be incomplete.
    """
    reader = csv.reader(lines, delimiter=mark, skipinitialspace=True, strict=True)
    complete = 0
    try:
        for _ in reader:
            complete = reader.line_num
    except csv.Error as error:
        return cut and "unexpected end" in str(error) and complete * 2 > reader.line_num
    return True
