"""Behaviour of every sandbox: one suite for the container and the plain process."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.commands.engines import Engines
from tests.support.sandboxes import ON_BOTH, alive, folder, mark
from tests.support.waiting import eventually

BASH = [
    "",
    "echo a; exit 4; echo b",
    "set -e\nfalse\necho never",
    "trap 'echo bye' EXIT; exit 5",
    "kill -9 $$",
    "nosuchcommand",
    "echo before\nif",
    "cat <<'E'\na $HOME\n  b\nE",
    'echo "$0 $# $*"',
    "cat; echo $?",
    "shopt -s extglob\ncase ab in @(ab|c)) echo yes;; esac",
    "yes | head -1",
    "  echo leading\n\techo 'keeps  spaces  '  \n\n",
    "echo >&9",
    "\n\necho $LINENO",
    "printf '[%s]' a\\ ",
]


class TestCommands:
    """A command runs as `bash -c` runs it."""

    @pytest.mark.parametrize("command", BASH)
    def test_command_runs_like_bash(self, sandbox: ChannelSandbox, command: str, tmp_path: Path) -> None:
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(tmp_path)}
        expected = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            env=environment,
        )
        code = expected.returncode if expected.returncode >= 0 else 128 - expected.returncode
        merged = sandbox.run(command)
        assert merged.exit_code == code, merged.output
        apart = sandbox.run(command, merge_stderr=False)
        assert (apart.exit_code, apart.output) == (code, expected.stdout)
        # The text of an error depends on how bash was called. Only its presence is compared.
        assert bool(apart.stderr) == bool(expected.stderr)
        if not expected.stderr:
            assert merged.output == expected.stdout

    @ON_BOTH
    def test_changed_module_runs_as_it_is_now(self, sandbox: ChannelSandbox) -> None:
        runs = "touch -d @0 changed.py; python3 -c 'import changed; print(changed.x)'; "
        assert sandbox.run(f"echo x=1 > changed.py; {runs} echo x=2 > changed.py; {runs}").output == "1\n2\n"
        block = "import os; os.utime('changed.py', (0, 0)); import changed, importlib; "
        again = f"{block} importlib.reload(changed).x"
        sandbox.write_file(f"{folder(sandbox)}/changed.py", b"x=3\n")
        assert sandbox.run_python(again, session="changed").output == "3\n"
        sandbox.write_file(f"{folder(sandbox)}/changed.py", b"x=4\n")
        assert sandbox.run_python(again, session="changed").output == "4\n"

    @ON_BOTH
    def test_command_that_begins_with_dashes_is_no_option(self, sandbox: ChannelSandbox) -> None:
        assert sandbox.run("-- echo hi").output == "bash: line 1: --: command not found\n"
        assert sandbox.run("-x").exit_code == 127

    @ON_BOTH
    def test_outputs_are_merged_in_order_or_separate(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("for i in $(seq 200); do echo out$i; echo err$i >&2; done")
        assert result.output == "".join(f"out{i}\nerr{i}\n" for i in range(1, 201))
        assert result.stderr == ""
        apart = sandbox.run("echo out; echo err >&2; exit 3", merge_stderr=False)
        assert (apart.output, apart.stderr, apart.exit_code) == ("out\n", "err\n", 3)

    def test_bytes_that_are_not_utf8_are_replaced(self, sandbox: ChannelSandbox) -> None:
        data = b"a\xff\xfeb\xc3\x28\xe2\x82 \xf0\x9f\x98 \xed\xa0\x80 \x00 ok\xe4"
        sandbox.write_file("bytes.bin", data)
        assert sandbox.run("cat bytes.bin").output == data.decode("utf-8", "replace")

    def test_localhost_is_found_without_a_network(self, sandbox: ChannelSandbox) -> None:
        found = sandbox.run("python3 -c \"import socket; print(socket.gethostbyname('localhost'))\"")
        assert found.output == "127.0.0.1\n"

    @pytest.mark.parametrize("size", [31_000, 200_000])
    def test_long_commands(self, sandbox: ChannelSandbox, size: int) -> None:
        """About the size of a pipe, and over the size of an argument."""
        text = "".join(random.choices("abcdefgh ", k=size))
        result = sandbox.run(f"cat > long.txt <<'END'\n{text}\nEND\nwc -c < long.txt")
        assert result.output == f"{size + 1}\n"
        assert sandbox.read_file("long.txt") == text.encode() + b"\n"

    def test_command_with_nul_is_refused(self, sandbox: ChannelSandbox) -> None:
        with pytest.raises(ValueError, match="NUL"):
            sandbox.run("echo a\0b")
        with pytest.raises(ValueError, match="half of a surrogate pair"):
            sandbox.run("echo a\ud800b")  # a lone surrogate, which a model's JSON can hold

    def test_variables_are_passed_or_refused(self, sandbox: ChannelSandbox) -> None:
        odd = "line\nwith 'quotes' $HOME ü"
        assert sandbox.run('printf %s "$ODD"', env={"ODD": odd}).output == odd
        assert sandbox.run('printf %s "${ODD-unset}"').output == "unset"
        for env in ({"A": "a\0b"}, {"A=B": "c"}, {"": "c"}, {"A\0": "b"}):
            with pytest.raises(ValueError, match=r"."):
                sandbox.run("true", env=env)
        assert sandbox.run("echo on").output == "on\n"

    @ON_BOTH
    def test_no_shell_state_reaches_the_next_command(self, sandbox: ChannelSandbox) -> None:
        sandbox.run(
            "cd /; x=1; export X=1; f() { :; }; umask 077; ulimit -n 20; trap 'echo bye' EXIT; set -e"
        )
        result = sandbox.run("pwd; echo [$x$X]; type f 2>&1 | tail -1; umask; ulimit -n; false; echo on")
        lines = result.output.splitlines()
        assert lines[:2] == [folder(sandbox), "[]"]
        assert "not found" in lines[2]
        assert lines[3] == "0022"
        assert lines[4] != "20"
        assert lines[5:] == ["on"]

    @ON_BOTH
    def test_command_that_kills_its_worker_is_reported(
        self, sandbox: ChannelSandbox, engines: Engines
    ) -> None:
        wait = "until [ -e shown ]; do sleep 0.02; done"
        result = sandbox.run(
            f"echo said; {wait}; kill -9 $PPID; sleep 20",
            timeout=30,
            on_output=lambda _: engines.on_host(sandbox, "shown").touch(),
        )
        assert result.exit_code == 137
        assert 0 < result.seconds < 30  # not the time-out
        assert result.output.startswith("said\n")
        note = result.output.splitlines()[-1]
        assert "the process that ran it was killed" in note
        assert "what other commands have left running may have ended" in note
        assert sandbox.run("echo on").output == "on\n"

    def test_workers_that_a_command_has_limited_are_blamed_on_it_and_replaced(
        self, sandbox: ChannelSandbox
    ) -> None:
        limit = "import os, resource, time\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))"
        # The worker fails when it looks for output.
        block = sandbox.run_python(f"{limit};\nprint(1)\ntime.sleep(20)", session="limited")
        assert "killed, by this block, or by another block or command" in block.output

    @pytest.mark.parametrize("limit", ["as=1", "cpu=1", "fsize=0", "nofile=3", "stack=4096"])
    def test_limits_that_a_command_gives_to_workers_and_shells_are_not_those_of_the_next(
        self, sandbox: ChannelSandbox, limit: str
    ) -> None:
        sandbox.run_python("kept = 1", session="limited")
        workers = "$(pgrep -P $(ps -o ppid= -p $PPID))"
        shells = f"$(pgrep -P $(echo {workers} | tr ' ' ,) -x bash | grep -vx $$)"
        for each in (workers, shells):
            sandbox.run(f"for each in {each}; do prlimit --pid $each --{limit}; done")
            for _ in range(4):
                assert sandbox.run("seq 3 | wc -l > count; cat count").output == "3\n"
            sandbox.write_file("written", b"w")
            assert sandbox.read_file("written") == b"w"
            assert sandbox.run_python("print(2)", session="limited", continues=True).output.endswith("2\n")

    def test_command_may_stop_its_worker(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("kill -STOP $PPID; echo on; exit 4", timeout=20)
        assert (result.output, result.exit_code) == ("on\n", 4)

    def test_command_inherits_no_descriptor(self, sandbox: ChannelSandbox) -> None:
        look = "for fd in $(seq 3 300); do test -e /proc/$$/fd/$fd && echo $fd; done"
        for env in ({}, {"A": "b"}):
            assert sandbox.run(look, env=env).output == ""


class TestBackground:
    """A command returns when its shell exits."""

    @ON_BOTH
    @pytest.mark.parametrize(
        "form",
        ["sleep {n} &", "(setsid sleep {n} &)", "trap '' HUP; sleep {n} & disown", "sleep {n} | cat &"],
    )
    def test_background_children_continue_and_cause_no_delay(
        self, sandbox: ChannelSandbox, form: str
    ) -> None:
        number = mark()
        result = sandbox.run(form.format(n=number) + "\necho started", timeout=30)
        assert result.output == "started\n"
        assert result.seconds < 5
        # The shell may exit before its child has called exec.
        eventually(lambda: bool(alive(sandbox, number)))
        sandbox.run(f"pkill -f '[{number[0]}]{number[1:]}'")
        eventually(lambda: not alive(sandbox, number))

    def test_output_just_before_the_end_is_kept(self, sandbox: ChannelSandbox) -> None:
        size = 60_000  # fits into a pipe, so the shell may exit before its output is read
        command = f"sleep 5 & head -c {size} /dev/zero | tr '\\0' x > piece; cat piece; kill $!"
        for _ in range(20):
            result = sandbox.run(command)
            assert "characters left out" in result.output
            assert result.truncated

    @ON_BOTH
    def test_output_through_a_process_that_ends_after_the_shell_is_kept(
        self, sandbox: ChannelSandbox
    ) -> None:
        for _ in range(10):
            result = sandbox.run("exec > >(tee log) 2>&1\necho one\nls nowhere\necho last; exit 3")
            assert (result.exit_code, result.output[:4], result.output[-5:]) == (3, "one\n", "last\n")

    def test_time_out_spares_children_of_earlier_commands(self, sandbox: ChannelSandbox) -> None:
        kept, ended = mark(), mark()
        sandbox.run(f"sleep {kept} & true")
        assert sandbox.run(f"sleep {ended}", timeout=0.3).timed_out
        assert alive(sandbox, kept)
        assert not alive(sandbox, ended)
        sandbox.run(f"pkill -f '[{kept[0]}]{kept[1:]}'")


class TestFiles:
    """`read_file` and `write_file` raise what a local file would raise."""

    @ON_BOTH
    async def test_round_trip(self, sandbox: ChannelSandbox, engines: Engines) -> None:
        content = os.urandom(3_000_000)
        sandbox.write_file("deep/new/place.bin", content)
        assert sandbox.read_file("deep/new/place.bin") == content
        assert engines.on_host(sandbox, "deep/new/place.bin").read_bytes() == content
        await sandbox.awrite_file("deep/new/place.bin", b"")
        assert await sandbox.aread_file("deep/new/place.bin") == b""

    def test_errors_are_those_of_local_files(self, sandbox: ChannelSandbox) -> None:
        sandbox.run("mkdir -p folder; echo x > file; ln -s nowhere dangling; ln -s loop loop; mkfifo fifo")
        errors: dict[str, type[Exception]] = {
            "nowhere": FileNotFoundError,
            "": FileNotFoundError,
            "dangling": FileNotFoundError,
            "folder": IsADirectoryError,
            "folder/": IsADirectoryError,
            "file/below": NotADirectoryError,
            "loop": OSError,
            "x" * 300: OSError,
            "fifo": ValueError,
            "/dev/zero": ValueError,
            "nul\0": ValueError,
        }
        for path, error in errors.items():
            with pytest.raises(error):
                sandbox.read_file(path)

    def test_file_without_permission_is_a_permission_error(self, sandbox: ChannelSandbox) -> None:
        if isinstance(sandbox, LocalSandbox) and os.geteuid() == 0:
            # Root may write any file, except this one.
            with pytest.raises(OSError, match=r"."):
                sandbox.write_file("/proc/version", b"x")
            return
        sandbox.run("echo x > closed; chmod 0 closed")
        with pytest.raises(PermissionError):
            sandbox.read_file("closed")
        with pytest.raises(PermissionError):
            sandbox.write_file("closed", b"y")


class TestLife:
    def test_request_moves_to_a_new_sandbox_if_the_old_one_is_dead(self, tmp_path: Path) -> None:
        class DiesAtFirst(LocalSandbox):
            lives = 0

            def _connect(self) -> Channel:
                channel = super()._connect()
                self.lives += 1
                if self.lives < 3:
                    channel.came_up.result(10)
                    channel.close()
                return channel

        with DiesAtFirst(tmp_path) as sandbox:
            assert sandbox.run("echo on").output == "on\n"
            assert sandbox.lives == 3

    def test_backend_refuses_a_sandbox_without_isolation(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="does not isolate"):
            DockerExecutionBackend(tmp_path, sandbox=LocalSandbox(tmp_path))
