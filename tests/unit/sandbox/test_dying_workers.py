"""Workers that end at once are not started again and again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import psutil
import pytest

from libs.sandbox import SandboxError
from libs.sandbox.host.local_sandbox import LocalSandbox


def test_removed_workspace_costs_no_time_while_nothing_is_asked(tmp_path: Path) -> None:
    """A worker cannot start without its working directory."""
    others = {child.pid for child in psutil.Process().children()}
    with LocalSandbox(tmp_path / "workspace") as sandbox:
        assert sandbox.run("echo on").output == "on\n"
        (supervisor,) = (child for child in psutil.Process().children() if child.pid not in others)
        shutil.rmtree(sandbox.root)
        for worker in supervisor.children():
            worker.kill()
        with pytest.raises(SandboxError):
            sandbox.file("ls", path=str(sandbox.root))
        assert supervisor.status() != psutil.STATUS_ZOMBIE
        used = sum(supervisor.cpu_times()[:4])
        time.sleep(2)
        assert sum(supervisor.cpu_times()[:4]) - used < 0.5
        sandbox.root.mkdir()
        assert sandbox.run("echo on").output == "on\n"
