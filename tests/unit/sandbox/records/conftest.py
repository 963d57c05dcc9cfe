"""A command log in a new file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.sandbox.host.records.command_log import CommandRecords


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".code-agent" / "commands.sqlite"


@pytest.fixture
def records(path: Path) -> Iterator[CommandRecords]:
    records = CommandRecords(path)
    yield records
    records.close()
