"""How every script of this skill speaks: a PDF in, JSON on stdout, errors on stderr with exit 1."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pdfplumber.utils.exceptions import MalformedPDFException, PdfminerException
from pypdf import PasswordType, PdfReader
from pypdf.errors import PyPdfError

MAX_WARNINGS = 5


class CommandError(Exception):
    """Something the caller can mend; its text goes to stderr."""


class Parser(argparse.ArgumentParser):
    """An argument parser with exit status 1 for wrong usage and the options every script has."""

    def __init__(self, description: str) -> None:
        super().__init__(description=description, allow_abbrev=False)
        self.add_argument("file", help="PDF file")
        self.add_argument("--password", help="user or owner password of an encrypted file")

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"{self.format_usage()}error: {message}\n")


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def open_pdf(file: str, password: str | None) -> PdfReader:
    """The PDF, decrypted where it is encrypted.

    Raises:
        CommandError: no such file, not a PDF, or the password is missing or wrong.
    """
    path = Path(file)
    if not path.exists():
        raise CommandError(f"no such file: {file}")
    if not path.is_file():
        raise CommandError(f"not a file: {file}")
    with path.open("rb") as content:
        start = content.read(1024)
    if not start:
        raise CommandError(f"{file} is empty")
    if b"%PDF-" not in start:
        raise CommandError(f"{file} is not a PDF: it begins with {start[:20]!r}")
    reader = PdfReader(path)
    if reader.is_encrypted and reader.decrypt(password or "") == PasswordType.NOT_DECRYPTED:
        reason = "the password is wrong" if password else "give its password with --password"
        raise CommandError(f"{file} is encrypted: {reason}")
    return reader


def page_numbers(wanted: str | None, count: int) -> list[int]:
    """The pages of a text such as `1-3,7,10-`, in its order; all of them for None.

    Raises:
        CommandError: it names no pages, or some that the file does not have.
    """
    if wanted is None:
        return list(range(1, count + 1))
    numbers: list[int] = []
    for part in wanted.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or not (last.isdecimal() or not last):
            raise CommandError(f"--pages takes numbers and ranges such as 1-3,7,10-, not {wanted!r}")
        start, end = int(first), int(last or (count if dash else first))
        if not 1 <= start <= count or (last and not start <= end <= count):
            raise CommandError(f"no page {part.strip()}; the file has {count}")
        numbers += range(start, end + 1)
    return list(dict.fromkeys(numbers))


def run(main: Callable[[], dict[str, Any]]) -> NoReturn:
    """Print what `main` returns as JSON and exit 0, or its error on stderr and exit 1.

    What the PDF libraries complain of goes into `warnings`: between two lines of JSON nobody could read it.
    """
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        result = main()
    except (CommandError, OSError) as error:
        sys.exit(f"error: {error}")
    except (PyPdfError, MalformedPDFException, PdfminerException) as error:
        sys.exit(f"error: the PDF is damaged: {error}")
    warnings = list(dict.fromkeys(said))
    if warnings:
        result["warnings"] = warnings[:MAX_WARNINGS]
    print(to_json(result))
    sys.exit(0)


def to_json(result: dict[str, Any]) -> str:
    """Valid JSON, one key a line and one list item a line."""
    return "{\n" + ",\n".join(f"{_dump(key)}: {_block(value)}" for key, value in result.items()) + "\n}"


def _block(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(_dump(item) for item in value) + "\n]"
    return _dump(value)


def _dump(value: Any) -> str:
    # Text of a PDF may hold halves of surrogate pairs, which no UTF-8 can.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace").decode()
