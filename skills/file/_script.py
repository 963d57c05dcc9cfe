"""Shared by the scripts of skills: options, JSON on stdout, errors on stderr with exit 1."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["CommandError", "Parser", "positive", "run"]


class CommandError(Exception):
    """An error that the caller can correct; its text goes to stderr."""


class Parser(argparse.ArgumentParser):
    """An argument parser with exit status 1 for wrong usage."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"{self.format_usage()}error: {message}\n")


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def run(main: Callable[[], dict[str, Any]]) -> NoReturn:
    """Print what `main` returns as JSON and exit 0, or its error on stderr and exit 1.

    Each key and each item of a list or an object in it has a line. Missing numbers and times are null.
    """
    try:
        result = main()
    except (CommandError, OSError, UnicodeError) as error:
        sys.exit(f"error: {error}")
    print("{\n" + ",\n".join(f"{_dump(key)}: {_block(value)}" for key, value in result.items()) + "\n}")
    sys.exit(0)


def _block(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(map(_dump, value)) + "\n]"
    if isinstance(value, dict) and value:
        lines = (f"{_dump(str(key))}: {_dump(item)}" for key, item in value.items())
        return "{\n  " + ",\n  ".join(lines) + "\n}"
    return _dump(value)


def _dump(value: Any) -> str:
    # Text may contain halves of surrogate pairs, which UTF-8 cannot encode.
    return json.dumps(_plain(value), ensure_ascii=False).encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, float):
        # 12 digits, so that 0.1 + 0.2 is shown as 0.3.
        return float(f"{value:.12g}") if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    return str(value) if value == value else None  # noqa: PLR0124 - a missing time differs from itself
