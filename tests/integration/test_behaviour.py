"""What a sandbox does, whatever it is made of: one suite for the container and the plain process (S15)."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.backends.docker import DockerExecutionBackend
from libs.sandbox import RunResult, SandboxBusy, SandboxError, SandboxLimits
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.channel import Channel
from libs.sandbox.container import DockerSandbox
from libs.sandbox.local import LocalSandbox

IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
LIMIT = 50_000
GONE = 0.5
"""Seconds after a deadline within which nothing of a command may be left (S4)."""
DOCKER = pytest.param("docker", marks=pytest.mark.docker)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspaces")


@pytest.fixture(scope="module", params=["local", DOCKER])
def sandbox(request: pytest.FixtureRequest, root: Path) -> Iterator[ChannelSandbox]:
    made = make_sandbox(request.param, root / request.param)
    with made:
        yield made


def make_sandbox(kind: str, root: Path, limits: SandboxLimits = SandboxLimits()) -> ChannelSandbox:
    if kind == "local":
        return LocalSandbox(root, limits=limits)
    return DockerSandbox(root, image=IMAGE, name="behaviour", limits=limits)


def folder(sandbox: ChannelSandbox) -> str:
    """Where commands run, as they see it."""
    return str(sandbox.root) if isinstance(sandbox, LocalSandbox) else "/workspace"


def on_host(sandbox: ChannelSandbox, path: str) -> Path:
    """A file of the workspace as this side sees it."""
    assert isinstance(sandbox, LocalSandbox | DockerSandbox)
    return sandbox.root / path


def mark() -> str:
    """A number of seconds to sleep that no other process sleeps."""
    return str(random.randint(10**8, 10**9))


def alive(sandbox: ChannelSandbox, number: str) -> list[str]:
    """Processes whose arguments hold the number; the pattern does not find the search itself."""
    return sandbox.run(f"pgrep -af '[{number[0]}]{number[1:]}'").output.splitlines()


def in_time(late: list[float], seconds: float) -> bool:
    """Whether two were: of three, the median."""
    return sum(each < seconds for each in late) >= 2


def eventually(check: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


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
        assert eventually(lambda: bool(alive(sandbox, number)))
        sandbox.run(f"pkill -f '[{number[0]}]{number[1:]}'")
        assert eventually(lambda: not alive(sandbox, number))

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
        assert eventually(lambda: sandbox.run("cat heard").output == "told\n")

    def test_an_earlier_commands_child_outlives_a_time_out(self, sandbox: ChannelSandbox) -> None:
        kept, ended = mark(), mark()
        sandbox.run(f"sleep {kept} & true")
        assert sandbox.run(f"sleep {ended}", timeout=0.3).timed_out
        assert alive(sandbox, kept)
        assert not alive(sandbox, ended)
        sandbox.run(f"pkill -f '[{kept[0]}]{kept[1:]}'")


SUBREAPER = textwrap.dedent("""
    import ctypes, os, sys, time
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            time.sleep(60)
    time.sleep(60)
