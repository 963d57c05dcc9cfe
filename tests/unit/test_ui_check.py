"""`make ui-check`, on machines with and without a Node.js that can build the page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("ci", "offered", "installs"),
    [
        ("", "20.19.2-1", False),
        ("true", "18.20.4-1", False),
        ("true", "20.19.2-1", True),
        ("true", "", False),
    ],
)
def test_without_node_it_says_that_nothing_was_checked(
    tmp_path: Path, ci: str, offered: str, *, installs: bool
) -> None:
    programs = {
        "node": "exit 1",
        "id": "echo 0",
        "apt-get": f'echo "$@" >> {tmp_path}/asked',
        "apt-cache": f"echo 'Version: {offered}'" if offered else "exit 100",
    }
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    make = shutil.which("make")
    assert make
    done = subprocess.run(
        [make, "ui-check"], cwd=ROOT, env={"PATH": path, "CI": ci}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("Not checked: whether agent/ui/dist is built")
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""
    # Elsewhere than on Debian no version can be compared, and nothing is installed.
    expected = installs and shutil.which("dpkg") is not None
    assert ("install -y -qq --no-install-recommends nodejs npm" in asked) is expected
