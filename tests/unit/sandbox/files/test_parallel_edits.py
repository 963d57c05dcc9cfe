"""An edit loses nothing that another edit, an upload or a program writes to the same file."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.sandbox import FileFailed, WorkspaceMissing
from libs.sandbox.guest.files import disk, rewrite
from libs.sandbox.guest.files.disk import InUse, new_file, write_all
from libs.sandbox.guest.files.text_files import edit
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.waiting import eventually


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalSandbox(tmp_path / "root") as sandbox:
        sandbox.run("true")
        yield sandbox


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"old\n")
    return path


@pytest.fixture
def without_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without leases."""
    real = fcntl.fcntl

    def refused(file: int, what: int, *value: Any) -> Any:
        if what == fcntl.F_SETLEASE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(file, what, *value)

    monkeypatch.setattr(fcntl, "fcntl", refused)


def names(file: Path) -> list[str]:
    return sorted(path.name for path in file.parent.iterdir())


def opened_elsewhere(file: Path) -> bool:
    """Return whether another process has the file open."""
    numbers = [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
    for process in {*numbers} - {str(os.getpid())}:
        with contextlib.suppress(OSError):  # the process has ended
            if any(opened.readlink() == file for opened in Path(f"/proc/{process}/fd").iterdir()):
                return True
    return False


class TestInTheSandbox:
    def test_edit_of_a_workspace_that_is_removed_meanwhile_says_so(self, sandbox: LocalSandbox) -> None:
        path = sandbox.root / "file"
        path.write_text("old\n")
        with path.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)

            def remove() -> None:
                try:
                    eventually(lambda: opened_elsewhere(path))
                    shutil.rmtree(sandbox.root)
                finally:
                    fcntl.flock(held, fcntl.LOCK_UN)

            later = threading.Thread(target=remove)
            later.start()
            with pytest.raises(WorkspaceMissing, match="the workspace folder was removed on this machine"):
                sandbox.file("edit", path=str(path), old="old", new="new", replace_all=False)
            later.join()

    def test_every_one_of_many_edits_is_kept(self, sandbox: LocalSandbox) -> None:
        path = sandbox.root / "many"
        path.write_text("".join(f"<{number}>" for number in range(20)))

        async def edits() -> None:
            await asyncio.gather(
                *(
                    sandbox.afile("edit", path=str(path), old=f"<{n}>", new=f"[{n}]", replace_all=False)
                    for n in range(20)
                )
            )

        asyncio.run(edits())
        assert path.read_text() == "".join(f"[{number}]" for number in range(20))

    def test_lines_that_a_command_appends_are_kept(self, sandbox: LocalSandbox) -> None:
        path = sandbox.root / "log"

        async def both() -> None:
            await asyncio.gather(
                sandbox.arun(f"for i in $(seq 300); do echo line >> {path}; done"),
                sandbox.afile("edit", path=str(path), old="HEAD", new="TAIL", replace_all=False),
            )

        for _ in range(5):
            path.write_bytes(b"HEAD\n" + b"x" * 3_000_000 + b"\n")
            asyncio.run(both())
            content = path.read_bytes()
            assert content.startswith(b"TAIL\n")
            assert content.count(b"line\n") == 300

    def test_file_that_changes_while_it_is_read_is_not_returned(self, sandbox: LocalSandbox) -> None:
        path = sandbox.root / "file"
        path.write_bytes(b"A" * 50_000_000)

        async def both() -> None:
            change = (
                f"for i in $(seq 20); do printf B | dd of={path} conv=notrunc status=none; sleep .02; done"
            )
            command = asyncio.create_task(sandbox.arun(change))
            await asyncio.sleep(0.1)
            with pytest.raises(FileFailed, match="changed the file while it was read") as failed:
                await sandbox.afile("read", path=str(path))
            assert failed.value.code == "in_use"
            await command

        asyncio.run(both())
        assert sandbox.read_file(str(path)).startswith(b"BA")


