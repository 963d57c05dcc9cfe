"""The soak of tests/soak, for two and a half minutes. By hand it runs for an hour: `make soak`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("SOAK_SECONDS", "150"))

pytestmark = [pytest.mark.docker, pytest.mark.timeout(SECONDS + 240)]


def test_nothing_grows() -> None:
    command = [sys.executable, "-m", "tests.soak", "--seconds", str(SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
