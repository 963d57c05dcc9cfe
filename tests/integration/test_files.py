"""File tools on everything a file system can hold, sync and async alike (S1, S12, D4, I4)."""

from __future__ import annotations

import asyncio
import base64
import inspect
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deepagents.backends.protocol import GlobResult, GrepResult, LsResult

from libs.backends.docker import DockerExecutionBackend, SandboxLimits
from libs.sandbox.container import DockerSandbox

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
ANSWERS_WITHIN = 15.0
"""Seconds after which a file tool counts as hanging: searches look around for five."""


class Tools:
    """The backend's methods, each called as it is or as its async twin."""

    def __init__(self, backend: DockerExecutionBackend, prefix: str) -> None:
        self._backend = backend
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._backend, self._prefix + name)

        def call(*args: Any, **kwargs: Any) -> Any:
            begun = time.monotonic()
            answer = method(*args, **kwargs)
            if inspect.iscoroutine(answer):
                answer = asyncio.run(answer)
            assert name in ("execute", "upload_files", "download_files") or (
                time.monotonic() - begun < ANSWERS_WITHIN
            )
            return answer

        return call


@pytest.fixture(params=["", "a"], ids=["sync", "async"])
def tools(request: pytest.FixtureRequest, backend: DockerExecutionBackend) -> Tools:
    return Tools(backend, request.param)


@pytest.fixture
def place(backend: DockerExecutionBackend) -> Iterator[str]:
    """An empty folder inside, gone afterwards whatever a test has put there."""
    folder = f"/workspace/place-{os.urandom(4).hex()}"
    assert backend.execute(f"mkdir {folder}").exit_code == 0
    yield folder
    backend.execute(f"chmod -R u+rwx {folder}; rm -rf {folder}")


def names(result: LsResult | GlobResult) -> list[str]:
    assert result.error is None
    found = result.entries if isinstance(result, LsResult) else result.matches
    return [item["path"] for item in found or []]


def lines(result: GrepResult) -> list[tuple[str, int, str]]:
    assert result.error is None
    return [(item["path"], item["line"], item["text"]) for item in result.matches or []]


def content(tools: Tools, path: str) -> bytes | None:
    (answer,) = tools.download_files([path])
    data: bytes | None = answer.content
    return data


class TestWrite:
    def test_a_new_file_and_its_folders(self, tools: Tools, place: str) -> None:
        assert tools.write(f"{place}/a/b/new.txt", "ü\n").error is None
        assert tools.execute(f"cat {place}/a/b/new.txt").output == "ü\n"

    @pytest.mark.parametrize(
        "make", ["echo x > {}", "mkdir {}", "ln -s nowhere {}", "mkfifo {}", "touch {}", "ln -s /etc {}"]
    )
    def test_what_exists_is_refused_and_stays(self, tools: Tools, place: str, make: str) -> None:
        path = f"{place}/there"
        tools.execute(make.format(path))
        before = tools.execute(f"ls -l {place}").output
        error = tools.write(path, "new").error
        assert error is not None
        assert "edit_file" in error
        assert tools.execute(f"ls -l {place}").output == before

    def test_below_a_file_there_is_nothing_to_edit(self, tools: Tools, place: str) -> None:
        tools.write(f"{place}/file", "x")
        error = tools.write(f"{place}/file/below.txt", "y").error
        assert error is not None
        assert "already exists" not in error

    @pytest.mark.parametrize("path", ["/etc/x", "/usr/x", "/skills/x.py", "/proc/x", "/sys/x", "/x"])
    def test_read_only_places(self, tools: Tools, path: str) -> None:
        error = tools.write(path, "x").error
        assert error is not None
        (answer,) = tools.upload_files([(path, b"x")])
        assert answer.error == "permission_denied" or path.startswith("/proc")
        assert answer.error

    @pytest.mark.parametrize(
        "path", ["", "/", "/workspace/", "a\0b", "/workspace/..", "/workspace/" + "x" * 300]
    )
    def test_odd_names(self, tools: Tools, path: str) -> None:
        assert tools.write(path, "x").error

    def test_a_link_and_dots_mean_what_they_mean_to_the_shell(self, tools: Tools, place: str) -> None:
        """`link/..` is the parent of the link's target, not the folder that holds the link (I4)."""
        tools.execute(f"mkdir -p {place}/far/away; ln -s far/away {place}/link")
        assert tools.write(f"{place}/link/../new.txt", "x").error is None
        assert tools.execute(f"cat {place}/link/../new.txt").output == "x"

    def test_a_lone_surrogate_is_replaced(self, tools: Tools, place: str) -> None:
        assert tools.write(f"{place}/odd.txt", "a\ud800b").error is None
        assert content(tools, f"{place}/odd.txt") == b"a?b"

    def test_two_writers_of_one_name_have_one_winner(
        self, backend: DockerExecutionBackend, place: str
    ) -> None:
        async def race() -> list[str | None]:
            answers = await asyncio.gather(*(backend.awrite(f"{place}/one", str(i)) for i in range(20)))
            return [answer.error for answer in answers]

        assert asyncio.run(race()).count(None) == 1


