"""Start Python programs as separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

__all__ = ["ROOT", "finished", "python"]

ROOT = Path(__file__).parents[2]


def python(script: str, **variables: str) -> subprocess.Popen[str]:
    """Start a program whose input and output are pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(script: str, seconds: float = 60, **variables: str) -> str:
    """Run a program to its end and return its output."""
    with python(script, **variables) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
    assert process.returncode == 0, err
    return out
