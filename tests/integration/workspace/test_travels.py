"""Workspaces that travel: two servers with one store, whose sandboxes start empty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from agent.parts.workspace_captures import DeferredCaptures
from agent.settings import load_settings
from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox import RecordUnavailable, SandboxDied, SandboxError
from libs.sandbox.host import CommandRecords
from libs.workspace import Contents, WorkspaceStore
from libs.workspace.history import FilesNotKept, Unkept
from libs.workspace.ledger import ClaimLost
from tests.support.programs import python
from tests.support.waiting import eventually
from tests.support.workspaces.captured_threads import CapturedThreads
from tests.support.workspaces.empty_starts import EmptyStart

NEW = (
    "[a new sandbox runs this: the workspace is as after the latest step whose files were kept; files "
    "outside of it and programs in the background are gone]\n"
)

Begin = Callable[[str], CapturedThreads]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begin a server by its name."""
    with ExitStack() as stack:

        def begun(name: str) -> CapturedThreads:
            database = SqliteDatabase(tmp_path / "threads.sqlite")
            stack.callback(database.close)
            return stack.enter_context(CapturedThreads(tmp_path, database, shared=False, travels=name))

        yield begun


@pytest.fixture
def server(begin: Begin) -> CapturedThreads:
    return begin("first")


def sandbox_of(server: CapturedThreads) -> EmptyStart:
    sandbox = server.sandbox_of("t")
    assert isinstance(sandbox, EmptyStart)
    return sandbox


async def kill(server: CapturedThreads) -> None:
    await asyncio.to_thread(sandbox_of(server).kill)


async def unkept(server: CapturedThreads) -> Unkept | None:
    travels = server.history.captures.travels
    assert travels is not None
    return await travels.unkept("t")


async def test_kept_files_are_there_after_the_machine_was_lost(server: CapturedThreads) -> None:
    await server.turn("mkdir d; echo 1 > d/a; chmod 600 d/a; ln -s d/a link", "echo 2 > b")
    await kill(server)
    assert await server.output("cat d/a link b; stat -c %a d/a") == f"{NEW}1\n1\n2\n600\n"
    assert await unkept(server) is None


async def test_step_is_acknowledged_when_it_is_kept(server: CapturedThreads) -> None:
    await server.turn("echo 1 > a")
    await server.command("echo 2 > a")
    ticket = await server.history.captures.after_step("t")
    await kill(server)
    assert await unkept(server) is None
    [path] = [path for path in (await server.history.files.at("t", ticket)).entries if path.endswith("/a")]
    assert await server.output("cat a") == f"{NEW}2\n", path


async def test_step_that_ended_with_its_sandbox_is_not_acknowledged(server: CapturedThreads) -> None:
    await server.turn("echo 1 > a")
    await server.command("echo 2 > a")
    await kill(server)
    ticket = await server.history.captures.after_step("t")
    lost = await unkept(server)
    assert lost is not None
    assert lost.lost == "the sandbox ended before its files were kept"
    assert sandbox_of(server).starts == 1, "nothing is started to be captured"
    assert await unkept(server) is None, "this is told once"
    number, instead = await server.history.files.capture_at("t", ticket)
    assert number is not None
    assert instead is not None
    assert await server.output("cat a") == f"{NEW}1\n"


async def test_step_is_lost_if_another_command_started_a_new_sandbox_before(server: CapturedThreads) -> None:
    """Two calls of one reply: the machine is lost after the first, and the second runs elsewhere."""
    await server.turn("echo 1 > a")
    await server.command("echo 2 > a")
    await kill(server)
    await server.command("echo > b")
    await server.history.captures.after_step("t")
    lost = await unkept(server)
    assert lost is not None
    assert lost.lost


async def test_command_that_died_with_its_sandbox_is_no_acknowledged_step(server: CapturedThreads) -> None:
    await server.turn("echo 1 > a")
    running = asyncio.create_task(server.command("echo 2 > a; touch begun; sleep 60"))
    await asyncio.to_thread(eventually, (sandbox_of(server).root / "begun").exists)
    await kill(server)
    with pytest.raises(SandboxDied):
        await running
    await server.history.captures.after_step("t")
    assert await unkept(server) is not None
    assert await server.output("ls") == f"{NEW}a\n"


