"""The command-line program, in a new folder for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.cli_program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)
