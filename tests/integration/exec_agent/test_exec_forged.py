"""Attacks by a program on later programs and on the host that collects its files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from libs.exec_tool.program_runner import CodeRunner
from tests.support.exec_tool.exec_runners import runner

pytestmark = pytest.mark.docker

LEFT = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            {does}
    os._exit(0)
open("real", "w").write("1")
print(1)
"""
FORGES = (
    'open("/tmp/run/forged", "wb").write(bytes(20_000)); os.rename("/tmp/run/forged", "/tmp/run/out.tar")'
)
WRITES = 'open("real", "a").write("1")'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    folder = tmp_path_factory.mktemp("exec")
    home = folder / "home"
    (home / "data").mkdir(parents=True)
    (home / "data" / "person.txt").write_text("theirs")
    with runner(
        folder,
        disk=8 << 20,
        runner_read_only=("data",),
        mounts=lambda: {"/mnt/workspace": home},
        links={"data": "/mnt/workspace/data"},
    ) as made:
        yield made


def files_of(run: CodeRunner, thread: str) -> Any:
    """Return the files that another program of the thread finds."""
    code = (
        "import json, os\n"
        "print(json.dumps(sorted(os.path.relpath(os.path.join(at, name)) for at, _, names in os.walk('.') "
        "for name in names)))"
    )
    result = run.run(code, thread=thread)
    assert result.error is None, result.error
    return result.result


@pytest.mark.parametrize(
    "does", [FORGES, WRITES, "os.fork() and os._exit(0)"], ids=["forges", "writes", "forks"]
)
def test_processes_left_running_cannot_change_the_files(run: CodeRunner, does: str) -> None:
    begun = time.monotonic()
    result = run.run(LEFT.format(does=does), thread=does)
    assert (result.result, set(result.files)) == (1, {"real"}), (result.note, result.error)
    # One that forks all the time is seen sometimes only.
    assert result.note.startswith("The program left 1 process running: ") or "fork" in does
    assert time.monotonic() - begun < 30


def test_processes_left_running_are_counted_whatever_their_environment(run: CodeRunner) -> None:
    result = run.run("import subprocess\nfor _ in 1, 2: subprocess.Popen(['sleep', '99'], env={})\nprint(1)")
    assert result.note.startswith("The program left 2 processes"), result.note
    assert not run.run("print(1)").note


def test_fork_server_that_python_ends_by_itself_is_not_counted(run: CodeRunner) -> None:
    """The fork server is stopped here. On a busy machine it also ends later than the program."""
    code = (
        "import multiprocessing, subprocess\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('forkserver').Pool(1) as pool: print(pool.map(abs, [-1]))\n"
        "    stopped = subprocess.run(['pkill', '-STOP', '-f', 'multiprocessing[.]forkserver'])\n"
        "    print([stopped.returncode])"
    )
    result = run.run(code)
    assert (result.stdout, result.note) == ("[1]\n[0]\n", "")


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a")])
def test_file_with_the_name_of_a_folder_is_refused(run: CodeRunner, first: str, second: str) -> None:
    thread = f"nested {first}"
    assert run.run("print(1)", files={first: "1"}, thread=thread).error is None
    error = run.run("print(1)", files={second: "1"}, thread=thread).error
    assert error and error.kind == "input"
    assert "lies in a folder that has the name of another" in error.message
    assert files_of(run, thread) == [first]


def test_replaced_read_only_folder_does_not_come_back(run: CodeRunner) -> None:
    code = (
        "import os\nos.unlink('data')\nos.mkdir('data')\nopen('data/x', 'w').close()\nopen('y', 'w').close()"
    )
    result = run.run(code, thread="data")
    assert (result.error, set(result.files)) == (None, {"y"})
    assert (
        "1 of the program's files were not returned, because nothing is kept there: 'data/x'" in result.note
    )
    assert files_of(run, "data") == ["y"]
    assert run.run("print(open('data/person.txt').read())", thread="data").stdout == "theirs\n"


def test_files_over_the_disk_limit_are_refused(run: CodeRunner) -> None:
    run.run("open('y', 'w').close()", thread="full")
    error = run.run("print(1)", files={"big": "x" * (9 << 20)}, thread="full").error
    assert error and error.kind == "disk"
    assert files_of(run, "full") == ["y"]


def test_full_disk_is_not_kept(run: CodeRunner) -> None:
    code = "printf 1 > small; head -c 1G /dev/zero > big"
    result = run.run(code, language="bash", thread="filled")
    assert result.error and result.error.kind == "disk"
    assert set(result.files) == {"small"}
    assert "all files together may have" in result.note
    assert files_of(run, "filled") == ["small"]