class TestPrograms:
    def test_file_that_a_program_writes_is_not_changed(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rewrite, "_WRITER_SECONDS", 0.1)
        with file.open("a"), pytest.raises(InUse, match="has the file open for writing"):
            edit(str(file), "old", "new", replace_all=False)
        assert file.read_bytes() == b"old\n"
        with file.open():  # a reader is no reason
            assert edit(str(file), "old", "new", replace_all=False) == {"count": 1}

    def test_mode_that_is_set_while_the_new_content_comes_is_kept(self, file: Path) -> None:
        with new_file(str(file), replace=True) as new:
            write_all(new, b"new")
            file.chmod(0o700)
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o700)

    def test_locked_file_is_not_changed(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disk, "LOCK_SECONDS", 0.1)
        monkeypatch.setattr(rewrite, "LOCK_SECONDS", 0.1)
        with file.open() as program:
            fcntl.flock(program, fcntl.LOCK_SH)
            with pytest.raises(InUse, match="holds a lock"):
                edit(str(file), "old", "new", replace_all=False)
            with pytest.raises(InUse, match="holds a lock"), new_file(str(file), replace=True) as new:
                write_all(new, b"new")
        assert (file.read_bytes(), names(file)) == (b"old\n", ["file"])

    def test_program_that_opens_the_file_in_the_last_moment(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The program's `open` returns the old file, which therefore gets its name back."""
        real = os.replace
        programs: list[threading.Thread] = []

        def append() -> None:
            with file.open("ab") as program:
                program.write(b"appended\n")

        def late(*args: Any, **more: Any) -> None:
            if not programs:
                programs.append(threading.Thread(target=append))
                programs[0].start()
                time.sleep(0.5)
            real(*args, **more)

        monkeypatch.setattr(os, "replace", late)
        assert edit(str(file), "old", "new", replace_all=False) == {"count": 1}
        programs[0].join()
        assert (file.read_bytes(), names(file)) == (b"new\nappended\n", ["file"])

    @pytest.mark.usefixtures("without_leases")
    @pytest.mark.parametrize("when", ["link", "replace"])
    def test_change_without_leases_is_noticed(
        self, file: Path, monkeypatch: pytest.MonkeyPatch, when: str
    ) -> None:
        real = getattr(os, when)
        left = [b"appended\n"]

        def late(*args: Any, **more: Any) -> None:
            if left:
                with file.open("ab") as program:
                    program.write(left.pop())
            real(*args, **more)

        monkeypatch.setattr(os, when, late)
        assert edit(str(file), "old", "new", replace_all=False) == {"count": 1}
        assert (file.read_bytes(), names(file)) == (b"new\nappended\n", ["file"])

    def test_file_that_is_replaced_or_removed_meanwhile(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.link
        steps = [lambda: file.with_name("another").replace(file), file.unlink]

        def late(*args: Any, **more: Any) -> None:
            if steps:
                steps.pop(0)()
            real(*args, **more)

        file.with_name("another").write_bytes(b"old, but another\n")
        monkeypatch.setattr(os, "link", late)
        with pytest.raises(FileNotFoundError):
            edit(str(file), "old", "new", replace_all=False)
        assert names(file) == []


class TestUpload:
    def test_edit_waits_for_the_end_of_an_upload(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.replace
        edits: list[threading.Thread] = []

        def late(*args: Any, **more: Any) -> None:
            if not edits:
                edits.append(threading.Thread(target=edit, args=(str(file), "old", "new", False)))
                edits[0].start()
                time.sleep(0.3)
                assert file.read_bytes() == b"old\n"
            real(*args, **more)

        monkeypatch.setattr(os, "replace", late)
        with new_file(str(file), replace=True) as upload:
            write_all(upload, b"old, uploaded\n")
        edits[0].join()
        assert file.read_bytes() == b"new, uploaded\n"

    def test_file_that_cannot_be_read_is_replaced(self, file: Path) -> None:
        file.chmod(0o200)
        with new_file(str(file), replace=True) as upload:
            write_all(upload, b"new")
        file.chmod(0o600)
        assert file.read_bytes() == b"new"


def test_edit_keeps_mode_and_attributes(file: Path) -> None:
    os.setxattr(file, "user.note", b"kept")
    file.chmod(0o4751)
    edit(str(file), "old", "new", replace_all=False)
    assert os.getxattr(file, "user.note") == b"kept"
    assert file.stat().st_mode & 0o7777 == 0o4751


def test_edit_leaves_other_names_of_the_file_as_they_are(file: Path) -> None:
    file.with_name("other").hardlink_to(file)
    assert edit(str(file), "old", "new", replace_all=False) == {"count": 1}
    assert (file.read_bytes(), file.with_name("other").read_bytes()) == (b"new\n", b"old\n")
