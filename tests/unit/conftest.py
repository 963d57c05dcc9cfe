"""Fixtures for several folders: a database, `skills.tables` without pandas, and an index for pip."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from libs.gateway.package_environment import PIP_HOST
from libs.persistence.thread_database import SqliteDatabase
from tests.servers.package_servers import (
    CONTENT,
    NAME,
    PAGE,
    Proxied,
    Server,
    StartProxy,
    html_page,
    pip_service,
    served,
    through,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    made = SqliteDatabase(tmp_path / "threads.sqlite")
    yield made
    made.close()


@pytest.fixture(scope="module")
def tables() -> Any:
    """Import a module of `skills.tables` that needs no pandas."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (ROOT, ROOT / "libs"):  # the image has `tablereader` beside `skills`
            patch.syspath_prepend(str(folder))
        yield lambda name: importlib.import_module(f"skills.tables.{name}")


class Read(NamedTuple):
    """A file after reading: columns, their kinds, and the printed lines."""

    columns: dict[str, list[Any]]
    kinds: dict[str, str]
    lines: list[str]


@pytest.fixture
def read(tables: Any, tmp_path: Path) -> Callable[..., Read]:
    """Write a file and read it, without making a DataFrame."""

    def read(content: str | bytes, name: str = "case.csv", rows: str | None = None) -> Read:
        file = tmp_path / name
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        raw = tables("_files").read(file, rows)
        reader = importlib.import_module("tablereader")
        columns = [reader.examine(name, cells) for name, cells in zip(raw.names, raw.columns, strict=True)]
        reader.convert(columns)
        return Read(
            {column.name: list(column.rows()) for column in columns},
            {column.name: column.kind for column in columns},
            [*raw.notes, *tables("_summary").summary(columns, len(columns[0].places), 0)],
        )

    return read


@pytest.fixture
def index() -> Iterator[Server]:
    """A package index on loopback with one package."""
    with served() as server:
        server.add(PAGE, html_page({NAME: CONTENT}, before="/files/"))
        server.add(f"/files/{NAME}", CONTENT)
        yield server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartProxy]:
    """Start a proxy whose virtual host for pip serves the given indexes."""
    with ExitStack() as stack:

        def begin(*indexes: Any, **options: Any) -> Proxied:
            services = {PIP_HOST: pip_service(*indexes, **options)}
            return stack.enter_context(through(services, tmp_path / "log"))

        yield begin
