"""Text without columns, as in logs and PDF files: a row for each line, a column for each word."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable

from tablereader import Raw

MAX_WORDS = 30
_PAIR = re.compile(r"""(?<![^\s,;\[({])([A-Za-z_][\w.-]*)=(?!=)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;"']*)""")
"""key=value as in logfmt; a value with spaces is quoted."""
_USUAL = 0.1
"""Share of the lines that must have a key before the key becomes a column."""


def from_lines(lines: Iterable[str], beside: dict[str, list[object]] | None = None) -> Raw:
    """Return columns c0, c1, … with the words of each line without punctuation, and `line` with the text.

    A key of pairs such as user=ann becomes a column if a tenth of the lines have the key. `beside` are
    columns to put in front, with a value for each line.
    """
    lines = list(lines)
    pairs = _pairs(lines)
    rest = [_PAIR.sub(lambda found: "" if found[1] in pairs else found[0], line) for line in lines]
    rows = [[bare(word) for word in line.split(None, MAX_WORDS)[:MAX_WORDS]] for line in rest]
    width = max(map(len, rows), default=0)
    columns: list[list[object]] = [
        [row[index] if index < len(row) else "" for row in rows] for index in range(width)
    ]
    before = beside or {}
    names = [*before, *(f"c{index}" for index in range(width)), *pairs, "line"]
    return Raw(names, [*before.values(), *columns, *pairs.values(), [*lines]], [])


def _pairs(lines: list[str]) -> dict[str, list[object]]:
    """Return the values of each usual key, one for each line, "" for a line without the key."""
    found = [dict(_PAIR.findall(line)) for line in lines]
    counts = Counter(key for pairs in found for key in pairs)
    return {
        key: [pairs.get(key, "").strip("\"'") for pairs in found]
        for key, count in counts.items()
        if count >= max(2, _USUAL * len(lines)) and key != "line" and not re.fullmatch(r"c\d+|page", key)
    }


def from_text(text: str) -> Raw:
    """Return the lines that are not empty, as `from_lines`."""
    return from_lines(line for line in text.splitlines() if line.strip())


def from_pdf(content: bytes, where: str) -> Raw:
    """Return the lines of a PDF file, as `from_lines`, with the column `page` from 1.

    Raises:
        ValueError: the file is damaged, encrypted or without text.
    """
    import pypdf

    try:
        pages = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content)).pages]
    except Exception as error:  # pypdf raises many types for broken files
        raise ValueError(f"{where} cannot be read as a PDF file: {error}") from error
    found = [(page, line) for page, text in enumerate(pages, 1) for line in text.splitlines() if line.strip()]
    if not found:
        raise ValueError(f"{where} has no text: {len(pages)} pages of pictures, or nothing")
    return from_lines([line for _, line in found], {"page": [page for page, _ in found]})


def bare(word: str) -> str:
    """Return a word without quotation marks, commas, a final colon, and unpaired brackets."""
    word = word.strip("\"',;").rstrip(":")
    for opening, closing in ("[]", "()"):
        if word.startswith(opening) and closing not in word:
            word = word[1:]
        elif word.endswith(closing) and opening not in word:
            word = word[:-1]
    return word