class TestEdit:
    def test_exactly_one_match_is_needed(self, tools: Tools, place: str) -> None:
        path = f"{place}/text"
        tools.write(path, "one two one")
        assert "appears multiple times" in tools.edit(path, "one", "1").error
        assert "not found" in tools.edit(path, "three", "3").error
        assert content(tools, path) == b"one two one"
        assert tools.edit(path, "two", "2").occurrences == 1
        assert tools.edit(path, "one", "1", replace_all=True).occurrences == 2
        assert content(tools, path) == b"1 2 1"

    @pytest.mark.parametrize("everywhere", [False, True])
    def test_nothing_is_no_match(self, tools: Tools, place: str, everywhere: bool) -> None:
        tools.write(f"{place}/text", "abc")
        error = tools.edit(f"{place}/text", "", "x", replace_all=everywhere).error
        assert error is not None
        assert "empty" in error
        assert content(tools, f"{place}/text") == b"abc"

    @pytest.mark.parametrize("ending", [b"\r\n", b"\n"])
    def test_line_ends_stay(self, tools: Tools, place: str, ending: bytes) -> None:
        path = f"{place}/text"
        tools.upload_files([(path, b"a" + ending + b"b" + ending + b"c" + ending)])
        assert tools.edit(path, "a\nb\n", "A\nB\n").error is None
        assert content(tools, path) == b"A" + ending + b"B" + ending + b"c" + ending

    def test_a_byte_order_mark_stays(self, tools: Tools, place: str) -> None:
        path = f"{place}/text"
        tools.upload_files([(path, b"\xef\xbb\xbfhello\n")])
        assert tools.edit(path, "hello", "bye").error is None
        assert content(tools, path) == b"\xef\xbb\xbfbye\n"

    def test_bytes_that_are_no_text_are_refused(self, tools: Tools, place: str) -> None:
        path = f"{place}/binary"
        tools.upload_files([(path, b"\x89PNG\xff\xfe hello")])
        assert "not a text file" in tools.edit(path, "hello", "bye").error
        assert content(tools, path) == b"\x89PNG\xff\xfe hello"

    @pytest.mark.parametrize("mode", ["755", "600", "664", "4711"])
    def test_the_mode_stays(self, tools: Tools, place: str, mode: str) -> None:
        path = f"{place}/script.sh"
        tools.execute(f"echo echo old > {path}; chmod {mode} {path}")
        assert tools.edit(path, "old", "new").error is None
        assert tools.execute(f"stat -c %a {path}").output == f"{mode}\n"
        tools.upload_files([(path, b"echo newer\n")])
        assert tools.execute(f"stat -c %a {path}; cat {path}").output == f"{mode}\necho newer\n"

    def test_a_link_stays_a_link(self, tools: Tools, place: str) -> None:
        tools.execute(f"echo old > {place}/file; ln -s file {place}/link")
        assert tools.edit(f"{place}/link", "old", "new").error is None
        assert tools.execute(f"readlink {place}/link; cat {place}/file").output == "file\nnew\n"

    def test_a_file_that_may_not_be_changed(self, tools: Tools, place: str) -> None:
        tools.execute(f"echo old > {place}/file; chmod 444 {place}/file")
        assert "ermission denied" in tools.edit(f"{place}/file", "old", "new").error
        assert "ermission denied" in tools.edit("/etc/hostname", "s", "t").error
        assert content(tools, f"{place}/file") == b"old\n"

    def test_text_longer_than_a_message(self, tools: Tools, place: str) -> None:
        """A change of any size is made or refused; nothing is raised."""
        tools.write(f"{place}/text", "abc")
        answer = tools.edit(f"{place}/text", "abc", "ü" * 6_000_000)
        assert answer.error is not None or content(tools, f"{place}/text") == ("ü" * 6_000_000).encode()


