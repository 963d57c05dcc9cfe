"""File operations report files that they could not read, and reach only the file that their path names."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import FileFailed, SandboxError, SandboxLimits, WorkspaceMissing, workspace
from libs.sandbox.docker.container import DockerSandbox
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.folder_watch import _LOOK_SECONDS
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.sandboxes import IMAGE, NEW_INTERPRETER, ON_BOTH, folder, make_sandbox, on_host
from tests.support.waiting import eventually

HALF = "a\ud800b"


@pytest.fixture
def backend(tmp_path: Path) -> DockerExecutionBackend:
    return DockerExecutionBackend(tmp_path, image=IMAGE, name="unreadable")


@pytest.mark.docker
def test_search_names_what_it_could_not_read(backend: DockerExecutionBackend) -> None:
    with backend:
        backend.execute(
            "echo needle > open; echo needle > closed; mkdir shut; chmod 000 closed shut; "
            "mkdir deep; cd deep; for _ in {1..40}; do n=$(printf 'd%.0s' {1..200}); mkdir $n; cd $n; done"
        )
        found = backend.grep("needle")
        assert [match["path"] for match in found.matches or []] == ["/workspace/open"]
        assert found.error
        assert found.error.startswith("Not searched to the end, because they cannot be read, ")
        assert ": 3 (" in found.error
        assert "/workspace/closed" in found.error
        assert "/workspace/shut" in found.error
        assert str(backend.grep("nowhere").error).startswith(
            f"{found.error} No file that was searched has a match: "
        )
        assert backend.grep("needle", glob="open").error is not None, "the folders may hold such files, too"
        globbed = backend.glob("**/*")
        assert (globbed.truncated, globbed.truncation_reason) == (True, "unreadable")


@ON_BOTH
def test_search_is_bounded_by_matches_and_says_so(sandbox: ChannelSandbox) -> None:
    sandbox.run("mkdir yes; yes | head -c 50000000 > yes/yes")
    begun = time.monotonic()
    path = f"{folder(sandbox)}/yes"
    answer, _ = sandbox.file("grep", path=path, text="y", pattern=None, most=None)
    assert (len(answer["matches"]), answer["cut"], answer["unread"]) == (10_000, True, 0)
    assert time.monotonic() - begun < 20
    answer, _ = sandbox.file("grep", path=path, text="y", pattern=None, most=3)
    assert (len(answer["matches"]), answer["cut"]) == (3, True)


@ON_BOTH
def test_edit_whose_result_is_too_large_is_refused(sandbox: ChannelSandbox) -> None:
    path = f"{folder(sandbox)}/grows"
    sandbox.run("printf 'a%.0s' {1..100000} > grows")
    with pytest.raises(FileFailed, match="the changed file would have more than 67108864 bytes"):
        sandbox.file("edit", path=path, old="a", new="b" * 1_000, replace_all=True)
    assert len(sandbox.read_file(path)) == 100_000


@pytest.mark.docker
def test_name_that_is_not_utf_8_is_marked_and_reaches_no_other_file(
    backend: DockerExecutionBackend, tmp_path: Path
) -> None:
    with backend:
        backend.execute("echo 1 > a$'\\xff'; echo 2 > a$'\\xfe'; echo 3 > 'a\\xff'")
        entries = [entry["path"] for entry in backend.ls("/workspace").entries or [] if not entry["is_dir"]]
        mark = " // [not UTF-8: only a command reaches this name]"
        assert sorted(entries) == [
            "/workspace/a\\xfe" + mark,
            "/workspace/a\\xff",
            "/workspace/a\\xff" + mark,
        ]
        for entry in entries:
            backend.delete(entry)
        left = sorted(os.fsencode(each.name) for each in tmp_path.iterdir() if each.is_file())
        assert left == [b"a\xfe", b"a\xff"]


@pytest.mark.docker
async def test_half_characters_are_refused_and_nothing_is_written(backend: DockerExecutionBackend) -> None:
    why = "character 2 is half of a surrogate pair, which is not text"
    with backend:
        written = await backend.awrite("/workspace/x", HALF)
        assert why in str(written.error)
        assert "file_not_found" in str((await backend.aread("/workspace/x")).error)
        await backend.awrite("/workspace/y", "a")
        assert why in str((await backend.aedit("/workspace/y", "a", HALF)).error)
        assert why in str((await backend.aedit("/workspace/y", HALF, "a")).error)
        for answer in (
            await backend.agrep(HALF),
            await backend.agrep("a", glob=HALF),
            await backend.agrep("a", HALF),
            await backend.aglob(HALF),
            await backend.als(HALF),
            await backend.aread(HALF),
            await backend.aedit(HALF, "a", "b"),
        ):
            assert str(answer.error).endswith(why)
        for start in (
            backend.aexecute(HALF),
            backend.sandbox.arun_python(HALF, session="s"),
            backend.sandbox.aread_file(HALF),
            backend.sandbox.awrite_file(HALF, b""),
        ):
            with pytest.raises(ValueError, match=why):
                await start


def test_arguments_of_a_command_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with LocalSandbox(tmp_path) as sandbox:
        longest = "x" * (128 * 1024 - len("V=") - 1)
        assert sandbox.run("echo ${#V}", env={"V": longest}).output == f"{len(longest)}\n"
        with pytest.raises(ValueError, match=r"the variable V has 131,072 bytes .* into a file"):
            sandbox.run("true", env={"V": longest + "x"})
        with pytest.raises(ValueError, match="the variables have more than"):
            sandbox.run("true", env={f"V{number}": "x" * 100_000 for number in range(11)})
        with pytest.raises(ValueError, match="at most 65,535 fit"):
            sandbox.run_python("1", session="s" * 65_536)
        assert sandbox.run("echo on").output == "on\n"


@pytest.mark.parametrize("kind", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_removed_workspace_is_a_typed_error_until_the_folder_is_back(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "work space"
    with make_sandbox(kind, root, SandboxLimits()) as sandbox:
        assert sandbox.run_python("x = 1", session="s").output == ""
        shutil.rmtree(root)
        for _ in range(2):
            with pytest.raises(WorkspaceMissing, match="was moved or removed on this machine") as caught:
                sandbox.run("echo on")
            assert f"mkdir -p '{root}'" in caught.value.hint
            with pytest.raises(WorkspaceMissing):
                sandbox.file("ls", path=folder(sandbox))
            with pytest.raises(WorkspaceMissing):
                sandbox.run_python("x", session="s")
        root.mkdir()
        if os.geteuid() == 0:
            os.chown(root, 1000, 1000)
        assert sandbox.run("echo on > file; cat file").output == "on\n"
        assert on_host(sandbox, "file").read_text() == "on\n"
        assert sandbox.run_python("1", session="s").output == f"{NEW_INTERPRETER}1\n"


@pytest.mark.parametrize("kind", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_moved_workspace_is_not_used_and_running_commands_go_on(tmp_path: Path, kind: str) -> None:
    root, moved = tmp_path / "workspace", tmp_path / "moved"
    with make_sandbox(kind, root) as sandbox, ThreadPoolExecutor() as pool:
        sandbox.run("echo old > file")
        long = pool.submit(sandbox.run, "touch begun; until [ -e end ]; do sleep 0.1; done; cat file")
        eventually((root / "begun").exists)
        root.rename(moved)
        time.sleep(_LOOK_SECONDS + 0.1)
        for _ in range(2):
            with pytest.raises(WorkspaceMissing, match="was moved or removed"):
                sandbox.run("touch file")
        root.write_text("")
        with pytest.raises(WorkspaceMissing) as caught:
            sandbox.file("ls", path=folder(sandbox))
        assert f"make it: rm {root}; mkdir -p {root}" in caught.value.hint
        root.unlink()
        root.mkdir()
        if os.geteuid() == 0:
            os.chown(root, 1000, 1000)
        assert sandbox.run("echo new > new; cat file").exit_code == 1
        assert on_host(sandbox, "new").exists()
        (moved / "end").touch()
        assert long.result().output == "old\n"
        eventually(lambda: all(channel.closed for channel in sandbox._left))


def test_workspace_that_is_moved_back_keeps_its_sandbox(tmp_path: Path) -> None:
    root, moved = tmp_path / "workspace", tmp_path / "moved"
    with LocalSandbox(root) as sandbox:
        sandbox.run_python("x = 1", session="s")
        root.rename(moved)
        time.sleep(_LOOK_SECONDS + 0.1)
        with pytest.raises(WorkspaceMissing):
            sandbox.run("true")
        moved.rename(root)
        assert sandbox.run_python("x", session="s").output == "1\n"


@pytest.mark.docker
def test_replaced_folder_that_is_mounted_to_read_is_used(tmp_path: Path) -> None:
    root, skills = tmp_path / "workspace", tmp_path / "skills"
    skills.mkdir()
    (skills / "old").touch()
    with DockerSandbox(root, image=IMAGE, name="behaviour", read_only={"/skills": skills}) as sandbox:
        assert sandbox.run("ls /skills").output == "old\n"
        skills.rename(tmp_path / "moved")
        time.sleep(_LOOK_SECONDS + 0.1)
        assert sandbox.run("ls /skills").output == "old\n", "a folder that is gone for a while"
        skills.mkdir()
        (skills / "new").touch()
        time.sleep(_LOOK_SECONDS + 0.1)
        assert sandbox.run("ls /skills").output == "new\n"


@pytest.mark.docker
def test_start_without_a_folder_that_is_mounted_to_read_names_the_folder(tmp_path: Path) -> None:
    root, skills = tmp_path / "workspace", tmp_path / "skills"
    skills.mkdir()
    with DockerSandbox(root, image=IMAGE, name="behaviour", read_only={"/skills": skills}) as sandbox:
        skills.rmdir()
        with pytest.raises(SandboxError, match=f"The folder {skills}, which the sandbox has as /skills, was"):
            sandbox.run("true")
        skills.mkdir()
        assert sandbox.run("echo on").output == "on\n"


@pytest.mark.docker
def test_removed_folder_that_is_mounted_to_read_is_not_listed_as_empty(tmp_path: Path) -> None:
    root, data = tmp_path / "workspace", tmp_path / "data"
    data.mkdir()
    (data / "table.csv").write_text("needle\n")
    search = {"text": "needle", "pattern": None, "most": None}
    with DockerSandbox(root, image=IMAGE, name="behaviour", read_only={"/workspace/data": data}) as sandbox:
        assert len(sandbox.file("ls", path="/workspace/data")[0]["entries"]) == 1
        shutil.rmtree(data)
        globs = [("glob", {"pattern": pattern}) for pattern in ("*", "sub/*", "sub/a.txt")]
        removed = "the folder was removed on the host: put it back there"
        for do, arguments in (("ls", {}), *globs, ("grep", search)):
            with pytest.raises(FileFailed, match=removed):
                sandbox.file(do, path="/workspace/data", **arguments)
        for path in ("table.csv", "sub/table.csv"):
            with pytest.raises(FileFailed, match=removed):
                sandbox.file("read", path=f"/workspace/data/{path}")
        for pattern in ("**/*", "data/*", "data/sub/*", "data/sub/a.txt"):
            assert sandbox.file("glob", path="/workspace", pattern=pattern)[0]["cut"] == "unreadable"
        assert sandbox.file("grep", path="/workspace", **search)[0]["unread_first"] == ["/workspace/data"]
        told = sandbox.run("ls data", note_new=True).output
        assert told.startswith("[/workspace/data: moved or removed on the host; perhaps empty here, until")
        data.mkdir()
        assert sandbox.file("ls", path="/workspace/data")[0]["entries"] == [], "an empty folder"
        assert sandbox.run("ls data").output == ""


@pytest.mark.docker
def test_mount_in_a_workspace_is_seen_by_the_next_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.touch()
    monkeypatch.setattr(workspace, "_MOUNTS", table)
    with make_sandbox("docker", tmp_path / "workspace") as sandbox:
        sandbox.run("touch /tmp/old")
        table.write_text(f"1 1 0:1 / {tmp_path}/workspace/data rw - tmpfs none rw\n")
        time.sleep(_LOOK_SECONDS + 0.1)
        command = "ls /tmp | grep -v home; touch /tmp/new"
        assert [sandbox.run(command).output for _ in range(2)] == ["", "new\n"]


@pytest.mark.docker
def test_closed_workspace_is_named_as_the_cause_and_can_be_opened(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 1000, 1000)
    with make_sandbox("docker", tmp_path) as sandbox:
        sandbox.run("chmod 000 /workspace")
        for _ in range(2):
            assert sandbox.run("ls").output == "ls: cannot open directory '.': Permission denied\n"
            for do in ({"do": "ls"}, {"do": "glob", "pattern": "*"}):
                with pytest.raises(FileFailed) as caught:
                    sandbox.file(**do, path="/workspace")
                assert caught.value.code == "permission_denied"
            sandbox.reset()
        assert sandbox.run("chmod 755 /workspace; echo on").output == "on\n"
        assert sandbox.file("ls", path="/workspace")[0]["entries"]


@ON_BOTH
def test_paths_that_name_no_regular_file_are_refused_like_a_fifo(sandbox: ChannelSandbox) -> None:
    make = "import os, socket; os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('sock')"
    sandbox.run(f'python3 -c "{make}"')
    for path in (f"{folder(sandbox)}/fifo", f"{folder(sandbox)}/sock", "/dev/zero"):
        with pytest.raises(ValueError, match="not a regular file"):
            sandbox.read_file(path)


@ON_BOTH
def test_text_of_an_edit_may_hold_any_character(sandbox: ChannelSandbox) -> None:
    path = f"{folder(sandbox)}/any"
    for before, old, new, after in (
        (b"a\0b", "a\0b", "c\0", b"c\0"),
        (b"\xef\xbb\xbfone\rtwo\r", "one\ntwo", "1\n2", b"\xef\xbb\xbf1\r2\r"),
        (b"one\r\ntwo", "one\ntwo", "1\n2", b"1\r\n2"),
    ):
        sandbox.write_file(path, before)
        sandbox.file("edit", path=path, old=old, new=new, replace_all=False)
        assert sandbox.read_file(path) == after
    with pytest.raises(FileFailed, match="a path cannot hold a NUL"):
        sandbox.file("ls", path="a\0b")


@pytest.mark.docker
def test_exhausted_memory_is_named_as_the_cause(tmp_path: Path) -> None:
    limits = SandboxLimits(memory=128 * 2**20, tmp=16 * 2**20)
    with make_sandbox("docker", tmp_path, limits) as sandbox:
        killed = sandbox.run("exec python3 -c 'print(1, flush=True); x = bytearray(2**29)'")
        assert killed.exit_code == 137
        note = "[the kernel killed a process, because the sandbox's memory is used up]"
        assert killed.output == f"1\n\n{note}\n"
        hog = "bytearray(2**29)"
        assert sandbox.run(f"python3 -c '{hog}' | cat; echo on").output == f"on\n\n{note}\n"
        code = f"import subprocess\nsubprocess.run(['python3', '-c', {hog!r}]).returncode"
        assert sandbox.run_python(code, session="s").output == f"-9\n\n{note}\n"
        assert note in sandbox.run_python("hog = bytearray(2**29)", session="s").output
        assert sandbox.run("kill -9 $$").output == ""
        sandbox.run("head -c 60000000 /dev/zero | tr '\\0' a > large")
        with pytest.raises(FileFailed, match=r"no memory left for this operation: .*/tmp and /dev/shm"):
            sandbox.file("edit", path="/workspace/large", old="a", new="b", replace_all=True)
        assert len(sandbox.read_file("/workspace/large")) == 60_000_000
        ended = sandbox.run_python("import os; os.kill(os.getpid(), 9)", session="t")
        assert ended.output == "[the interpreter was ended by signal 9: its variables are lost]"
