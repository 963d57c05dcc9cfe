"""The sandbox objects of threads, without Docker."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.sandbox import SandboxError
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.host import OUTSIDE, Channel
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.thread_notes import NewSandboxNotes
from libs.sandbox.pool.by_thread import SandboxesByThread
from libs.sandbox.pool.per_thread import SandboxPool
from libs.sandbox.workspace import Folders, thread_folder
from tests.support.sandboxes import NEW_INTERPRETER, NEW_SANDBOX
from tests.support.waiting import eventually

OTHER_FOLDER = (
    "[a new sandbox runs this: the workspace folder was replaced by another one, so its files may differ; "
    "files outside of it and programs in the background are gone]\n"
)


def make(root: Path, thread: str | None, **more: Any) -> DockerSandbox:
    return DockerSandbox(root, image="none", name=f"pool-{thread}", **more)


def test_thread_keeps_its_sandbox_beside_many_others(tmp_path: Path) -> None:
    pool = SandboxPool(tmp_path, make, warm=0)
    held = pool.sandbox_for("held")
    for number in range(3_000):
        pool.sandbox_for(f"t{number}")
    assert pool.sandbox_for("held") is held
    assert pool.sandbox_for("t2999") is pool.sandbox_for("t2999")


def test_number_of_kept_sandbox_objects_is_limited(tmp_path: Path) -> None:
    """A program may serve any number of threads."""
    pool = SandboxPool(tmp_path, make, warm=0)
    made = [weakref.ref(pool.sandbox_for(f"t{number}")) for number in range(3_000)]
    gc.collect()
    assert sum(sandbox() is not None for sandbox in made) <= 1_000
    assert made[-1]() is not None


@pytest.fixture
def sandboxes(tmp_path: Path) -> Iterator[SandboxesByThread[LocalSandbox]]:
    made = SandboxesByThread(lambda _, name: LocalSandbox(tmp_path / name, thread=lambda: "thread"))
    yield made
    made.close()


@pytest.mark.parametrize("end", ["close", "many other threads", "replaced folder"])
def test_next_sandbox_object_of_a_thread_says_what_is_gone(
    sandboxes: SandboxesByThread[LocalSandbox], end: str
) -> None:
    note = NEW_SANDBOX

    def outputs() -> list[str]:
        sandbox = sandboxes.sandbox_for("thread")
        command = sandbox.run("echo on", note_new=True).output
        block = sandbox.run_python("'kept' in globals()", session="s", note_new=True).output
        sandbox.run_python("kept = 1", session="s")
        return [command, block]

    assert outputs() == ["on\n", "False\n"]
    assert outputs() == ["on\n", "True\n"]
    stopped = sandboxes.sandbox_for("thread")
    root = stopped.root
    sandboxes.close()
    if end == "many other threads":
        of_thread = weakref.ref(stopped)
        del stopped
        for number in range(1_001):
            sandboxes.sandbox_for(f"t{number}")
        eventually(lambda: gc.collect() >= 0 and of_thread() is None)
    if end == "replaced folder":
        root.rename(f"{root}-moved")
        root.mkdir()
        note = OTHER_FOLDER
    assert outputs() == [f"{note}on\n", f"{NEW_INTERPRETER}False\n"]
    assert outputs() == ["on\n", "True\n"]


def test_other_sandbox_object_with_the_folder_says_what_is_not_there(tmp_path: Path) -> None:
    def command(sandbox: LocalSandbox, thread: str = "thread") -> str:
        threads.append(thread)
        return sandbox.run("echo on", note_new=True).output

    threads: list[str] = []
    with LocalSandbox(tmp_path / "one", thread=lambda: threads[-1]) as first:
        assert command(first) == "on\n"
        with LocalSandbox(tmp_path / "one", thread=lambda: threads[-1]) as second:
            assert command(second, "another thread") == "on\n"
            assert [command(second), command(second)] == [f"{NEW_SANDBOX}on\n", "on\n"]
            with LocalSandbox(tmp_path / "two", thread=lambda: threads[-1]) as elsewhere:
                assert command(elsewhere) == "on\n"
            assert command(first).startswith("[another sandbox than before runs this: ")
            assert command(first) == "on\n"
            assert [command(each, OUTSIDE) for each in (first, second)] == ["on\n", "on\n"]
            first.close()
            assert command(first, OUTSIDE) == f"{NEW_SANDBOX}on\n"
            assert command(first) == f"{NEW_SANDBOX}on\n"
        first.close()
        assert [command(first), command(first)] == [f"{NEW_SANDBOX}on\n", "on\n"]


def test_note_about_a_new_sandbox_names_other_folders_that_were_replaced() -> None:
    notes = NewSandboxNotes()
    data: dict[str, tuple[int, int] | None] = {}
    mounts: set[bytes] = set()

    def told(sandbox: int) -> str:
        folders = Folders(((1, 0), *data.values()), frozenset(mounts))
        notes.started(sandbox, folders, tuple(data), made=False)
        note = notes.note("thread", sandbox, notes, filled=False, earlier=False)
        notes.called("thread", sandbox, notes)
        return note

    assert told(0) == ""
    data |= {"/data": (1, 1), "/skills": (1, 2)}
    assert [told(1), told(2)] == [NEW_SANDBOX, NEW_SANDBOX], "the first known folders replace no others"
    data["/data"] = (1, 3)
    other = "[/data: another folder than before on the host, so its files may differ]\n"
    assert [told(3), told(4)] == [NEW_SANDBOX + other, NEW_SANDBOX]
    data["/skills"] = None
    assert told(5) == NEW_SANDBOX
    mounts.add(b"32 /workspace/data")
    below = (
        "[on the host, a file system was mounted below the workspace or a mounted folder, or was unmounted: "
        "files there may differ]\n"
    )
    assert [told(6), told(7)] == [NEW_SANDBOX + below, NEW_SANDBOX]
    mounts.clear()
    assert told(8) == NEW_SANDBOX + below


@pytest.mark.parametrize("made", [True, False])
def test_folder_that_a_start_has_made_is_another_one_whatever_its_inode(*, made: bool) -> None:
    notes, folders = NewSandboxNotes(), Folders(((1, 1),))
    notes.started(1, folders, (), made=True)
    notes.called("thread", 1, notes)
    notes.started(2, folders, (), made=made)
    note = notes.note("thread", 2, notes, filled=False, earlier=False)
    assert ("the workspace folder was replaced" in note) is made


@pytest.mark.parametrize("makes", [True, False])
def test_folder_that_a_failed_start_has_made_is_another_one(tmp_path: Path, *, makes: bool) -> None:
    root = tmp_path / "workspace"

    class Failing(LocalSandbox):
        def _connect(self) -> Channel:
            if not root.exists():
                if makes:
                    root.mkdir()
                raise SandboxError("It does not start.", hint="")
            return super()._connect()

    root.mkdir()
    with Failing(root) as sandbox:
        sandbox.run("true", note_new=True)
        sandbox.close()
        root.rename(tmp_path / "moved")
        with pytest.raises(SandboxError):
            sandbox.run("true", note_new=True)
        if makes:
            root.rmdir()
        (tmp_path / "moved").rename(root)  # the inode of the folder before
        assert sandbox.run("true", note_new=True).output == (OTHER_FOLDER if makes else NEW_SANDBOX)


def test_each_thread_id_has_its_own_folder_name() -> None:
    odd = ["..", ".", "", "a/../../b", "/etc", ".spare-12345678", "x" * 5_000, "a\0b", "é", "\ud800", "-rf"]
    for thread in odd:
        name = thread_folder(thread)
        assert "/" not in name
        assert not name.startswith(".")
        assert 0 < len(name.encode()) <= 100
    alike = ["a", "A", "a ", " a", "a/", "/a", "á", "a\0", "a\n", thread_folder("A"), thread_folder("A")[1:]]
    assert len({thread_folder(thread).lower() for thread in alike}) == len(alike)
