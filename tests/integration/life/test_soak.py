"""Runs tests/soak for a minute. `make soak` runs it for an hour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))

pytestmark = [pytest.mark.docker, pytest.mark.thorough, pytest.mark.timeout(SECONDS + 240)]


def test_nothing_grows() -> None:
    command = [sys.executable, "-m", "tests.soak", "--seconds", str(SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
