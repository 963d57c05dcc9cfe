"""A workspace whose disk became read-only is named as the cause, and no folder in it is suggested."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.backends.docker import deepagents_results as answers
from libs.lite.lite_tools import ToolFailed, call_tool
from libs.sandbox import FileFailed
from libs.sandbox.host.local_sandbox import LocalSandbox

WHY = "the whole workspace is read-only: a person must make its disk writable on the host"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    assert os.geteuid() == 0, "only root can mount a small disk"
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_read_only_workspace_is_the_cause_of_a_failed_change(disk: Path) -> None:
    (disk / "file").write_text("old")
    with LocalSandbox(disk) as sandbox:
        assert sandbox.read_file(f"{disk}/file") == b"old"
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for do, more in (
            ("write", {"content": b"", "replace": False, "path": f"{disk}/a/b"}),
            ("write", {"content": b"", "replace": True, "path": f"{disk}/file"}),
            ("edit", {"old": "old", "new": "", "replace_all": False, "path": f"{disk}/file"}),
            ("delete", {"path": f"{disk}/file"}),
        ):
            with pytest.raises(FileFailed) as failed:
                sandbox.file(do, **more)
            assert (failed.value.code, str(failed.value)) == ("read_only", WHY)
        assert str(answers.write("/workspace/a", failed.value).error).endswith(WHY)
        assert str(answers.edit("/workspace/a", "old", failed.value).error).endswith(WHY)
        assert answers.upload("/workspace/a", failed.value).error == WHY
        assert sandbox.read_file(f"{disk}/file") == b"old"


def test_read_only_folder_is_the_cause_in_run_lite(disk: Path) -> None:
    (disk / "file").write_text("old")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for path in ("file", "new"):
        with pytest.raises(ToolFailed, match=f"'{path}' failed: Read-only file system"):
            call_tool(disk, "write_file", {"filePath": path, "content": "x"})
