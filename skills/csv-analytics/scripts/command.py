"""How every script of this skill speaks: options in, JSON on stdout, errors on stderr with exit 1."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pandas as pd


class CommandError(Exception):
    """Something the caller can mend; its text goes to stderr."""


class Parser(argparse.ArgumentParser):
    """An argument parser with exit status 1 for wrong usage and the options every script has."""

    def __init__(self, description: str) -> None:
        super().__init__(description=description, allow_abbrev=False)
        self.add_argument("file", help="CSV file; delimiter (, ; tab |) and encoding are detected")
        self.add_argument(
            "--strip", default="", metavar="CHARS", help="remove these from numbers, e.g. --strip '$,'"
        )
        self.add_argument("--decimal", default=".", help="decimal mark of numbers (default .)")
        self.add_argument(
            "--where",
            action="append",
            default=[],
            metavar="COLUMN=VALUE",
            help="only rows whose COLUMN is exactly VALUE; may be repeated",
        )

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"{self.format_usage()}error: {message}\n")


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def names(text: str) -> list[str]:
    """An argparse type: column names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def run(main: Callable[[], dict[str, Any]]) -> NoReturn:
    """Print what `main` returns as JSON and exit 0, or its error on stderr and exit 1."""
    try:
        result = main()
    except (CommandError, OSError, pd.errors.ParserError, UnicodeError) as error:
        sys.exit(f"error: {error}")
    print(to_json(result))
    sys.exit(0)


def to_json(result: dict[str, Any]) -> str:
    """Valid JSON, one key a line and one list item a line; what is no number or time is null."""
    return "{\n" + ",\n".join(f"{_dump(key)}: {_block(value)}" for key, value in result.items()) + "\n}"


def _block(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(_dump(item) for item in value) + "\n]"
    if isinstance(value, dict) and value:
        return "{\n  " + ",\n  ".join(f"{_dump(str(k))}: {_dump(v)}" for k, v in value.items()) + "\n}"
    return _dump(value)


def _dump(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, float):
        # 12 digits: enough for any figure, and 0.1 + 0.2 is not shown as 0.30000000000000004.
        return float(f"{value:.12g}") if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return None if pd.isna(value) else str(value)
