"""Programs read the folders of the host as they are when the program starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.exec_runners import runner, spare_ready

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
