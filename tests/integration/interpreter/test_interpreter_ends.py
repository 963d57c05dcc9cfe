"""Interpreters that end: by their own blocks, for another session, or at a limit."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.sandbox import SandboxBusy, SandboxLimits
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.sandboxes import NEW_INTERPRETER, Session, alive, mark
from tests.support.waiting import eventually

LOST = "its variables are lost"


class TestEnds:
    @pytest.mark.parametrize(
        ("code", "told", "exit_code"),
        [
            ("import os; os._exit(3)", "exit code 3", 3),
            ("import ctypes; ctypes.string_at(0)", "signal 11", 139),
        ],
    )
    def test_ended_interpreter_is_reported_and_replaced(
        self, block: Session, code: str, told: str, exit_code: int
    ) -> None:
        result = block(code)
        assert result.exit_code == exit_code
        assert told in result.output
        assert LOST in result.output
        assert "NameError" in block("kept").output
        assert block("1").output == "1\n"

    def test_block_is_not_given_to_an_interpreter_that_is_being_killed(
        self, sandbox: ChannelSandbox, block: Session
    ) -> None:
        """The kernel takes some time to free the memory. Meanwhile the process still exists."""
        for _ in range(5):
            block("import os\nheld = b'1' * 300_000_000\nos.system(f'echo {os.getpid()} > pid')")
            assert sandbox.run("kill -9 $(cat pid)").exit_code == 0
            result = block("print('on')")
            assert (result.exit_code, result.output) == (0, f"{NEW_INTERPRETER}on\n")

    def test_ninth_session_ends_the_one_idle_longest(self, sandbox: ChannelSandbox) -> None:
        sessions = [Session(sandbox) for _ in range(9)]
        assert [sessions[number].lives() for number in (0, 2, 8)] == [False, True, True]

    def test_session_with_an_empty_name_is_stopped_and_ended_like_others(self, tmp_path: Path) -> None:
        code = (
            "import threading, time\nopen('ticks', 'w').close()\n"
            "def tick():\n    while True:\n        time.sleep(0.01)\n"
            "        with open('ticks', 'a') as ticks: ticks.write('.')\n"
            "threading.Thread(target=tick, daemon=True).start()\n"
            "while not open('ticks').read(): time.sleep(0.01)"
        )
        with LocalSandbox(tmp_path) as sandbox:
            sandbox.run_python(code, session="", alone=True)
            first, second = sandbox.run("cat ticks; echo; sleep 0.5; cat ticks").output.split("\n")
            assert first
            assert first == second
            code = "before = open('ticks').read()\nwhile open('ticks').read() == before: time.sleep(0.01)"
            assert sandbox.run_python(code, session="").exit_code == 0  # the thread goes on with the block
            asyncio.run(sandbox.aend_programs(""))
            assert sandbox.run_python("1", session="").output == f"{NEW_INTERPRETER}1\n"

    def test_sessions_that_ran_together_are_ended_by_the_next_one(self, tmp_path: Path) -> None:
        """More than 8 blocks run at once. When they have ended, a further session leaves 8 interpreters."""
        with LocalSandbox(tmp_path) as sandbox:
            meet = "import os, time\nopen(f'here-{os.getpid()}', 'w').close()\n"
            wait = "while len([name for name in os.listdir() if 'here' in name]) < 12: time.sleep(0.02)"

            def run(session: int) -> int:
                return sandbox.run_python(meet + wait, session=str(session)).exit_code

            with ThreadPoolExecutor(12) as pool:
                assert set(pool.map(run, range(12))) == {0}
            sandbox.run_python("1", session="further")
            pids = [path.name.removeprefix("here-") for path in tmp_path.glob("here-*")]
            deadline = time.monotonic() + 30
            while sum(Path(f"/proc/{pid}").exists() for pid in pids) != 7:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    @pytest.mark.docker
    def test_sessions_that_ran_together_leave_room_for_commands(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox]
    ) -> None:
        with sandbox_with(SandboxLimits(pids=64)) as sandbox:
            meet = "import os, time\nopen(f'here-{os.getpid()}', 'w').close()\n"
            wait = "while len([name for name in os.listdir() if 'here' in name]) < 20: time.sleep(0.02)"

            def run(session: int) -> int:
                longest = "\ntime.sleep(1)" if session == 0 else ""
                return sandbox.run_python(meet + wait + longest, session=str(session), timeout=30).exit_code

            with ThreadPoolExecutor(20) as pool:
                assert set(pool.map(run, range(20))) == {0}
            ran_last = sandbox.run_python("print(time.__name__)", session="0").output
            assert ran_last == "time\n"
            count = "ls here-* | while IFS=- read -r _ pid; do [ -e /proc/$pid ] && echo alive; done | wc -l"
            eventually(lambda: sandbox.run(count).output == "8\n")

    @pytest.mark.docker
    @pytest.mark.parametrize("do", ["run", "write"])
    def test_sessions_that_hold_all_processes_end_for_other_requests(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox], do: str
    ) -> None:
        hog = "from threading import *\nwhile True: Thread(target=Event().wait, daemon=True).start()"
        with sandbox_with(SandboxLimits(pids=64)) as sandbox:
            hogging, other = Session(sandbox), Session(sandbox)
            first = getattr(sandbox, "container_name", None)
            assert hogging(hog).exit_code == 1
            with ThreadPoolExecutor(8) as pool:  # more requests than ready workers
                if do == "run":
                    list(pool.map(lambda number: sandbox.run(f"echo > {number}"), range(8)))
                else:
                    list(pool.map(lambda number: sandbox.write_file(str(number), b"x"), range(8)))
            assert sandbox.run("ls [0-7] | wc -l").output == "8\n"
            assert getattr(sandbox, "container_name", None) == first
            assert other.lives()

    @pytest.mark.docker
    @pytest.mark.parametrize("ended", [True, False])
    def test_processes_of_a_block_that_fill_the_limit_end_for_the_next_command(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox], *, ended: bool
    ) -> None:
        start = "import os, subprocess, time\nheld = []\n"
        start += (
            "try:\n    while True: held.append(subprocess.Popen(['sleep', '600']))\nexcept OSError: pass\n"
        )
        # What a time-out has killed stays a zombie until its parent collects it.
        until = "time.sleep(60)" if ended else "1"
        with sandbox_with(SandboxLimits(pids=64)) as sandbox:
            hogging, other = Session(sandbox), Session(sandbox)
            hogging(start + until, timeout=3)
            assert sandbox.run("ls / | wc -l; echo on", timeout=10).output.endswith("\non\n")
            assert hogging("1").output == f"{NEW_INTERPRETER}1\n"
            assert other.lives()

    @pytest.mark.docker
    def test_block_is_refused_at_once_while_a_command_holds_all_processes(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox]
    ) -> None:
        hog = "from threading import *\n"
        hog += "try:\n    while True: Thread(target=Event().wait, daemon=True).start()\n"
        hog += "except RuntimeError: open('full', 'w').close()\nEvent().wait()"
        with sandbox_with(SandboxLimits(pids=64)) as sandbox:
            sandbox.start()
            with ThreadPoolExecutor(1) as pool:
                command = pool.submit(sandbox.run, f'exec python3 -c "{hog}"', timeout=10)
                eventually(lambda: "full" in str(sandbox.file("ls", path="/workspace")))
                begun = time.monotonic()
                with pytest.raises(SandboxBusy):
                    sandbox.run_python("1", session="new", timeout=30)
                assert time.monotonic() - begun < 5
                assert command.result().timed_out

    @pytest.mark.docker
    def test_session_that_holds_all_processes_and_does_not_end_is_killed(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox]
    ) -> None:
        stop = "import os, signal\nfrom threading import *\n"
        stop += "Timer(1, os.kill, (os.getppid(), signal.SIGSTOP)).start()\n"
        hog = "while True: Thread(target=Event().wait, daemon=True).start()"
        with sandbox_with(SandboxLimits(pids=64)) as sandbox:
            hogging = Session(sandbox)
            first = getattr(sandbox, "container_name", None)
            assert hogging(stop + hog).exit_code == 1
            time.sleep(1.5)
            begun = time.monotonic()
            with ThreadPoolExecutor(8) as pool:  # more requests than ready workers
                assert set(pool.map(lambda _: sandbox.run("echo on").output, range(8))) == {"on\n"}
            assert time.monotonic() - begun < 10
            assert getattr(sandbox, "container_name", None) == first

    @pytest.mark.docker
    @pytest.mark.parametrize(
        "hog",
        [
            "import os\nwhile os.fork(): pass\nimport time; time.sleep(600)",
            "import subprocess\nheld = []\nwhile True: held.append(subprocess.Popen(['sleep', '600']))",
            "from threading import *\nwhile True: Thread(target=Event().wait, daemon=True).start()",
        ],
    )
    def test_session_that_holds_all_processes_ends_for_a_new_session(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox], hog: str
    ) -> None:
        with sandbox_with(SandboxLimits(pids=64)) as sandbox:
            other, hogging = Session(sandbox), Session(sandbox)
            assert hogging(hog).exit_code == 1
            for _ in range(20):
                with contextlib.suppress(SandboxBusy):  # ended processes count until they are collected
                    assert sandbox.run_python("1", session="new").output == "1\n"
                    break
                time.sleep(0.1)
            assert sandbox.run_python("1", session="new").output == "1\n"
            assert other.lives()
            assert hogging("1").output == f"{NEW_INTERPRETER}1\n"

    @pytest.mark.docker
    def test_block_that_ends_programs_in_the_background_says_so(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox]
    ) -> None:
        hog = "import subprocess\nheld = []\nwhile True: held.append(subprocess.Popen(['sleep', '600']))"
        with sandbox_with(SandboxLimits(pids=64)) as sandbox:
            assert sandbox.run("sleep 500 > /dev/null 2>&1 &").exit_code == 0
            assert Session(sandbox)(hog).exit_code == 1
            with pytest.raises(SandboxBusy) as error:
                sandbox.run_python("1", session="new")
            assert "What earlier commands have left running, if anything, was ended" in error.value.hint
            assert sandbox.run("exec pgrep -f 'sleep 500'").exit_code == 1

    def test_forged_answer_ends_the_interpreter(self, block: Session) -> None:
        for answer in ("b'\\0'", "b'\\0' * 9", "b'x' * 64"):
            begun = time.monotonic()
            result = block(f"import os\nprint('on')\nos.write(4, {answer})\nwhile True: pass", timeout=10)
            assert result.exit_code != 0
            assert "answered in its place" in result.output
            assert time.monotonic() - begun < 5
            assert block("1 + 1").output.endswith("2\n")

    def test_forged_answer_for_the_next_block_ends_the_interpreter(self, block: Session) -> None:
        late = "def late():\n    next_block.wait()\n    os.write(4, b'\\0' * 9)\n"
        head = "import os, threading, time\nnext_block = threading.Event()\n"
        block(f"{head}{late}threading.Thread(target=late).start()")
        result = block("next_block.set()\ntime.sleep(5)\nprint('mine')", timeout=20)
        assert "answered in its place" in result.output
        assert [block(f"print({number})").output.splitlines()[-1] for number in range(4)] == list("0123")

    def test_right_answer_before_the_end_of_a_block_is_not_blamed_on_the_next_block(
        self, block: Session
    ) -> None:
        find = "import os, sys, time\nf = sys._getframe()\nwhile 'mark' not in f.f_locals: f = f.f_back\n"
        result = block(f"{find}os.write(4, f.f_locals['mark'] + b'\\0')\ntime.sleep(0.5)")
        assert (result.output, result.exit_code) == ("", 0)
        assert "a block or another process answered in its place" in block("time.sleep(20)").output
        block(f"{find}os.write(4, f.f_locals['mark'] + b'\\0');")
        time.sleep(1)
        assert block("print(1)").output == f"{NEW_INTERPRETER}1\n"

    @pytest.mark.docker
    def test_block_runs_with_the_lowest_limit_of_open_files(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox]
    ) -> None:
        with sandbox_with(SandboxLimits(open_files=64)) as sandbox:
            assert Session(sandbox).lives()

    def test_note_says_that_programs_of_earlier_blocks_may_have_ended(self, block: Session) -> None:
        number = mark()
        block(f"import os, subprocess\nsubprocess.Popen(['sleep', '{number}'])")
        assert alive(block.sandbox, number)
        block("os._exit(3)")
        assert not alive(block.sandbox, number)
        assert "left running may have ended]" in block("1").output

    def test_block_for_which_no_memory_is_left_ends_the_interpreter_at_once(self, block: Session) -> None:
        block("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1, 1))")
        result = block("'" + "x" * 3_000_000 + "';", 60)
        assert (result.exit_code, result.timed_out) == (1, False)
        assert result.output.startswith("[no memory was left to read this block: it did not begin]\n")
        assert LOST in result.output
        assert block("1").output == f"{NEW_INTERPRETER}1\n"

    @pytest.mark.docker
    def test_exhausted_memory_ends_only_the_interpreter(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox]
    ) -> None:
        limits = SandboxLimits(memory=256 * 2**20, tmp=16 * 2**20)
        with sandbox_with(limits) as sandbox:
            sandbox.run_python("kept = 1", session="a")
            first = getattr(sandbox, "container_name", None)
            assert first
            result = sandbox.run_python("hog = bytearray(2**30)", session="a")
            assert result.exit_code in (1, 137)
            assert "memory" in result.output.lower()
            assert sandbox.run_python("1 + 1", session="a").output == f"{NEW_INTERPRETER}2\n"
            assert getattr(sandbox, "container_name", None) == first
