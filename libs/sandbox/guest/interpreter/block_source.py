"""Reads the source of a block as lines (standard library only)."""

from __future__ import annotations

import ast
from io import StringIO


def lines(source: str) -> list[str]:
    """Split a source as Python does. `str.splitlines` also splits at form feeds and Unicode separators."""
    return StringIO(source, newline=None).readlines()


def is_muted(source: str, last: ast.stmt) -> bool:
    """Whether a semicolon follows the last statement. As in a notebook, `plot(x);` prints nothing."""
    line = lines(source)[(last.end_lineno or 1) - 1]
    return line.encode()[last.end_col_offset :].lstrip().startswith(b";")
