"""File tools, beyond deepagents' suite: changes, paths and content."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend as Backend
from tests.support.commands.engines import Engines
from tests.support.file_places import content, empty_folder, shown
from tests.support.programs import finished
from tests.support.sandboxes import IMAGE, RUNTIME

pytestmark = pytest.mark.docker


@pytest.fixture
def place(backend: Backend) -> Iterator[str]:
    with empty_folder(backend) as folder:
        yield folder


class TestWrite:
    @pytest.mark.parametrize(
        ("make", "why"),
        [
            ("echo x > {}", "already exists. Change it with edit_file"),
            ("mkdir {}", "Is a directory"),
            ("ln -s nowhere {}", "a link with this name leads to no file"),
            ("mkfifo {}", "not a regular file"),
        ],
    )
    def test_write_refuses_an_existing_name(self, backend: Backend, place: str, make: str, why: str) -> None:
        path = f"{place}/there"
        backend.execute(make.format(path))
        before = backend.execute(f"ls -l {place}").output
        error = backend.write(path, "new").error
        assert error is not None
        assert why in error
        assert backend.execute(f"ls -l {place}").output == before

    def test_one_of_many_writers_of_a_name_succeeds(self, backend: Backend, place: str) -> None:
        async def race() -> list[str | None]:
            answers = await asyncio.gather(*(backend.awrite(f"{place}/one", str(i)) for i in range(20)))
            return [answer.error for answer in answers]

        assert asyncio.run(race()).count(None) == 1

    def test_error_says_where_files_can_be_made(self, backend: Backend) -> None:
        usual = "as /workspace and /tmp are unless a mode or owner was changed"
        writable = f"a folder that can be written, {usual}"
        for path in ("/notes.txt", "/etc/notes.txt"):
            error = backend.write(path, "x").error
            assert error == (
                f"Error: Failed to write file '{path}': Read-only file system. Choose {writable}."
            )
        assert backend.edit("/etc/fstab", "#", "x").error == (
            "Error: Failed to edit file '/etc/fstab': Read-only file system. If it can be read, write a "
            f"copy with `cat` to {writable}, and edit the copy: `cp` also copies the mode."
        )


class TestEdit:
    def test_empty_old_text_is_refused(self, backend: Backend, place: str) -> None:
        backend.write(f"{place}/text", "abc")
        for everywhere in (False, True):
            assert "empty" in (backend.edit(f"{place}/text", "", "x", replace_all=everywhere).error or "")
        assert content(backend, f"{place}/text") == b"abc"

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (b"a\r\nb\r\nc\r\n", b"A\r\nB\r\nc\r\n"),
            (b"a\nb\nc\n", b"A\nB\nc\n"),
            (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfA\nB\n"),
        ],
        ids=["crlf", "lf", "byte order mark"],
    )
    def test_line_ends_and_byte_order_mark_are_kept(
        self, backend: Backend, place: str, before: bytes, after: bytes
    ) -> None:
        backend.upload_files([(f"{place}/text", before)])
        assert backend.edit(f"{place}/text", "a\nb\n", "A\nB\n").error is None
        assert content(backend, f"{place}/text") == after

    def test_mode_is_kept(self, backend: Backend, place: str) -> None:
        path, mode = f"{place}/script.sh", "4711"
        backend.execute(f"echo echo old > {path}; chmod {mode} {path}")
        assert backend.edit(path, "old", "new").error is None
        assert backend.execute(f"find {path} -printf %m").output == mode
        backend.upload_files([(path, b"echo newer\n")])
        assert backend.execute(f"find {path} -printf %m; cat {path}").output == f"{mode}echo newer\n"

    @pytest.mark.thorough
    def test_changes_at_the_same_time_are_all_kept(self, backend: Backend, place: str) -> None:
        path, numbers = f"{place}/busy", range(8)

        async def changes() -> list[Any]:
            return await asyncio.gather(
                *(backend.aedit(path, f"<{number}>", f"[{number}]") for number in numbers),
                backend.aexecute(f"for i in $(seq 200); do echo line >> {path}; done"),
            )

        backend.upload_files([(path, "".join(f"<{number}>" for number in numbers).encode() + b"\n")])
        *edits, _ = asyncio.run(changes())
        assert [edit.error for edit in edits] == [None] * len(edits)
        assert content(backend, path).decode() == "".join(f"[{n}]" for n in numbers) + "\n" + "line\n" * 200
        backend.execute(f"(echo first; sleep 4; echo last) > {place}/log & sleep .2")
        assert "has the file open for writing" in str(backend.edit(f"{place}/log", "first", "x").error)
        assert backend.execute(f"sleep 2; cat {place}/log").output == "first\nlast\n"

    def test_edit_through_a_link_keeps_the_link(self, backend: Backend, place: str) -> None:
        backend.execute(f"echo old > {place}/file; ln -s file {place}/link")
        assert backend.edit(f"{place}/link", "old", "new").error is None
        assert backend.execute(f"readlink {place}/link; cat {place}/file").output == "file\nnew\n"

    def test_edit_of_a_read_only_file_is_refused(self, backend: Backend, place: str) -> None:
        backend.execute(f"echo old > {place}/file; chmod 444 {place}/file")
        assert "ermission denied" in (backend.edit(f"{place}/file", "old", "new").error or "")
        assert "Read-only file system" in (backend.edit("/etc/hostname", "s", "t").error or "")
        assert content(backend, f"{place}/file") == b"old\n"


class TestPaths:
    def test_file_tools_commands_and_host_see_the_same_file(self, backend: Backend, engines: Engines) -> None:
        name = f"x-{os.urandom(4).hex()}.txt"
        for first, second in (
            (f"/data/{name}", f"/workspace/data/{name}"),
            (f"/results/{name}",) * 2,
            (f"/tmp/{name}",) * 2,
        ):
            assert backend.write(first, "first").error is None
            assert backend.execute(f"cat {second}").output == "first"
            backend.execute(f"echo -n second > {second}")
            assert content(backend, first) == b"second"
            assert backend.edit(second, "second", "third").error is None
            assert shown(backend.read(first)) == "third"
        assert engines.on_host(backend.sandbox, f"data/{name}").read_text() == "third"


class TestContent:
    def test_page_of_a_long_file_and_of_a_long_line(self, backend: Backend, place: str) -> None:
        backend.execute(
            f"seq 1000000 > {place}/lines.txt; head -c 30000000 {place}/lines.txt | tr '\\n' x "
            f"> {place}/line.txt"
        )
        assert shown(backend.read(f"{place}/lines.txt", 900_000, 3)) == "900001\n900002\n900003"
        assert backend.read(f"{place}/lines.txt", 1_000_000, 3).error
        assert 1_000 < len(shown(backend.read(f"{place}/line.txt"))) < 1_000_000

    def test_each_file_of_an_upload_or_download_has_its_own_error(self, backend: Backend, place: str) -> None:
        backend.execute(f"cd {place}; mkdir d; echo x > closed; chmod 0 closed; mkdir shut; chmod 0 shut")
        paths = ["d", "closed", "shut/x", "good"]
        uploads = backend.upload_files([(f"{place}/{path}", b"x") for path in paths])
        errors = ["is_directory", "permission_denied", "permission_denied", None]
        assert [answer.error for answer in uploads] == errors
        downloads = backend.download_files([f"{place}/{path}" for path in [*paths, "none"]])
        assert [answer.error for answer in downloads] == [*errors, "file_not_found"]
        assert [answer.content for answer in downloads] == [None, None, None, b"x", None]

    @pytest.mark.thorough
    def test_download_over_the_limit_is_refused(self, tmp_path: Path) -> None:
        """A sparse file can have any size. The process may use 1.5 GB."""
        finished(f"""
            import resource
            from pathlib import Path
            from libs.backends.docker import DockerExecutionBackend as Backend

            root = Path({str(tmp_path)!r})
            with Backend(root, image={IMAGE!r}, runtime={RUNTIME!r}, name="test-large") as backend:
                backend.execute("truncate -s 3G /workspace/large")
                resource.setrlimit(resource.RLIMIT_AS, (1500 * 2**20, resource.RLIM_INFINITY))
                (answer,) = backend.download_files(["/workspace/large"])
                assert answer.content is None
                assert answer.error
                assert backend.execute("echo on").output == "on\\n"
        """)

    def test_replaced_file_is_always_complete(self, backend: Backend, place: str, engines: Engines) -> None:
        """For a command that reads all the time, and for the host."""
        versions = [bytes([65 + i]) * 300_000 for i in range(8)]
        path = f"{place}/whole"
        backend.upload_files([(path, versions[0])])
        seen_from = engines.on_host(backend.sandbox, path.removeprefix("/workspace/"))
        check = (
            f"import os\nwhile not os.path.exists('{place}/stop'):\n"
            f"    data = open('{path}', 'rb').read()\n    assert len(data) == 300000 and len(set(data)) == 1"
        )
        reader: list[Any] = []
        thread = threading.Thread(
            target=lambda: reader.append(backend.execute(f'python3 -c "{check}"', timeout=60))
        )
        thread.start()
        replaced, least = 0, time.monotonic() + 2
        while thread.is_alive():
            backend.upload_files([(path, versions[replaced % 8])])
            backend.edit(path, "A" * 300_000, "B" * 300_000)
            data = seen_from.read_bytes()
            assert len(data) == 300_000
            assert len(set(data)) == 1
            replaced += 1
            if replaced >= 3 and time.monotonic() > least:
                seen_from.with_name("stop").touch()
        assert (reader[0].exit_code, reader[0].output) == (0, "")

    def test_cancelled_upload_leaves_nothing(self, backend: Backend, place: str) -> None:
        async def broken_off(seconds: float) -> None:
            task = asyncio.create_task(backend.aupload_files([(f"{place}/cut", b"x" * 100_000_000)]))
            await asyncio.sleep(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        for seconds in (0.05, 0.1, 0.2):
            asyncio.run(broken_off(seconds))
        assert backend.write(f"{place}/after", "x").error is None
        time.sleep(0.5)
        left = set(backend.execute(f"cd {place}; ls -A").output.split())
        assert left in ({"after"}, {"after", "cut"})
        if "cut" in left:  # it was faster
            assert backend.execute(f"wc -c < {place}/cut").output == "100000000\n"

    def test_upload_to_a_killed_container_leaves_nothing(
        self, make_backend: Callable[[], Backend], engines: Engines
    ) -> None:
        with make_backend() as backend:
            backend.execute("true")
            upload = threading.Thread(
                target=backend.upload_files, args=([("/workspace/f", bytes(200_000_000))],)
            )
            upload.start()
            time.sleep(0.2)
            engines.kill(getattr(backend.sandbox, "container_name", None))
            upload.join()
            backend.execute("true")
            left = {path.name for path in engines.on_host(backend.sandbox).iterdir()}
        assert left == {"data", "scripts", "results"}
