"""Shared by all scripts of this skill: opens a PDF, reads page numbers, and reports damaged files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pdfplumber.utils.exceptions import MalformedPDFException, PdfminerException
from pypdf import PasswordType, PdfReader
from pypdf.errors import PyPdfError

from skills.file import _script as script
from skills.file._script import CommandError

MAX_WARNINGS = 5


class Parser(script.Parser):
    """An argument parser with the options every script has."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description)
        self.add_argument("file", help="PDF file")
        self.add_argument("--password", help="user or owner password of an encrypted file")


def open_pdf(file: str, password: str | None) -> PdfReader:
    """Open the PDF, and decrypt an encrypted one.

    Raises:
        OSError: the file cannot be read.
        CommandError: the file is not a PDF, or the password is missing or wrong.
    """
    with Path(file).open("rb") as content:
        start = content.read(1024)
    if b"%PDF-" not in start:
        raise CommandError(f"{file} is not a PDF: it begins with {start[:20]!r}")
    reader = PdfReader(file)
    if reader.is_encrypted and reader.decrypt(password or "") == PasswordType.NOT_DECRYPTED:
        reason = "the password is wrong" if password else "give its password with --password"
        raise CommandError(f"{file} is encrypted: {reason}")
    return reader


def page_numbers(wanted: str | None, count: int) -> list[int]:
    """Return the pages of a text such as `1-3,7,10-`, in its order; all pages for None.

    Raises:
        CommandError: the text is malformed, or a page does not exist.
    """
    if wanted is None:
        return list(range(1, count + 1))
    numbers: list[int] = []
    for part in wanted.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or not (last.isdecimal() or not last):
            raise CommandError(f"--pages takes numbers and ranges such as 1-3,7,10-, not {wanted!r}")
        start, end = int(first), int(last or (count if dash else first))
        if not 1 <= start <= end <= count:
            raise CommandError(f"no page {part.strip()}; the file has {count}")
        numbers += range(start, end + 1)
    return list(dict.fromkeys(numbers))


def run(main: Callable[[], dict[str, Any]]) -> NoReturn:
    """Run a script; warnings of the PDF libraries go into the key `warnings`."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)

    def whole() -> dict[str, Any]:
        try:
            result = main()
        except (PyPdfError, MalformedPDFException, PdfminerException) as error:
            raise CommandError(f"the PDF is damaged: {error}") from error
        warnings = list(dict.fromkeys(said))[:MAX_WARNINGS]
        return result | {"warnings": warnings} if warnings else result

    script.run(whole)
