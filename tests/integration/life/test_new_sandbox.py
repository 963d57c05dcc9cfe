"""The output of a thread's first call in another sandbox begins with a note."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from contextvars import ContextVar
from pathlib import Path

import pytest

from libs.sandbox import SandboxDied
from libs.sandbox.host import OUTSIDE, CommandRecords
from libs.sandbox.host.local_sandbox import LocalSandbox
from libs.sandbox.host.records import log_file
from libs.sandbox.host.records.command_log import Entry
from tests.support.sandboxes import NEW_INTERPRETER, NEW_SANDBOX

thread = ContextVar("thread", default="1")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalSandbox(tmp_path / "workspace", thread=thread.get) as sandbox:
        yield sandbox


def noted(sandbox: LocalSandbox, of: str = "1", key: str | None = None) -> bool:
    """Run a command of a thread, and return whether its output begins with the note."""
    token = thread.set(of)
    output = sandbox.run("echo on", note_new=True, key=key).output
    thread.reset(token)
    assert output in ("on\n", f"{NEW_SANDBOX}on\n")
    return output != "on\n"


def test_call_that_died_with_its_sandbox_counts(sandbox: LocalSandbox) -> None:
    with pytest.raises(SandboxDied):
        sandbox.run("kill -9 $(ps -o ppid= $PPID); sleep 20", note_new=True)
    assert noted(sandbox)


@pytest.mark.parametrize("end", ["close", "kill"])
def test_each_thread_is_told_once_of_its_new_sandbox(sandbox: LocalSandbox, end: str) -> None:
    assert [noted(sandbox, of) for of in ("1", "2", "1")] == [False] * 3
    for _ in range(2):
        if end == "close":
            sandbox.close()
        else:
            assert sandbox.process and sandbox._channel
            sandbox.process.kill()
            sandbox._channel._reader.join(20)
        assert sandbox.run("echo on").output == "on\n", "a call of the program itself takes no note"
        assert [noted(sandbox, of) for of in ("2", "1", "1", "2")] == [True, True, False, False]
    assert not noted(sandbox, "3")


def test_a_block_is_told_of_its_new_sandbox_before_its_new_interpreter(sandbox: LocalSandbox) -> None:
    sandbox.run_python("x = 1", session="s", note_new=True)
    sandbox.close()
    block = sandbox.run_python("print(2)", session="s", note_new=True)
    assert block.output == f"{NEW_SANDBOX}{NEW_INTERPRETER}2\n"
    assert not noted(sandbox)


async def test_call_that_is_cancelled_while_its_result_is_recorded_has_told_nobody(tmp_path: Path) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(CommandRecords):
        def end(self, entry: Entry, result: str) -> None:
            loop.call_soon_threadsafe(ended.set)
            time.sleep(0.5)
            super().end(entry, result)

    with (
        closing(Slow(tmp_path / "commands.sqlite")) as records,
        LocalSandbox(tmp_path / "workspace", records=records, thread=thread.get) as sandbox,
    ):
        await sandbox.arun("echo on", note_new=True)
        await sandbox.areset()
        call = asyncio.create_task(sandbox.arun("echo on", note_new=True, key="1"))
        await ended.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await sandbox.arun("echo on", note_new=True)).output == f"{NEW_SANDBOX}on\n"


@pytest.mark.parametrize("how", ["running", "closed", "closed and removed"])
def test_note_says_that_the_workspace_folder_was_replaced(sandbox: LocalSandbox, how: str) -> None:
    live: list[bytes] = []
    sandbox.run("echo 1 > kept", note_new=True)
    if how != "running":
        sandbox.close()
    if how == "closed and removed":
        shutil.rmtree(sandbox.root)  # the new folder often has the same inode
    else:
        sandbox.root.rename(sandbox.root.with_name("old"))
        sandbox.root.mkdir()
    if how == "running":
        time.sleep(1.1)  # the folder is looked at once in a second
    output = sandbox.run("ls", note_new=True, on_output=live.append).output
    assert output == b"".join(live).decode()
    assert "the workspace folder was replaced by another one, so its files may differ" in output
    assert not noted(sandbox)
    sandbox.close()
    assert noted(sandbox)


def test_live_output_begins_with_the_note(sandbox: LocalSandbox) -> None:
    live: list[bytes] = []
    sandbox.run("true", note_new=True, on_output=live.append)
    sandbox.close()
    for _ in range(2):
        sandbox.run("echo on", note_new=True, on_output=live.append)
    sandbox.close()
    sandbox.run_python("print(2)", session="s", note_new=True, on_output=live.append)
    assert b"".join(live).decode() == f"{NEW_SANDBOX}on\non\n{NEW_SANDBOX}2\n"


def test_calls_of_earlier_programs_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def new() -> tuple[CommandRecords, LocalSandbox]:
        records = CommandRecords(tmp_path / "records.sqlite")
        return records, LocalSandbox(tmp_path / "workspace", records=records, thread=thread.get)

    records, sandbox = new()
    with closing(records), sandbox:
        sandbox.file("write", path="a", replace=True, content=b"", key="1")
    monkeypatch.setattr(log_file, "owner_label", lambda: "a later program")
    records, sandbox = new()
    with closing(records), sandbox:
        sandbox.file("write", path="b", replace=True, content=b"", key="2")
        assert noted(sandbox, key="3")
        assert noted(sandbox, key="3"), "the recorded result has the note"
        assert not noted(sandbox, key="4")
        assert not noted(sandbox, "2", key="3")


def test_calls_outside_of_threads_are_not_those_of_an_earlier_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for label in ("an earlier program", "a later program"):
        monkeypatch.setattr(log_file, "owner_label", lambda label=label: label)
        records = CommandRecords(tmp_path / "records.sqlite")
        with closing(records), LocalSandbox(tmp_path, records=records, thread=thread.get) as sandbox:
            assert not noted(sandbox, OUTSIDE, key=label)


def test_a_file_change_counts_as_a_call(tmp_path: Path) -> None:
    records = CommandRecords(tmp_path / "records.sqlite")
    with closing(records), LocalSandbox(tmp_path / "workspace", records=records) as sandbox:
        sandbox.file("write", path="a", replace=True, content=b"", key="1")
        sandbox.close()
        assert noted(sandbox)
