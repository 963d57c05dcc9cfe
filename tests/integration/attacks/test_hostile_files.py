"""File tools on hostile files and folders: they answer in time and delete only what they should."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from libs.backends.docker import DockerExecutionBackend as Backend
from tests.support.file_places import content, empty_folder, found, listed
from tests.support.sandboxes import SLOWER

pytestmark = pytest.mark.docker

MANY = 100_000 // SLOWER
ANSWERS_WITHIN = 15.0
"""Seconds after which a file tool counts as hanging. A search takes five at most."""
KEPT = "/data/kept.txt"
NOT_UTF_8 = " // [not UTF-8: only a command reaches this name]"
T = TypeVar("T")


@pytest.fixture
def place(backend: Backend) -> Iterator[str]:
    with empty_folder(backend) as folder:
        backend.execute(f"echo kept > {KEPT}")
        yield folder


def timely(call: Callable[..., T], *arguments: Any) -> T:
    begun = time.monotonic()
    answer = call(*arguments)
    assert time.monotonic() - begun < ANSWERS_WITHIN
    return answer


class TestDelete:
    def test_workspace_and_its_folders_are_never_deleted(self, backend: Backend, place: str) -> None:
        backend.execute("echo kept > /results/kept.txt")
        look = "find / /workspace/ /skills/ -maxdepth 1"
        before = backend.execute(look).output
        for path in (
            *("/", "//", "/.", "/workspace", "/workspace/", "/workspace/.", "/workspace/../workspace"),
            *("/workspace/data", "//workspace//data/", "/workspace/data/../../workspace/results"),
            *("/workspace/results/..", "/data", "/data/", "/scripts", "/results/.", "/tmp/../workspace"),
            *("/proc/self/root/workspace", "/proc/self/cwd", "/proc/self/cwd/data", "/skills", "", ".", ".."),
        ):
            assert backend.delete(path).error, path
            assert backend.execute(look).output == before, path
            assert content(backend, KEPT) == content(backend, "/results/kept.txt") == b"kept\n", path

    @pytest.mark.parametrize("target", ["/workspace", "/", "/data", ".."])
    def test_delete_removes_only_the_link(self, backend: Backend, place: str, target: str) -> None:
        backend.execute(f"ln -sfn {target} {place}/link")
        backend.delete(f"{place}/link")
        backend.execute(f"ln -sfn {target} {place}/link")
        backend.delete(f"{place}/link/")
        assert content(backend, KEPT) == b"kept\n"
        assert backend.execute(f"test -d {place}").exit_code == 0

    def test_delete_through_a_link_keeps_workspace_folders(self, backend: Backend, place: str) -> None:
        backend.execute(f"ln -sfn /workspace {place}/link")
        assert backend.delete(f"{place}/link/data").error
        assert content(backend, KEPT) == b"kept\n"

    def test_delete_removes_every_kind_of_file(self, backend: Backend, place: str) -> None:
        backend.execute(
            f"cd {place}; mkdir -p full/deep; echo x > full/deep/x; mkfifo fifo; ln -s nowhere dangling; "
            "ln -s loop loop; ln -s /data full/data"
        )
        for name in ("full", "fifo", "dangling", "loop"):
            assert backend.delete(f"{place}/{name}").error is None
        assert backend.execute(f"find {place} -mindepth 1").output == ""
        assert content(backend, KEPT) == b"kept\n"
        assert "not found" in (backend.delete(f"{place}/full").error or "")

    @pytest.mark.thorough
    def test_tools_handle_a_very_deep_folder(self, backend: Backend, place: str) -> None:
        # The path of the bottom is longer than a system call takes.
        depth, name = 3000 // SLOWER, "d" * (2 * SLOWER - 1)
        nest = (
            f"import os\nfor i in range({depth}):\n    os.mkdir('{name}'); os.chdir('{name}')\n"
            "open('bottom', 'w').close()"
        )
        assert backend.execute(f'cd {place} && python3 -c "{nest}"').exit_code == 0
        assert timely(backend.glob, "**/*.txt", place).error is None
        assert re.match("Not searched to the end, .*: 1 [(]", timely(backend.grep, "x", place).error or "")
        assert timely(backend.delete, f"{place}/{name}").error is None
        assert backend.execute(f"find {place} -mindepth 1").output == ""


class TestHostileTrees:
    @pytest.mark.parametrize(
        "make",
        [
            "mkfifo {}",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{}\")'",
            "ln -s /dev/zero {}",
            "ln -s /dev/stdin {}",
            "ln -s {} {}",
            "mkdir {}",
            "echo x > {}; chmod 0 {}",
        ],
    )
    def test_special_files_are_refused_at_once(self, backend: Backend, place: str, make: str) -> None:
        path = f"{place}/odd.txt"
        assert backend.execute(make.replace("{}", path)).exit_code == 0
        assert timely(backend.read, path).error
        assert timely(backend.edit, path, "a", "b").error
        assert timely(backend.download_files, [path])[0].error
        timely(backend.grep, "x", place)
        assert backend.execute("echo on").output == "on\n"

    def test_names_with_newlines_and_bad_utf8(self, backend: Backend, place: str) -> None:
        make = (
            "import os\nfor name in (b'new\\nline', b'bad\\xff\\xfename', b' space ', b'-rf', "
            "b'\\x1b[31mred', '\\u202etxt.exe'.encode(), b'quote\\'\"$(x)`', b'*', b'back\\\\slash'):\n"
            f"    open(b'{place}/' + name, 'wb').write(b'needle\\n')"
        )
        backend.write("/tmp/make-names.py", make)
        assert backend.execute("python3 /tmp/make-names.py; rm /tmp/make-names.py").exit_code == 0
        paths = listed(timely(backend.ls, place))
        assert len(paths) == 9
        assert {f"{place}/new\nline", f"{place}/bad\\xff\\xfename{NOT_UTF_8}"} <= set(paths)
        assert len(listed(timely(backend.glob, "*", place))) == 9
        assert len(found(timely(backend.grep, "needle", place))) == 9
        for path in paths:
            path.encode()  # the path is valid UTF-8
            if "xff" not in path:
                assert content(backend, path) == b"needle\n"

    def test_link_loops_are_not_followed(self, backend: Backend, place: str) -> None:
        backend.execute(
            f"cd {place}; mkdir a; echo needle > a/file; ln -s .. a/up; ln -s a b; ln -s loop loop; "
            "ln -s / root; ln -s /proc proc; ln -s nowhere dangling; mkfifo fifo"
        )
        assert listed(timely(backend.glob, "**/*", place)) == [f"{place}/a/file"]
        assert found(timely(backend.grep, "needle", place)) == [f"{place}/a/file"]
        assert len(listed(timely(backend.ls, place))) == 7

    @pytest.mark.thorough
    def test_folder_of_many_files(self, backend: Backend, place: str) -> None:
        make = f"cd {place} && seq {MANY} | xargs touch && echo needle > 7777"
        assert backend.execute(make, timeout=120).exit_code == 0
        all_files = timely(backend.glob, "*", place)
        assert all_files.error is None
        assert all_files.truncated
        assert 1_000 <= len(all_files.matches or []) <= MANY
        assert listed(timely(backend.glob, "7777", place)) == [f"{place}/7777"]
        timely(backend.grep, "needle", place)
        paths = listed(timely(backend.ls, place))
        assert len(paths) == min(MANY, 50_001)
        cut = f"{place} // [only 50,000 entries are listed: find the others with glob or a command]"
        assert (cut in paths) is (MANY > 50_000)
        assert timely(backend.delete, place).error is None

    @pytest.mark.thorough
    def test_search_of_a_growing_tree_ends(self, backend: Backend, place: str) -> None:
        grow = "import os\nwhile True:\n    os.makedirs('d/d/d/d', exist_ok=True); os.chdir('d')\n"
        backend.write(f"{place}/grow.py", grow)
        backend.execute(f"cd {place}; timeout 20 python3 grow.py > /dev/null 2>&1 & true")
        timely(backend.glob, "**/*.none", place)
        timely(backend.grep, "none at all", place)
        assert timely(backend.write, f"{place}/after.txt", "x").error is None
        backend.execute("pkill -f grow.py")

    @pytest.mark.thorough
    def test_search_of_system_folders_ends(self, backend: Backend) -> None:
        for folder in ("/", "/proc", "/sys", "/dev"):
            timely(backend.glob, "**/*.none", folder)
            timely(backend.grep, "certainly nowhere at all", folder)
        assert backend.execute("echo on").output == "on\n"