async def test_failed_capture_is_told_and_the_next_one_keeps_all(
    server: CapturedThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.turn("echo 1 > a")
    with monkeypatch.context() as patch:
        patch.setattr(Contents, "put", lambda *_: 1 / 0)
        await server.command("echo 2 > a")
        await server.history.captures.after_step("t")
        failed = await unkept(server)
    assert failed is not None
    assert (failed.lost, "ZeroDivisionError" in failed.failed) == ("", True)
    await server.command("echo 3 > b")
    await server.history.captures.after_step("t")
    assert await unkept(server) is None
    await kill(server)
    assert await server.output("cat a b") == f"{NEW}2\n3\n"


async def test_file_that_captures_leave_out_is_told_once(
    server: CapturedThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.history.captures.store, "_file_max", 1_000)
    await server.history.captures.begin_turn("t")
    for _ in range(2):
        await server.command("head -c 2000 /dev/zero > big; echo 1 > a")
        await server.history.captures.after_step("t")
    told = await unkept(server)
    assert told is not None
    assert (told.lost, told.failed, list(told.skipped)) == ("", "", ["/workspace/big"])


async def test_sandbox_that_cannot_be_filled_is_not_used(
    server: CapturedThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.turn("echo 1 > a")
    await kill(server)
    with monkeypatch.context() as patch:
        patch.setattr(WorkspaceStore, "arestore", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await server.command("echo 2 > a")
    with monkeypatch.context() as patch:
        patch.setattr(Contents, "get", lambda *_: 1 / 0)
        with pytest.raises((FilesNotKept, ZeroDivisionError)):
            await server.command("echo 2 > a")
    assert not sandbox_of(server).running
    assert await server.output("cat a") == f"{NEW}1\n"


async def test_later_server_wins(begin: Begin) -> None:
    first, second = begin("first"), begin("second")
    await first.turn("echo 1 > a")
    await second.turn("cat a; echo 2 > a")

    with pytest.raises(ClaimLost):
        await first.command("echo lost > a")
    assert not first.sandbox_of("t").running
    await first.command("test $(cat a) = 2; echo 3 > a")
    await first.history.captures.after_step("t")
    assert await unkept(first) is None

    with pytest.raises(ClaimLost):
        await second.command("echo lost > a")
    await second.command("test $(cat a) = 3")


async def test_stale_sandbox_reads_no_file(begin: Begin) -> None:
    first, second = begin("first"), begin("second")
    await first.turn("echo 1 > a")
    await second.turn("echo 2 > a")
    with pytest.raises(ClaimLost):
        await sandbox_of(first).aread_file(str(first.path("a")))
    assert not sandbox_of(first).running
    await sandbox_of(first).astart()
    assert await sandbox_of(first).aread_file(str(first.path("a"))) == b"2\n"


async def test_capture_of_a_stale_sandbox_is_refused(begin: Begin) -> None:
    """The machine was cut off while a command ran; the thread went on elsewhere."""
    first, second = begin("first"), begin("second")
    await first.turn("echo 1 > a")
    await first.command("echo stale > a")
    await second.turn("echo 2 > a")
    await first.history.captures.after_step("t")
    lost = await unkept(first)
    assert lost is not None
    assert "Another server" in lost.failed + lost.lost or lost.lost
    assert not first.sandbox_of("t").running
    assert await second.output("cat a") == "2\n"
    await second.history.captures.after_step("t")
    assert await unkept(second) is None


async def test_generations_are_never_used_again(server: CapturedThreads) -> None:
    claims = server.history.ledger.claims
    seen = [await claims.claim(thread) for thread in ("t", "u", "t")]
    assert [await claims.holds("t", each) for each in seen] == [False, False, True]
    database = server.history.ledger._database
    database.wait(lambda do: do("DELETE FROM workspace_claims"))
    assert await claims.claim("t") > max(seen)


async def test_command_does_not_run_if_its_claim_cannot_be_checked(
    server: CapturedThreads, tmp_path: Path
) -> None:
    await server.turn("echo 1 > a")
    (tmp_path / "threads.sqlite").rename(tmp_path / "gone")
    (tmp_path / "threads.sqlite").mkdir()
    with pytest.raises(RecordUnavailable):
        await server.command("echo 2 > a")
    (tmp_path / "threads.sqlite").rmdir()
    (tmp_path / "gone").rename(tmp_path / "threads.sqlite")
    assert await server.output("cat a") == "1\n"


KILLED_SERVER = """
import asyncio, os, sys
from pathlib import Path
from libs.persistence.thread_database import SqliteDatabase
from libs.sandbox.host import CommandRecords
from tests.support.workspaces.captured_threads import CapturedThreads

async def main():
    folder = Path(os.environ["FOLDER"])
    database, records = SqliteDatabase(folder / "threads.sqlite"), CommandRecords(folder / "commands.sqlite")
    with CapturedThreads(folder, database, shared=False, records=records, travels="first") as server:
        await server.turn("echo 1 > a")
        await server.command("echo 2 > a", key="call")
        if os.environ["KEPT"]:
            await server.history.captures.after_step("t")
        print("ended", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kept", ["kept", ""])
async def test_recorded_result_of_a_killed_server_is_told_apart_if_its_files_are_lost(
    tmp_path: Path, kept: str
) -> None:
    """A server is killed right before or after the capture of a step. Another one asks for the step again."""
    with python(KILLED_SERVER, FOLDER=str(tmp_path), KEPT=kept) as killed:
        assert killed.stdout
        assert await asyncio.to_thread(killed.stdout.readline) == "ended\n"
        killed.kill()
    with (
        closing(SqliteDatabase(tmp_path / "threads.sqlite")) as database,
        closing(CommandRecords(tmp_path / "commands.sqlite")) as records,
        CapturedThreads(tmp_path, database, shared=False, records=records, travels="second") as server,
    ):
        await server.command("echo 2 > a", key="call")
        await server.history.captures.after_step("t")
        told = await unkept(server)
        assert bool(told and told.lost) is not bool(kept)
        await server.command(f"test $(cat a) = {2 if kept else 1}; echo 3 > a")
        await server.history.captures.after_step("t")
        assert await unkept(server) is None, "this is told once"


async def test_closing_keeps_what_changed_since_the_latest_step(server: CapturedThreads) -> None:
    await server.turn("echo 1 > a")
    (sandbox_of(server).root / "b").write_text("by a program in the background\n")
    await sandbox_of(server).aclose()
    assert await server.output("cat a b") == f"{NEW}1\nby a program in the background\n"


async def test_thread_goes_back_and_returns_wherever_its_sandbox_runs(begin: Begin) -> None:
    first, second = begin("first"), begin("second")
    one = await first.turn("echo 1 > a")
    await first.turn("echo 2 > a; echo > b")
    dry = await second.history.go_back("t", one, dry_run=True)
    assert set(dry.restored.difference) == {"/workspace/a", "/workspace/b"}
    moved = await second.history.go_back("t", one)
    assert set(moved.restored.difference) == {"/workspace/a", "/workspace/b"}
    with pytest.raises(SandboxError):
        await first.command("true")
    assert await first.output("cat a; ls") == f"{NEW}1\na\n"
    await kill(first)
    await first.history.go_back("t", moved.before)
    assert await first.output("cat a") in ("2\n", f"{NEW}2\n")


async def test_model_is_told_which_files_of_a_step_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, sandbox_scope="thread", snapshot_file_max="1k")
    with EmptyStart(tmp_path / "t", thread=lambda: "t") as sandbox:
        captures = DeferredCaptures(settings, lambda _: sandbox, shared=False, travels=True)
        captures.attach("t", sandbox)

        async def step(command: str, *, dies: bool = False) -> str:
            await sandbox.arun(command)
            if dies:
                await asyncio.to_thread(sandbox.kill)
            await captures.after_step("t")
            return await captures.unkept("t")

        await captures.begin_turn("t")
        assert await step("echo 1 > a") == ""
        assert "/workspace/big (" in await step("head -c 2000 /dev/zero > big")
        lost = await step("echo 2 > a", dies=True)
        assert lost.startswith("[The files that this step made or changed are lost: ")
        assert await step("test $(cat a) = 1 && test ! -e big") == ""
