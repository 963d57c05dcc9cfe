"""Programs read the folders of the host as they are when the program starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.parts.exec_parts import build_exec_parts
from agent.settings import load_settings
from tests.support.exec_tool.exec_runners import runner, spare_ready

pytestmark = pytest.mark.docker


def test_spare_with_a_replaced_folder_runs_no_program(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("old")
    options = {"mounts": lambda: {"/mnt/data": data}, "links": {"data": "/mnt/data"}}
    with runner(tmp_path, keep=False, runner_read_only=("data",), **options) as run:
        code = "print(open('data/file').read())"
        assert run.run(code).stdout == "old\n"
        spare_ready(run)
        data.rename(tmp_path / "earlier")
        data.mkdir()
        (data / "file").write_text("new")
        done = run.run(code)
    assert (done.stdout, done.note) == ("new\n", "The output holds no JSON value.")


@pytest.mark.parametrize("scope", ["shared", "thread"])
def test_workspace_that_was_moved_is_missing_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.chdir(tmp_path)
    workspace = tmp_path / "workspace"
    settings = load_settings(None, workspace_dir=workspace, sandbox_scope=scope)
    parts = build_exec_parts(settings)
    code = "print(sorted(open('data/file').read()))"
    try:
        assert parts.runner.run("print([1])").result == [1]
        (workspace / "data").mkdir(exist_ok=True)
        (workspace / "data" / "file").write_text("1")
        spare_ready(parts.runner)  # with the folder that is moved
        workspace.rename(tmp_path / "elsewhere")
        done = parts.runner.run(code)
        assert done.error
        assert (done.error.kind, done.stdout) == ("sandbox", "")
        assert f"The workspace folder {workspace} was moved or removed" in done.error.message
        assert not workspace.exists()
        (tmp_path / "elsewhere").rename(workspace)
        assert parts.runner.run(code).stdout == "['1']\n"
    finally:
        parts.close()