class TestRead:
    @pytest.mark.parametrize(
        ("data", "shown"),
        [
            (b"", "System reminder: File exists but has empty contents"),
            (b"a\nb\n", "a\nb"),
            (b"a\r\nb\r\n", "a\nb"),
            (b"no end", "no end"),
            ("ü😀\n".encode(), "ü😀"),
        ],
    )
    def test_text(self, tools: Tools, place: str, data: bytes, shown: str) -> None:
        tools.upload_files([(f"{place}/text.txt", data)])
        answer = tools.read(f"{place}/text.txt")
        assert answer.error is None
        assert answer.file_data["content"] == shown

    def test_binary_is_shown_as_base64(self, tools: Tools, place: str) -> None:
        data = bytes(range(256)) * 10
        tools.upload_files([(f"{place}/image.png", data)])
        answer = tools.read(f"{place}/image.png")
        assert answer.file_data["encoding"] == "base64"
        assert base64.b64decode(answer.file_data["content"]) == data

    def test_a_huge_single_line_is_cut(self, tools: Tools, place: str) -> None:
        tools.execute(f"head -c 30000000 /dev/zero | tr '\\0' x > {place}/line.txt")
        answer = tools.read(f"{place}/line.txt")
        assert answer.error is None
        assert 1_000 < len(answer.file_data["content"]) < 1_000_000

    def test_a_page_out_of_many_lines(self, tools: Tools, place: str) -> None:
        tools.execute(f"seq 1000000 > {place}/lines.txt")
        answer = tools.read(f"{place}/lines.txt", 900_000, 3)
        assert answer.file_data["content"] == "900001\n900002\n900003"
        assert tools.read(f"{place}/lines.txt", 1_000_000, 3).error

    @pytest.mark.parametrize(
        "make",
        [
            "mkfifo {}",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{}\")'",
            "ln -s /dev/zero {}",
            "ln -s /dev/stdin {}",
            "ln -s {} {}",
            "ln -s nowhere {}",
            "mkdir {}",
            "echo x > {}; chmod 0 {}",
        ],
    )
    def test_what_is_no_file_is_refused_at_once(self, tools: Tools, place: str, make: str) -> None:
        path = f"{place}/odd.txt"
        assert tools.execute(make.replace("{}", path)).exit_code == 0
        assert tools.read(path).error
        assert tools.edit(path, "a", "b").error
        assert tools.download_files([path])[0].error
        tools.grep("x", place)
        assert tools.execute("echo on").output == "on\n"

    def test_more_than_the_host_should_hold_is_refused(self, place: str, workspace: Path) -> None:
        """A file without content can have any size; this process may use 1.5 GB."""
        script = textwrap.dedent(f"""
            import resource
            from pathlib import Path
            from libs.backends.docker import DockerExecutionBackend

            with DockerExecutionBackend(Path({str(workspace)!r}), name="test-large") as backend:
                backend.execute("truncate -s 3G {place}/large")
                resource.setrlimit(resource.RLIMIT_AS, (1500 * 2**20, resource.RLIM_INFINITY))
                (answer,) = backend.download_files(["{place}/large"])
                assert answer.content is None
                assert answer.error
                assert backend.execute("echo on").output == "on\\n"
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr


class TestPaths:
    def test_one_file_has_one_content_by_every_name(
        self, tools: Tools, backend: DockerExecutionBackend
    ) -> None:
        """I4: for file tools, for commands, and for the person who looks at the folder."""
        name = f"x-{os.urandom(4).hex()}.txt"
        for first, second in ((f"/data/{name}", f"/workspace/data/{name}"), (f"/results/{name}",) * 2):
            assert tools.write(first, "first").error is None
            assert tools.execute(f"cat {second}").output == "first"
            tools.execute(f"echo -n second > {second}")
            assert content(tools, first) == b"second"
            assert tools.edit(second, "second", "third").error is None
            assert tools.read(first).file_data["content"] == "third"
        assert (backend.sandbox.root / "data" / name).read_text() == "third"

    def test_tmp_is_one_place_too(self, tools: Tools) -> None:
        path = f"/tmp/{os.urandom(4).hex()}"
        tools.write(path, "from a tool")
        assert tools.execute(f"cat {path}; echo -n shell > {path}").output == "from a tool"
        assert content(tools, path) == b"shell"

    def test_without_a_path_it_is_the_workspace_and_nothing_comes_twice(
        self, tools: Tools, place: str
    ) -> None:
        name = f"unique-{os.urandom(4).hex()}.txt"
        tools.write(f"/data/{name}", f"needle {name}\n")
        tools.write(f"{place}/{name}", f"needle {name}\n")
        expected = sorted([f"/workspace/data/{name}", f"{place}/{name}"])
        assert names(tools.glob(name)) == expected
        assert names(tools.glob(f"**/{name}")) == expected
        assert sorted(path for path, _, _ in lines(tools.grep(f"needle {name}"))) == expected
        everything = names(tools.glob("**/*"))
        assert all(path.startswith("/workspace/") for path in everything)
        assert len(everything) == len(set(everything))
        assert "/workspace/data" in names(tools.ls(""))

    def test_a_relative_path_is_one_in_the_workspace(self, tools: Tools, place: str) -> None:
        below = place.removeprefix("/workspace/")
        assert tools.write(f"{below}/relative.txt", "x").error is None
        assert tools.execute(f"cat {place}/relative.txt").output == "x"
        assert tools.delete(f"{below}/relative.txt").error is None
        assert tools.execute(f"ls {place}").output == ""

    def test_a_relative_name_deletes_nothing_elsewhere(self, tools: Tools) -> None:
        tools.execute("echo kept > /tmp/kept")
        tools.delete("tmp")
        assert tools.execute("cat /tmp/kept").output == "kept\n"


class TestDelete:
    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "//",
            "/.",
            "/workspace",
            "/workspace/",
            "/workspace/.",
            "/workspace/../workspace",
            "/workspace/data",
            "/workspace/data/",
            "//workspace//data/",
            "/workspace/data/../../workspace/results",
            "/workspace/results/..",
            "/data",
            "/data/",
            "/scripts",
            "/results/.",
            "/proc/self/root/workspace",
            "/proc/self/cwd",
            "/proc/self/cwd/data",
            "/tmp/../workspace",
            "/skills",
            "",
            ".",
            "..",
        ],
    )
    def test_the_computer_itself_is_never_deleted(self, tools: Tools, path: str) -> None:
        tools.execute("echo kept > /data/kept.txt; echo kept > /results/kept.txt")
        before = tools.execute("ls -d / /*; ls /workspace /skills").output
        assert tools.delete(path).error
        assert tools.execute("ls -d / /*; ls /workspace /skills").output == before
        assert content(tools, "/data/kept.txt") == content(tools, "/results/kept.txt") == b"kept\n"

    @pytest.mark.parametrize("target", ["/workspace", "/", "/data", "..", "/workspace/data"])
    def test_of_a_link_only_the_link_goes(self, tools: Tools, place: str, target: str) -> None:
        tools.execute(f"echo kept > /data/kept.txt; ln -sfn {target} {place}/link")
        tools.delete(f"{place}/link")
        tools.execute(f"ln -sfn {target} {place}/link")
        tools.delete(f"{place}/link/")
        assert content(tools, "/data/kept.txt") == b"kept\n"
        assert tools.execute(f"ls -d {place}").exit_code == 0

    def test_through_a_link_the_folders_stay(self, tools: Tools, place: str) -> None:
        tools.execute(f"echo kept > /data/kept.txt; ln -sfn /workspace {place}/link")
        assert tools.delete(f"{place}/link/data").error
        assert content(tools, "/data/kept.txt") == b"kept\n"

    def test_files_folders_and_what_is_neither(self, tools: Tools, place: str) -> None:
        tools.execute(f"mkdir -p {place}/full/deep; echo x > {place}/full/deep/x; mkfifo {place}/fifo")
        tools.execute(
            f"ln -s nowhere {place}/dangling; ln -s loop {place}/loop; ln -s /data {place}/full/data"
        )
        tools.execute("echo kept > /data/kept.txt")
        for name in ("full", "fifo", "dangling", "loop"):
            assert tools.delete(f"{place}/{name}").error is None
        assert tools.execute(f"ls -A {place}").output == ""
        assert content(tools, "/data/kept.txt") == b"kept\n"
        assert "not found" in tools.delete(f"{place}/full").error

    def test_a_very_deep_folder(self, tools: Tools, place: str) -> None:
        nest = (
            "import os\nfor i in range(3000):\n    os.mkdir('d'); os.chdir('d')\nopen('bottom', 'w').close()"
        )
        assert tools.execute(f'cd {place} && python3 -c "{nest}"').exit_code == 0
        assert tools.glob("**/*.txt", place).error is None
        assert tools.grep("x", place).error is None
        assert tools.delete(f"{place}/d").error is None
        assert tools.execute(f"ls -A {place}").output == ""


class TestHostileTrees:
    """S12: whatever a command makes, file tools neither hang nor crash."""

    def test_names_with_newlines_and_bad_utf8(self, tools: Tools, place: str) -> None:
        make = (
            "import os\nfor name in (b'new\\nline', b'bad\\xff\\xfename', b' space ', b'-rf', "
            "b'\\x1b[31mred', '\\u202etxt.exe'.encode(), b'quote\\'\"$(x)`', b'*', b'back\\\\slash'):\n"
            f"    open(b'{place}/' + name, 'wb').write(b'needle\\n')"
        )
        tools.write("/tmp/make-names.py", make)
        assert tools.execute("python3 /tmp/make-names.py; rm /tmp/make-names.py").exit_code == 0
        listed = names(tools.ls(place))
        assert len(listed) == 9
        assert f"{place}/new\nline" in listed
        assert f"{place}/bad\\xff\\xfename" in listed
        assert len(names(tools.glob("*", place))) == 9
        assert len(lines(tools.grep("needle", place))) == 9
        for path in listed:
            path.encode()  # it can be sent anywhere
            if "xff" not in path:
                assert content(tools, path) == b"needle\n"

    def test_loops_of_links_and_links_to_everything(self, tools: Tools, place: str) -> None:
        tools.execute(
            f"cd {place}; mkdir a; echo needle > a/file; ln -s .. a/up; ln -s a b; ln -s loop loop; "
            "ln -s / root; ln -s /proc proc; ln -s nowhere dangling; mkfifo fifo"
        )
        assert names(tools.glob("**/*", place)) == [f"{place}/a/file"]
        assert [path for path, _, _ in lines(tools.grep("needle", place))] == [f"{place}/a/file"]
        assert len(names(tools.ls(place))) == 7

    def test_a_hundred_thousand_files(self, tools: Tools, place: str) -> None:
        make = f"cd {place} && seq 100000 | xargs touch && echo needle > 77777"
        assert tools.execute(make, timeout=120).exit_code == 0
        found = tools.glob("*", place)
        assert found.error is None
        assert found.truncated
        assert 1_000 <= len(found.matches) <= 100_000
        assert names(tools.glob("77777", place)) == [f"{place}/77777"]
        tools.grep("needle", place)
        listed = tools.ls(place)
        assert listed.error or len(listed.entries) == 100_000
        assert tools.delete(place).error is None

    def test_a_tree_that_grows_while_it_is_searched(self, tools: Tools, place: str) -> None:
        grow = "import os\nwhile True:\n    os.makedirs('d/d/d/d', exist_ok=True); os.chdir('d')\n"
        tools.write(f"{place}/grow.py", grow)
        tools.execute(f"cd {place}; timeout 20 python3 grow.py > /dev/null 2>&1 & true")
        tools.glob("**/*.none", place)
        tools.grep("none at all", place)
        assert tools.write(f"{place}/after.txt", "x").error is None
        tools.execute("pkill -f grow.py")

    def test_system_folders_are_searched_within_bounds(self, tools: Tools) -> None:
        for folder in ("/", "/proc", "/sys", "/dev"):
            tools.glob("**/*.none", folder)
            tools.grep("certainly nowhere at all", folder)
        assert tools.execute("echo on").output == "on\n"

    @pytest.mark.parametrize(
        "pattern", ["*a" * 30 + "b", "**/" * 30 + "x", "{a,b}" * 30, "[" * 500, "?" * 5000]
    )
    def test_patterns_meant_to_take_for_ever(self, tools: Tools, place: str, pattern: str) -> None:
        tools.execute(f"cd {place}; touch {'a' * 250}; mkdir -p {'a/' * 60}; touch {'a/' * 60}y")
        tools.glob(pattern, place)
        tools.grep("x", place, pattern)
        assert tools.execute("echo on").output == "on\n"

    def test_a_worker_that_was_killed_is_replaced(self, tools: Tools, place: str) -> None:
        for _ in range(3):
            tools.execute("kill -9 -1")
            assert tools.write(f"{place}/{os.urandom(4).hex()}", "x").error is None

    def test_no_room(self, tmp_path: Path) -> None:
        with DockerExecutionBackend(tmp_path, name="test", limits=SandboxLimits(tmp=4 * 2**20)) as small:
            assert small.write("/tmp/fits", "x").error is None
            error = small.write("/tmp/big/file", "x" * 8_000_000).error
            assert error is not None
            assert "space" in error
            assert names(small.ls("/tmp/big")) == []
            assert small.write("/tmp/fits-too", "x").error is None
            assert small.execute("head -c 90000000 /dev/zero > /tmp/more; echo on").output.endswith("on\n")
            assert small.execute("rm /tmp/more").exit_code == 0


class TestContent:
    def test_50_mb_there_and_back(self, tools: Tools, place: str) -> None:
        data = os.urandom(1_000_000) * 50
        assert tools.upload_files([(f"{place}/big.bin", data)])[0].error is None
        assert content(tools, f"{place}/big.bin") == data

    @pytest.mark.parametrize("data", [b"", b"\0", b"\r\n", b"\xef\xbb\xbf", bytes(range(256)), b"\n" * 1000])
    def test_every_byte_stays(self, tools: Tools, place: str, data: bytes) -> None:
        tools.upload_files([(f"{place}/x", data)])
        assert content(tools, f"{place}/x") == data

    def test_errors_are_the_protocols_words(self, tools: Tools, place: str) -> None:
        tools.execute(f"cd {place}; mkdir d; echo x > closed; chmod 0 closed; mkdir shut; chmod 0 shut")
        paths = ["none", "d", "closed", "shut/x"]
        answers = tools.download_files([f"{place}/{path}" for path in paths])
        assert [answer.error for answer in answers] == [
            "file_not_found",
            "is_directory",
            "permission_denied",
            "permission_denied",
        ]
        assert tools.download_files(["relative"])[0].error == "invalid_path"
        uploads = tools.upload_files([(f"{place}/{path}", b"") for path in ("d", "closed", "shut/x")])
        assert [answer.error for answer in uploads] == [
            "is_directory",
            "permission_denied",
            "permission_denied",
        ]
        assert tools.upload_files([("relative", b"")])[0].error == "invalid_path"

    def test_one_failure_among_many_is_its_own(self, tools: Tools, place: str) -> None:
        answers = tools.upload_files([(f"{place}/a", b"a"), ("/etc/b", b"b"), (f"{place}/c", b"c")])
        assert [bool(answer.error) for answer in answers] == [False, True, False]
        answers = tools.download_files([f"{place}/a", f"{place}/none", f"{place}/c"])
        assert [answer.content for answer in answers] == [b"a", None, b"c"]

    def test_a_replaced_file_is_never_seen_half(self, backend: DockerExecutionBackend, place: str) -> None:
        """By a command that reads all the time, and by the host."""
        versions = [bytes([65 + i]) * 300_000 for i in range(8)]
        path = f"{place}/whole"
        seen_from = backend.sandbox.root / path.removeprefix("/workspace/")
        backend.upload_files([(path, versions[0])])
        check = (
            f"import time\nend = time.time() + 3\nwhile time.time() < end:\n"
            f"    data = open('{path}', 'rb').read()\n    assert len(data) == 300000 and len(set(data)) == 1"
        )
        reader: list[Any] = []
        thread = threading.Thread(target=lambda: reader.append(backend.execute(f'python3 -c "{check}"')))
        thread.start()
        replaced = 0
        while thread.is_alive():
            backend.upload_files([(path, versions[replaced % 8])])
            backend.edit(path, "A" * 300_000, "B" * 300_000)
            data = seen_from.read_bytes()
            assert len(data) == 300_000
            assert len(set(data)) == 1
            replaced += 1
        assert (reader[0].exit_code, reader[0].output) == (0, "")
        assert replaced > 10

    def test_a_broken_off_upload_leaves_nothing(self, backend: DockerExecutionBackend, place: str) -> None:
        async def broken_off(seconds: float) -> None:
            task = asyncio.create_task(backend.aupload_files([(f"{place}/cut", b"x" * 100_000_000)]))
            await asyncio.sleep(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        for seconds in (0.05, 0.1, 0.2):
            asyncio.run(broken_off(seconds))
        assert backend.write(f"{place}/after", "x").error is None
        time.sleep(0.5)
        left = set(backend.execute(f"ls -A {place}").output.split())
        assert left in ({"after"}, {"after", "cut"})
        if "cut" in left:  # it was faster
            assert backend.execute(f"stat -c %s {place}/cut").output == "100000000\n"

    def test_an_upload_to_a_container_that_is_killed_leaves_nothing(self, tmp_path: Path) -> None:
        with DockerExecutionBackend(tmp_path, name="killed") as backend:
            backend.execute("true")
            upload = threading.Thread(
                target=backend.upload_files, args=([("/workspace/f", bytes(200_000_000))],)
            )
            upload.start()
            time.sleep(0.2)
            assert isinstance(backend.sandbox, DockerSandbox)
            subprocess.run(["docker", "kill", str(backend.sandbox.container_name)], check=True)
            upload.join()
            backend.execute("true")
        assert {path.name for path in tmp_path.iterdir()} == {"data", "scripts", "results"}