""")
FORMS = {
    "plain": "sleep {n}",
    "in place of the shell": "exec sleep {n}",
    "signals trapped": "trap '' TERM INT HUP QUIT; sleep {n}",
    "own session": "setsid sleep {n} & sleep {n}",
    "double fork": "(setsid bash -c 'sleep {n} & sleep {n} &' &); sleep {n}",
    "another name": "(exec -a innocent sleep {n}) & (exec -a '' sleep {n}) & sleep {n}",
    "no environment": "env -i setsid sleep {n} & env -i sleep {n}",
    "own subreaper": f"python3 -c '{SUBREAPER}' {{n}}",
    "stopped": "sleep {n} & kill -STOP $!; bash -c 'kill -STOP $$; sleep 1' {n}",
    "worker stopped": "kill -STOP $PPID; sleep {n}",
    "pipeline": "sleep {n} | sleep {n} | cat",
    "disowned": "nohup sleep {n} > /dev/null 2>&1 & disown; sleep {n}",
    "busy": "sh -c 'while :; do :; done' {n}",
    "flood": "yes {n}",
    "outputs closed": "exec >&- 2>&-; sleep {n}",
    "many": "for i in $(seq 40); do sleep {n} & done; wait",
    "restarting itself": "run() {{ trap 'run & exit' TERM; sleep {n} & wait; }}; run & run",
}


class TestTimeOut:
    """S4: at the deadline everything ends."""

    @pytest.mark.parametrize("form", FORMS)
    def test_nothing_is_left(self, sandbox: ChannelSandbox, form: str) -> None:
        sandbox.run("true")  # it has been started
        late = []
        for _ in range(3):  # one of three may find the machine busy with something else
            number = mark()
            begun = time.monotonic()
            result = sandbox.run("echo printed; " + FORMS[form].format(n=number), timeout=0.6)
            late.append(time.monotonic() - begun - 0.6)
            assert (result.exit_code, result.timed_out) == (124, True)
            lines = result.output.splitlines()
            assert lines[0] == "printed"
            assert lines[-1].startswith("[timed out after 0.6 s")
            assert not alive(sandbox, number)
            if in_time(late, GONE):
                break
        assert in_time(late, GONE), late
        assert max(late) < 4 * GONE

    @pytest.mark.parametrize("how", ["time-out", "cancelled"])
    async def test_all_that_end_at_once(self, sandbox: ChannelSandbox, how: str) -> None:
        """Their trees are ended together, and no other's with them."""
        numbers = [mark() for _ in FORMS]
        seconds = 1.0 if how == "time-out" else 60.0
        other = asyncio.create_task(sandbox.arun("sleep 3; echo whole"))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        ending = [
            asyncio.create_task(sandbox.arun(form.format(n=number), timeout=seconds))
            for form, number in zip(FORMS.values(), numbers, strict=True)
        ]
        if how == "cancelled":
            await asyncio.sleep(1)
            for each in ending:
                each.cancel()
            await asyncio.sleep(4 * GONE)
        else:
            assert {result.exit_code for result in await asyncio.gather(*ending)} == {124}
            assert time.monotonic() - begun < 1 + 4 * GONE
        for number in numbers:
            assert not await asyncio.to_thread(alive, sandbox, number)
        assert (await other).output == "whole\n"

    def test_what_was_printed_is_kept_and_the_last_line_is_its_own(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("printf 'no line end'; sleep 30", timeout=0.3)
        assert result.output.splitlines()[0] == "no line end"
        assert len(result.output.splitlines()) == 2

    def test_a_time_out_without_output_is_one_line(self, sandbox: ChannelSandbox) -> None:
        assert len(sandbox.run("sleep 30", timeout=0.2).output.splitlines()) == 1

    def test_others_go_on(self, sandbox: ChannelSandbox) -> None:
        with ThreadPoolExecutor() as pool:
            other = pool.submit(sandbox.run, "sleep 1.5; echo whole")
            assert sandbox.run("sleep 30", timeout=0.3).timed_out
            assert other.result().output == "whole\n"

    @pytest.mark.parametrize("seconds", [0, -1, 3600.1, float("inf"), float("nan")])
    def test_only_a_time_within_the_bounds_is_taken(self, sandbox: ChannelSandbox, seconds: float) -> None:
        with pytest.raises(ValueError, match="timeout"):
            sandbox.run("true", timeout=seconds)

    def test_the_longest_time_is_taken(self, sandbox: ChannelSandbox) -> None:
        assert sandbox.run("echo on", timeout=3600).output == "on\n"

    def test_the_default_is_the_limits(self, tmp_path: Path) -> None:
        with make_sandbox("local", tmp_path, SandboxLimits(timeout=0.3)) as sandbox:
            assert sandbox.run("sleep 30").exit_code == 124

    @pytest.mark.parametrize("form", FORMS)
    async def test_cancelling_does_the_same(self, sandbox: ChannelSandbox, form: str) -> None:
        number = mark()
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(
            sandbox.arun(
                "echo printed; " + FORMS[form].format(n=number),
                timeout=60,
                on_output=lambda _: loop.call_soon_threadsafe(begun.set),
            )
        )
        await asyncio.wait_for(begun.wait(), 20)
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(GONE)
        assert not await asyncio.to_thread(alive, sandbox, number)

    async def test_what_was_ended_before_its_shell_had_read_it_is_not_run_later(
        self, sandbox: ChannelSandbox
    ) -> None:
        """A shell reads its command byte by byte: of a long one something is left in the pipe."""
        for delay in range(10):
            command = "#" * 30_000 + f"\nsleep {2 * GONE}; echo ran >> stale"
            stale = asyncio.create_task(sandbox.arun(command))
            await asyncio.sleep(delay / 1000)
            stale.cancel()
            await asyncio.sleep(0.01)
            told = await asyncio.gather(*(sandbox.arun(f"echo {index}") for index in range(4)))
            assert [result.output for result in told] == [f"{index}\n" for index in range(4)]
        await asyncio.sleep(3 * GONE)
        assert (await sandbox.arun("cat stale")).exit_code == 1

    @pytest.mark.docker
    def test_a_fork_bomb_ends_within_a_second(self, tmp_path: Path) -> None:
        with make_sandbox("docker", tmp_path) as sandbox:
            late = []
            for _ in range(3):
                begun = time.monotonic()
                result = sandbox.run("bomb() { bomb | bomb & bomb; }; bomb", timeout=1)
                late.append(time.monotonic() - begun - 1)
                assert result.exit_code == 124
                # What is left: the first process, workers and waiting shells, and the listing itself.
                assert eventually(lambda: int(sandbox.run("ps -e --no-headers | wc -l").output) < 20, 1)
                if in_time(late, 1):
                    break
            assert in_time(late, 1), late
            assert max(late) < 4


class TestOutput:
    """S5: the middle of a long output is cut out, counted and kept in a file."""

    def check_cut(self, sandbox: ChannelSandbox, result: RunResult, whole: str) -> None:
        half = LIMIT // 2
        assert result.truncated
        assert result.spill_path is not None
        first, rest = result.output[:half], result.output[half:]
        note, last = rest[: -half or None], rest[-half:]
        assert first == whole[:half]
        assert last == whole[-half:]
        assert note.startswith("\n[…")
        assert note.endswith("…]\n")
        assert f" {len(whole) - LIMIT:,} characters left out" in note
        assert result.spill_path in note
        assert sandbox.read_file(result.spill_path).decode("utf-8", "replace") == whole

    @pytest.mark.parametrize(
        "unit", ["x", "ü", "😀", "x\n"], ids=["ascii", "two bytes", "four bytes", "lines"]
    )
    def test_exactly_the_limit_is_whole(self, sandbox: ChannelSandbox, unit: str) -> None:
        whole = unit * (LIMIT // len(unit))
        sandbox.write_file("whole.txt", whole.encode())
        result = sandbox.run("cat whole.txt")
        assert result.output == whole
        assert (result.truncated, result.spill_path) == (False, None)

    @pytest.mark.parametrize("extra", [1, 2, 60_000, 1_000_000])
    @pytest.mark.parametrize("unit", ["x", "ü", "😀", "aü€😀"], ids=["ascii", "two", "four", "mixed"])
    def test_more_is_cut(self, sandbox: ChannelSandbox, unit: str, extra: int) -> None:
        whole = (unit * ((LIMIT + extra) // len(unit) + 1))[: LIMIT + extra]
        sandbox.write_file("whole.txt", whole.encode())
        self.check_cut(sandbox, sandbox.run("cat whole.txt"), whole)

    @pytest.mark.parametrize(
        "data",
        [b"\x80" * 400_000, b"\xff" * 60_000, b"\xf0\x9f\x98" * 100_000, b"a\xc3" * 200_000],
        ids=["continuations", "never valid", "cut characters", "cut starts"],
    )
    def test_bytes_that_are_no_text_are_counted_as_they_are_shown(
        self, sandbox: ChannelSandbox, data: bytes
    ) -> None:
        sandbox.write_file("whole.bin", data)
        self.check_cut(sandbox, sandbox.run("cat whole.bin"), data.decode("utf-8", "replace"))

    def test_each_output_has_its_own_limit_and_file(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("head -c 60000 /dev/zero | tr '\\0' e >&2; echo out", merge_stderr=False)
        assert result.output == "out\n"
        assert result.truncated
        assert "10,000 characters left out" in result.stderr
        assert result.spill_path is not None
        assert result.spill_path in result.stderr
        assert sandbox.read_file(result.spill_path) == b"e" * 60_000

    def test_the_file_ends_at_64_mb_and_the_text_says_so(self, sandbox: ChannelSandbox) -> None:
        size = 70_000_000
        result = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' x")
        assert f"{size - LIMIT:,} characters left out" in result.output
        assert f"its first {64 * 2**20:,} bytes are in {result.spill_path}" in result.output
        assert sandbox.run(f"stat -c %s {result.spill_path}").output == f"{64 * 2**20}\n"
        sandbox.run("rm -rf .output")

    def test_the_oldest_files_go_where_all_take_over_1_gb(self, sandbox: ChannelSandbox) -> None:
        plant = "for i in $(seq 10 26); do fallocate -l 64M .output/202001$i-000000-abcdef.txt || exit; done"
        planted = sandbox.run(f"rm -rf .output; mkdir .output; echo kept > .output/notes.txt; {plant}")
        assert planted.exit_code == 0, planted.output
        try:
            result = sandbox.run("head -c 300000 /dev/zero | tr '\\0' x")
            assert result.spill_path
            names = sandbox.run("ls .output; du -sm .output").output.split()
            assert "20200111-000000-abcdef.txt" not in names
            assert {"20200112-000000-abcdef.txt", "notes.txt", Path(result.spill_path).name} <= set(names)
            assert int(names[-2]) <= 1024
        finally:
            sandbox.run("rm -rf .output")

    def test_a_time_out_keeps_the_cut_output_too(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("head -c 100000 /dev/zero | tr '\\0' x; sleep 30", timeout=1)
        assert result.timed_out
        assert result.truncated
        assert "50,000 characters left out" in result.output
        assert result.output.splitlines()[-1].startswith("[timed out")

    @pytest.mark.parametrize(
        "trap",
        [
            "mkfifo .output",
            "echo file > .output",
            "ln -s /proc/nonexistent/below .output",
            "ln -s .output .output",
            "ln -s /dev/null .output",
            "mkdir .output; chmod 0 .output",
        ],
    )
    def test_a_trap_in_the_place_of_the_file_costs_the_file_only(
        self, sandbox: ChannelSandbox, trap: str
    ) -> None:
        sandbox.run(f"rm -rf .output; {trap}")
        try:
            result = sandbox.run("head -c 300000 /dev/zero | tr '\\0' x", timeout=20)
            assert result.exit_code == 0
            assert "250,000 characters left out" in result.output
            if result.spill_path is None:
                assert "could not be kept" in result.output
            else:  # a sandbox that runs as root may write anywhere
                assert result.spill_path in result.output
        finally:
            sandbox.run("chmod -f 755 .output; rm -rf .output")

    @pytest.mark.docker
    def test_a_file_that_could_not_be_written_whole_is_not_called_whole(self, tmp_path: Path) -> None:
        """Here at the file-size limit; a full disk reads the same."""
        with make_sandbox("docker", tmp_path, SandboxLimits(file_size=2**20)) as sandbox:
            result = sandbox.run("head -c 3000000 /dev/zero | tr '\\0' x")
            assert result.exit_code == 0
            assert "2,950,000 characters left out" in result.output
            assert "the whole output" not in result.output

    @pytest.mark.parametrize("kind", ["local", DOCKER])
    def test_the_host_needs_no_memory_for_it(self, kind: str, tmp_path: Path) -> None:
        """In a process of its own, by the high-water mark of its memory: 200 MB are printed."""
        script = textwrap.dedent(f"""
            import resource, sys
            from pathlib import Path
            sys.path.insert(0, {str(Path(__file__).parent)!r})
            from test_behaviour import make_sandbox

            def peak():
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

            with make_sandbox({kind!r}, Path({str(tmp_path)!r})) as sandbox:
                for _ in range(20):
                    sandbox.run("echo warm", on_output=len)
                idle = peak()
                result = sandbox.run("head -c 200000000 /dev/zero | tr '\\\\0' x", on_output=len)
                assert "199,950,000 characters left out" in result.output, result.output[-200:]
                print(peak() - idle)
        """)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) <= 8 * 1024


class TestManyAtOnce:
    """S6: one channel carries many commands, for threads and for event loops."""

    def test_fifty_threads(self, sandbox: ChannelSandbox) -> None:
        def run(index: int) -> str:
            return sandbox.run(f"sleep 0.2; echo {index}", timeout=60).output

        begun = time.monotonic()
        with ThreadPoolExecutor(50) as pool:
            assert list(pool.map(run, range(50))) == [f"{index}\n" for index in range(50)]
        assert time.monotonic() - begun < 0.2 * 50 / 2

    async def test_fifty_tasks(self, sandbox: ChannelSandbox) -> None:
        threads = threading.active_count()
        tasks = [asyncio.create_task(sandbox.arun(f"sleep 0.5; echo {i}", timeout=60)) for i in range(50)]
        await asyncio.sleep(0.2)
        # No thread per waiting command (S2): one that writes may have been started meanwhile.
        assert threading.active_count() <= threads + 1
        results = await asyncio.gather(*tasks)
        assert [result.output for result in results] == [f"{i}\n" for i in range(50)]

    def test_two_event_loops(self, sandbox: ChannelSandbox) -> None:
        async def several(tag: str) -> list[str]:
            results = await asyncio.gather(*(sandbox.arun(f"sleep 0.1; echo {tag}{i}") for i in range(10)))
            return [result.output for result in results]

        with ThreadPoolExecutor(2) as pool:
            futures = {tag: pool.submit(asyncio.run, several(tag)) for tag in ("a", "b")}
            for tag, future in futures.items():
                assert future.result(60) == [f"{tag}{i}\n" for i in range(10)]

    def test_outputs_are_not_mixed_up(self, sandbox: ChannelSandbox) -> None:
        def run(index: int) -> bool:
            size = 40_000 + index
            result = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' {chr(97 + index)}", timeout=60)
            return result.output == chr(97 + index) * size

        with ThreadPoolExecutor(20) as pool:
            assert all(pool.map(run, range(20)))

    def test_more_commands_than_workers_wait_their_turn(self, tmp_path: Path) -> None:
        with make_sandbox("local", tmp_path) as sandbox, ThreadPoolExecutor(150) as pool:
            results = list(pool.map(lambda i: sandbox.run(f"sleep 0.5; echo {i}", timeout=60), range(150)))
        assert [result.output for result in results] == [f"{i}\n" for i in range(150)]

    def test_a_wait_that_is_too_long_is_told_and_ends_nothing_else(self, tmp_path: Path) -> None:
        """Far more than there is room for: some end late or find no place, and nobody loses the sandbox."""
        with LocalSandbox(tmp_path) as sandbox, ThreadPoolExecutor(200) as pool:

            def run(index: int) -> int:
                try:
                    return sandbox.run("sleep 4", timeout=5).exit_code
                except SandboxBusy:
                    return -1

            sandbox.run("true")
            first = sandbox.process
            codes = list(pool.map(run, range(200)))
            assert set(codes) <= {0, 124, -1}
            assert codes.count(0) >= 50
            assert sandbox.run("echo on").output == "on\n"
            assert sandbox.process is first

    @pytest.mark.docker
    def test_many_background_children_leave_room_for_the_next_command(self, tmp_path: Path) -> None:
        with make_sandbox("docker", tmp_path) as sandbox:
            for _ in range(70):
                assert sandbox.run("sleep 600 & echo on", timeout=5).output == "on\n"
            assert sandbox.run("pgrep -c sleep", timeout=5).output == "70\n"
            sandbox.write_file("/tmp/x", b"files too")
            assert sandbox.read_file("/tmp/x") == b"files too"

    def test_files_and_commands_at_once(self, sandbox: ChannelSandbox) -> None:
        def work(index: int) -> bool:
            content = os.urandom(200_000)
            sandbox.write_file(f"at-once-{index}", content)
            size = sandbox.run(f"stat -c %s at-once-{index}").output
            return size == "200000\n" and sandbox.read_file(f"at-once-{index}") == content

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(work, range(32)))


class TestStreaming:
    """S6: output is shown while it comes."""

    def test_all_of_a_small_output_in_order_while_it_runs(self, sandbox: ChannelSandbox) -> None:
        seen: list[tuple[float, bytes]] = []
        result = sandbox.run(
            "for i in 1 2 3; do echo $i; sleep 0.3; done; printf end",
            on_output=lambda data: seen.append((time.monotonic(), data)),
        )
        ended = time.monotonic()
        assert b"".join(data for _, data in seen).decode() == result.output == "1\n2\n3\nend"
        assert ended - seen[0][0] > 0.6

    def test_both_outputs_are_shown(self, sandbox: ChannelSandbox) -> None:
        seen: list[bytes] = []
        sandbox.run("echo out; sleep 0.05; echo err >&2", on_output=seen.append, merge_stderr=False)
        assert b"".join(seen) == b"out\nerr\n"

    def test_of_a_flood_a_bounded_part(self, sandbox: ChannelSandbox) -> None:
        seen: list[int] = []
        sandbox.run("head -c 100000000 /dev/zero | tr '\\0' x", on_output=lambda data: seen.append(len(data)))
        assert 2 * LIMIT <= sum(seen) < 20_000_000

    def test_a_callback_that_fails_harms_no_command(self, tmp_path: Path) -> None:
        """One that tells a finished event loop, say: the reader serves every other command too."""

        def broken(_: bytes) -> None:
            raise RuntimeError("nobody listens")

        with make_sandbox("local", tmp_path) as sandbox, ThreadPoolExecutor() as pool:
            other = pool.submit(sandbox.run, "sleep 0.5; echo whole", timeout=5)
            assert sandbox.run("echo told; sleep 0.1; echo twice", on_output=broken, timeout=5).exit_code == 0
            assert other.result().output == "whole\n"
            assert sandbox.run("echo on", timeout=5).output == "on\n"


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
