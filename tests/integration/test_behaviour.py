"""What a sandbox does, whatever it is made of: one suite for the container and the plain process (S15)."""

from __future__ import annotations

import os
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import SandboxError
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.channel import Channel
from libs.sandbox.container import DockerSandbox
from libs.sandbox.local import LocalSandbox
from tests.integration.sandboxes import IMAGE, alive, folder, make_sandbox, mark, on_host
from tests.waiting import eventually


class TestCommands:
    """S2: a command runs as `bash -c` runs it."""

    def test_it_runs_in_the_workspace(self, sandbox: ChannelSandbox) -> None:
        assert sandbox.run("pwd").output == f"{folder(sandbox)}\n"

    @pytest.mark.parametrize(
        "command",
        [
            "echo hi",
            "",
            "   ",
            "\n\n",
            "# only a comment",
            "echo a; exit 4; echo b",
            "set -e; false; echo never",
            "set -e\nfalse\necho never",
            "set -u; echo $undefined; echo never",
            "set -o pipefail; false | true",
            "exec echo gone; echo never",
            "exec sh -c 'exit 9'",
            "trap 'echo bye' EXIT; echo hi",
            "trap 'echo bye' EXIT; exit 5",
            "trap 'echo term; exit 6' TERM; kill -TERM $$; sleep 1; echo never",
            "trap 'echo err' ERR; false; true",
            "kill -9 $$",
            "kill -TERM $$",
            "kill -SEGV $$",
            "sh -c 'kill -INT $$'",
            "sh -c 'kill -KILL $$'; echo $?",
            "exit 256",
            "exit -1",
            "nosuchcommand",
            "/dev/null",
            "if",
            "echo before\nif",
            "echo 'unclosed",
            "cat <<'E'\na $HOME\n  b\nE",
            "cat <<E\n$((6*7))\nE\necho after",
            "cat <<E\nno end",
            "for i in 1 2 3; do\n  echo $i\ndone",
            "f() { return 8; }; f",
            "echo ü😀 | wc -c",
            "printf 'a\\0b' | wc -c",
            'echo "$0 $# $*"',
            'echo "[${REPLY-}]"',
            "echo $BASH_SUBSHELL",
            "cat; echo $?",
            "read line; echo $?",
            "test -t 0; echo $?",
            "(exit 12)",
            "a=1; (a=2); echo $a",
            "shopt -s extglob\ncase ab in @(ab|c)) echo yes;; esac",
            "echo $LINENO\necho $LINENO",
            "return 3",
            "break",
            "echo \\\\ $'tab\\there' \"!!\"",
            "sleep 0.05 & wait $!; echo $?",
            "echo $-",
            "yes | head -1",
            "  echo leading\n\techo tab  \n\n",
            "echo a \\\n  b",
            "echo a & wait",
            "\techo 'keeps  spaces  '  ",
            "exec 9>&1; echo nine >&9",
            "echo >&9",
            "shift 2; echo $?",
        ],
    )
    def test_it_is_bash(self, sandbox: ChannelSandbox, command: str, tmp_path: Path) -> None:
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
        # What bash says of an error names how it was called; that it says something is what counts.
        assert bool(apart.stderr) == bool(expected.stderr)
        if not expected.stderr:
            assert merged.output == expected.stdout

    def test_the_clock_of_the_shell_begins_with_the_command(self, sandbox: ChannelSandbox) -> None:
        sandbox.run("true")
        time.sleep(2.1)
        assert sandbox.run("echo $SECONDS").output in ("0\n", "1\n")

    def test_both_outputs_come_in_order(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("for i in $(seq 200); do echo out$i; echo err$i >&2; done")
        assert result.output == "".join(f"out{i}\nerr{i}\n" for i in range(1, 201))
        assert result.stderr == ""

    def test_outputs_can_be_kept_apart(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("echo out; echo err >&2; exit 3", merge_stderr=False)
        assert (result.output, result.stderr, result.exit_code) == ("out\n", "err\n", 3)

    def test_bytes_that_are_no_text_are_replaced(self, sandbox: ChannelSandbox) -> None:
        data = b"a\xff\xfeb\xc3\x28\xe2\x82 \xf0\x9f\x98 \xed\xa0\x80 \x00 ok\xe4"
        sandbox.write_file("bytes.bin", data)
        assert sandbox.run("cat bytes.bin").output == data.decode("utf-8", "replace")

    def test_a_character_cut_in_two_on_the_way_is_whole(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run(r"printf '\xf0\x9f'; sleep 0.1; printf '\x98\x80'")
        assert result.output == "😀"

    @pytest.mark.parametrize("size", [31_000, 33_000, 200_000, 5_000_000])
    def test_long_commands(self, sandbox: ChannelSandbox, size: int) -> None:
        """As long as a pipe, longer than one, longer than an argument may be, and far longer."""
        text = "".join(random.choices("abcdefgh ", k=size))
        result = sandbox.run(f"cat > long.txt <<'END'\n{text}\nEND\nwc -c < long.txt")
        assert result.output == f"{size + 1}\n"
        assert sandbox.read_file("long.txt") == text.encode() + b"\n"

    def test_nul_is_refused(self, sandbox: ChannelSandbox) -> None:
        with pytest.raises(ValueError, match="NUL"):
            sandbox.run("echo a\0b")

    def test_a_lone_surrogate_harms_nothing(self, sandbox: ChannelSandbox) -> None:
        """A model's JSON can hold one. It is refused, or replaced; it is no fault of the command."""
        try:
            result = sandbox.run("echo a\ud800b")
        except ValueError:
            return
        assert result.exit_code == 0
        assert result.output.startswith("a")

    def test_variables_can_be_given(self, sandbox: ChannelSandbox) -> None:
        odd = "line\nwith 'quotes' $HOME ü"
        result = sandbox.run('printf %s "$ODD"', env={"ODD": odd})
        assert result.output == odd
        assert sandbox.run('printf %s "${ODD-unset}"').output == "unset"

    @pytest.mark.parametrize("env", [{"A": "a\0b"}, {"A=B": "c"}, {"": "c"}, {"A\0": "b"}])
    def test_variables_that_cannot_be_are_refused(self, sandbox: ChannelSandbox, env: dict[str, str]) -> None:
        with pytest.raises(ValueError, match=r"."):
            sandbox.run("true", env=env)
        assert sandbox.run("echo on").output == "on\n"

    def test_a_command_leaves_no_state_to_the_next(self, sandbox: ChannelSandbox) -> None:
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

    def test_a_command_is_handed_no_other_descriptor(self, sandbox: ChannelSandbox) -> None:
        look = "for fd in $(seq 3 300); do test -e /proc/$$/fd/$fd && echo $fd; done"
        for env in ({}, {"A": "b"}):
            assert sandbox.run(look, env=env).output == ""

    def test_a_command_may_close_its_outputs(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("echo before; exec >&- 2>&-; sleep 0.2; echo lost; exit 3")
        assert (result.output, result.exit_code) == ("before\n", 3)

    def test_what_ends_its_own_worker_says_so(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("echo said; sleep 0.1; kill -9 $PPID; sleep 5", timeout=10)
        assert result.exit_code == 137
        assert result.output.startswith("said\n")
        assert "the process that ran it was killed" in result.output.splitlines()[-1]
        assert sandbox.run("echo on").output == "on\n"

    def test_a_command_may_stop_its_own_worker(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("kill -STOP $PPID; echo on; exit 4", timeout=20)
        assert (result.output, result.exit_code) == ("on\n", 4)

    def test_seconds_are_those_of_the_command(self, sandbox: ChannelSandbox) -> None:
        assert 0.3 <= sandbox.run("sleep 0.3").seconds < 2


class TestBackground:
    """S3: it returns when the shell exits."""

    @pytest.mark.parametrize(
        "form",
        [
            "sleep {n} &",
            "nohup sleep {n} > /dev/null 2>&1 &",
            "setsid sleep {n} &",
            "(sleep {n} &)",
            "trap '' HUP; sleep {n} & disown",
            "sleep {n} | sleep {n} &",
        ],
    )
    def test_children_go_on_and_delay_nothing(self, sandbox: ChannelSandbox, form: str) -> None:
        number = mark()
        result = sandbox.run(form.format(n=number) + "\necho started", timeout=30)
        assert result.output == "started\n"
        assert result.seconds < 5
        # The shell does not wait until what it has forked has become another program.
        eventually(lambda: bool(alive(sandbox, number)))
        sandbox.run(f"pkill -f '[{number[0]}]{number[1:]}'")
        eventually(lambda: not alive(sandbox, number))

    def test_what_they_print_is_in_no_later_output(self, sandbox: ChannelSandbox) -> None:
        sandbox.run("(for i in $(seq 40); do echo stray$i; sleep 0.02; done) & echo started")
        outputs = []
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            outputs.append(sandbox.run("echo mine").output)
        assert set(outputs) == {"mine\n"}

    def test_what_is_printed_just_before_the_end_is_kept(self, sandbox: ChannelSandbox) -> None:
        size = 60_000  # less than a pipe holds, so that the shell may be gone before anybody reads
        command = f"sleep 5 & head -c {size} /dev/zero | tr '\\0' x > piece; cat piece; kill $!"
        for _ in range(20):
            result = sandbox.run(command)
            assert "characters left out" in result.output
            assert result.truncated

    def test_a_server_in_the_background_serves_later_commands(self, sandbox: ChannelSandbox) -> None:
        sandbox.run("rm -f line; mkfifo line; (cat line > heard) & true")
        sandbox.run("echo told > line; sleep 0.1")
        eventually(lambda: sandbox.run("cat heard").output == "told\n")

    def test_an_earlier_commands_child_outlives_a_time_out(self, sandbox: ChannelSandbox) -> None:
        kept, ended = mark(), mark()
        sandbox.run(f"sleep {kept} & true")
        assert sandbox.run(f"sleep {ended}", timeout=0.3).timed_out
        assert alive(sandbox, kept)
        assert not alive(sandbox, ended)
        sandbox.run(f"pkill -f '[{kept[0]}]{kept[1:]}'")


class TestFiles:
    """`read_file` and `write_file` raise what a local file would raise."""

    def test_round_trip(self, sandbox: ChannelSandbox) -> None:
        content = bytes(range(256)) * 100
        sandbox.write_file("deep/new/place.bin", content)
        assert sandbox.read_file("deep/new/place.bin") == content
        assert on_host(sandbox, "deep/new/place.bin").read_bytes() == content
        sandbox.write_file("deep/new/place.bin", b"")
        assert sandbox.read_file("deep/new/place.bin") == b""

    async def test_async_round_trip(self, sandbox: ChannelSandbox) -> None:
        content = os.urandom(3_000_000)
        await sandbox.awrite_file("async.bin", content)
        assert await sandbox.aread_file("async.bin") == content

    @pytest.mark.parametrize(
        ("path", "error"),
        [
            ("nowhere", FileNotFoundError),
            ("folder", IsADirectoryError),
            ("folder/", IsADirectoryError),
            ("file/below", NotADirectoryError),
            ("dangling", FileNotFoundError),
            ("loop", OSError),
            ("fifo", ValueError),
            ("/dev/zero", ValueError),
            ("nul\0", ValueError),
            ("x" * 300, OSError),
            ("", FileNotFoundError),
        ],
    )
    def test_errors(self, sandbox: ChannelSandbox, path: str, error: type[Exception]) -> None:
        sandbox.run(
            "mkdir -p folder; echo x > file; ln -sfn nowhere dangling; ln -sfn loop loop; "
            "test -p fifo || mkfifo fifo"
        )
        with pytest.raises(error):
            sandbox.read_file(path)

    def test_a_file_that_may_not_be_read_or_written(self, sandbox: ChannelSandbox) -> None:
        if isinstance(sandbox, LocalSandbox) and os.geteuid() == 0:
            # Root may do anything; what cannot be written by anybody stands in.
            with pytest.raises(OSError, match=r"."):
                sandbox.write_file("/proc/version", b"x")
            return
        sandbox.run("echo x > closed; chmod 0 closed")
        with pytest.raises(PermissionError):
            sandbox.read_file("closed")
        with pytest.raises(PermissionError):
            sandbox.write_file("closed", b"y")


class TestLife:
    def test_it_starts_with_the_first_call_and_again_after_close(self, tmp_path: Path) -> None:
        sandbox = make_sandbox("local", tmp_path / "made")
        assert not (tmp_path / "made").exists()
        assert sandbox.run("echo one > kept; echo $PPID").exit_code == 0
        sandbox.close()
        sandbox.close()
        assert sandbox.run("cat kept").output == "one\n"
        sandbox.close()

    def test_reset_ends_what_runs(self, sandbox: ChannelSandbox) -> None:
        number = mark()
        sandbox.run(f"sleep {number} & true")
        sandbox.reset()
        assert not alive(sandbox, number)

    def test_what_finds_it_dead_before_it_is_sent_is_sent_to_the_next(self, tmp_path: Path) -> None:
        class DiesAtFirst(LocalSandbox):
            lives = 0

            def _connect(self) -> Channel:
                channel = super()._connect()
                self.lives += 1
                if self.lives < 3:
                    channel.wait_until_ready(10)
                    channel.close()
                return channel

        with DiesAtFirst(tmp_path) as sandbox:
            assert sandbox.run("echo on").output == "on\n"
            assert sandbox.lives == 3

    def test_whoever_waits_for_a_start_that_fails_is_told_with_it(self, tmp_path: Path) -> None:
        """Not one after the other, each after a failure of its own; and the next call tries again."""

        class FailsSlowly(LocalSandbox):
            tried = 0

            def _connect(self) -> Channel:
                self.tried += 1
                if self.tried == 1:
                    time.sleep(1)
                    raise SandboxError("it does not start", hint="wait")
                return super()._connect()

        with FailsSlowly(tmp_path) as sandbox, ThreadPoolExecutor(8) as pool:
            begun = time.monotonic()
            waiting = [pool.submit(sandbox.run, "true") for _ in range(8)]
            errors = [future.exception() for future in waiting]
            assert [(type(error), str(error)) for error in errors] == [
                (SandboxError, "it does not start")
            ] * 8
            assert time.monotonic() - begun < 2
            assert sandbox.run("echo on").output == "on\n"
            assert sandbox.tried == 2

    def test_it_does_not_serve_a_graph_without_isolation(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="does not isolate"):
            DockerExecutionBackend(tmp_path, sandbox=LocalSandbox(tmp_path))
        backend = DockerExecutionBackend(tmp_path, sandbox=DockerSandbox(tmp_path, image=IMAGE, name="b"))
        assert isinstance(backend.sandbox, DockerSandbox)
