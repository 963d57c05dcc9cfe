"""`skills.tables` without pandas, which the sandbox has: its modules, files up to clean columns."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tables() -> Any:
    """The module that `name` says, of those that need no pandas."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield lambda name: importlib.import_module(f"skills.tables.{name}")


class Read(NamedTuple):
    """A file as it is read: columns with a value a row, their kinds, and what is said."""

    columns: dict[str, list[Any]]
    kinds: dict[str, str]
    lines: list[str]


@pytest.fixture
def read(tables: Any, tmp_path: Path) -> Callable[..., Read]:
    """Write a file and read it, all but the making of a DataFrame."""

    def read(content: str | bytes, name: str = "case.csv", rows: str | None = None) -> Read:
        file = tmp_path / name
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        raw = tables("_files").read(file, rows)
        columns = [
            tables("_columns").examine(name, cells)
            for name, cells in zip(raw.names, raw.columns, strict=True)
        ]
        tables("_convert").convert(columns)
        return Read(
            {column.name: list(column.rows()) for column in columns},
            {column.name: column.kind for column in columns},
            [*raw.notes, *tables("_summary").summary(columns, len(columns[0].places), 0)],
        )

    return read
