"""Reads `.env`: its variables, lines that cannot be read, and names that may be misspelt settings."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import Binding, parse_stream

__all__ = ["near_names", "unreadable_lines", "variables_in"]

_NEAR = 0.83
"""Similarity of a misspelt name, from 0 to 1. OPENAI_KEY is near OPENAI_API_KEY, OPENAI_API_TYPE is not."""
_NEAR_SHORT = 0.8
"""Similarity of a misspelt name of at most six letters, where one error weighs more. MODLE is near MODEL."""


def variables_in(path: Path) -> dict[str, str]:
    """Return the variables with a value; none if the file is missing. Lines that cannot be read are skipped.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    with io.StringIO(_text(path)) as text:
        readable = "".join(line.original.string for line in parse_stream(text) if not line.error)
    found = dotenv_values(stream=io.StringIO(readable))
    return {name: value for name, value in found.items() if value}


def unreadable_lines(path: Path) -> list[int]:
    """Return the numbers of the lines that are neither `NAME=value`, `NAME=` nor a comment.

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    with io.StringIO(_text(path)) as text:
        return [
            _number(line) for line in parse_stream(text) if line.error or (line.key and line.value is None)
        ]


def near_names(names: Iterable[str], settings: Iterable[str]) -> dict[str, str]:
    """Return name -> setting, for each name that is not a setting but similar to one, or its beginning."""
    known = {name.upper() for name in settings}
    unknown = [name for name in names if name.upper() not in known]
    near = {name: _nearest(name.upper(), known) for name in unknown}
    return {name: found for name, found in near.items() if found}


def _nearest(name: str, settings: Collection[str]) -> str | None:
    cutoff = _NEAR_SHORT if len(name) <= 6 else _NEAR
    if found := get_close_matches(name, settings, n=1, cutoff=cutoff):
        return found[0]
    begun = [setting for setting in settings if setting.startswith(f"{name}_")]
    return begun[0] if len(begun) == 1 else None


def _number(line: Binding) -> int:
    """Return the number of a line. To python-dotenv, the blank lines before a line are a part of it."""
    string = line.original.string
    return line.original.line + string[: -len(string.lstrip())].count("\n")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
