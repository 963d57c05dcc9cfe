"""The program of each test, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)
