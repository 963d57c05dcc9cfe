"""The output of a block says truly whether variables are kept, whatever ended or changed the interpreter."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from libs.sandbox import KeyReused, SandboxBusy
from libs.sandbox.host import CommandRecords
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.sandboxes import NEW_INTERPRETER as NOTE
from tests.support.sandboxes import ON_BOTH, Session
from tests.support.waiting import eventually

KEPT = "processes started during the block were ended, the variables are kept]"
INTERRUPTED = f"the block was interrupted, {KEPT}"
OTHERWISE = f"the block ended, but not with KeyboardInterrupt: {KEPT}"
LOST = "the interpreter was ended, its variables are lost]"
TAKEN = (
    "[the interpreter was ended: a block closed or replaced its descriptors, or a process sent it signal 64, "
    "and its variables are lost]"
)
IMPORTS = "import os, signal, time\n"


@ON_BOTH
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("signal.signal(signal.SIGINT, signal.SIG_DFL)\ntime.sleep(60)", LOST),
        ("try: time.sleep(60)\nexcept KeyboardInterrupt: os._exit(130)", LOST),
        ("try: time.sleep(60)\nexcept KeyboardInterrupt: raise SystemExit(130)", OTHERWISE),
        ("os.system('sleep 60')", OTHERWISE),
        ("time.sleep(60)", INTERRUPTED),
        ("try: time.sleep(60)\nexcept KeyboardInterrupt: print('done')", OTHERWISE),
        ("class Slow(Exception):\n    def __str__(self): time.sleep(60)\nraise Slow", OTHERWISE),
        ("class E(SystemExit): code = property(lambda self: time.sleep(60))\nraise E", OTHERWISE),
    ],
)
def test_time_out_says_whether_the_variables_are_kept(sandbox: ChannelSandbox, code: str, said: str) -> None:
    for _ in range(6):  # an interrupted block has 0.2 s to end; on a busy machine it may be ended instead
        block = Session(sandbox)
        result = block(IMPORTS + code, 0.5)
        assert (result.exit_code, result.timed_out) == (124, True)
        kept = result.output.endswith((INTERRUPTED, OTHERWISE))
        assert kept or result.output.endswith(LOST)
        after = block("kept").output
        assert after == "1\n" if kept else after.startswith(NOTE)
        if result.output.endswith(said):
            return
    raise AssertionError(result.output)


def test_time_out_while_the_interpreter_starts_shows_no_error_of_the_interpreter(
    sandbox: ChannelSandbox,
) -> None:
    for hundredth in range(1, 7):
        with suppress(SandboxBusy):  # the block could not begin
            late = sandbox.run_python(
                "while True: pass", session=f"start {hundredth}", timeout=hundredth / 100
            ).output
            assert "repl.py" not in late
            assert "Fatal Python error" not in late
            assert late.endswith((LOST, INTERRUPTED))


def test_block_that_waited_for_another_block_of_its_session_is_told_so(block: Session) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(block, "import time\nprint('on')\ntime.sleep(3)")
        time.sleep(1)
        with pytest.raises(SandboxBusy) as error:
            block("kept", 0.5)
        assert "An earlier block of the same session still runs" in error.value.hint
        late = block("time.sleep(9)", 2.5).output
        assert running.result().output == "on\n"
    assert re.search(r"\[timed out after 2.5 s, of which it waited 1\.\d s for its turn: the block", late)


def test_interrupt_ends_each_block_whatever_handler_an_earlier_block_has_set(block: Session) -> None:
    block("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    begun = time.monotonic()
    assert block("time.sleep(60)", 1).exit_code == 124
    assert time.monotonic() - begun < 30


UNTIL_ENDED = "while grep -q '^State:.[^Z]' /proc/{pid}/status 2>/dev/null; do sleep 0.05; done; sleep 0.2"


def _end_later(block: Session) -> None:
    code = "import os, threading\nthreading.Timer(0.2, lambda: os._exit(3)).start()\nos.getpid()"
    pid = block(code).output.strip()
    block.sandbox.run(UNTIL_ENDED.format(pid=pid))


def _kill_by_a_command(block: Session) -> None:
    pid = block("import os\nos.getpid()").output.strip()
    block.sandbox.run(f"kill -9 {pid}; {UNTIL_ENDED.format(pid=pid)}")


def _kill_its_worker(block: Session) -> None:
    pid = block("import os\nos.getppid()").output.strip()
    block.sandbox.run(f"kill -9 {pid}; {UNTIL_ENDED.format(pid=pid)}")


def _evict(block: Session) -> None:
    for _ in range(8):
        Session(block.sandbox)


def _end_all_of_the_thread(block: Session) -> None:
    block("import os\nos._exit = lambda code: None")
    asyncio.run(block.sandbox.aend_programs(""))


def _reset(block: Session) -> None:
    block.sandbox.reset()


@ON_BOTH
@pytest.mark.parametrize(
    "end", [_end_later, _kill_by_a_command, _kill_its_worker, _evict, _end_all_of_the_thread, _reset]
)
def test_block_in_a_new_interpreter_begins_with_a_note(
    sandbox: ChannelSandbox, end: Callable[[Session], None]
) -> None:
    block = Session(sandbox)
    end(block)
    live: list[bytes] = []
    code = "print('kept' in globals())"
    first = sandbox.run_python(code, session=block.name, on_output=live.append)
    assert first.output == f"{NOTE}False\n"
    assert b"".join(live).startswith(NOTE.encode())
    assert block("1").output == "1\n"


def test_caller_that_knows_of_earlier_blocks_gets_the_note_from_a_new_sandbox(tmp_path: Path) -> None:
    with LocalSandbox(tmp_path) as sandbox:
        assert sandbox.run_python("1", session="new").output == "1\n"
        assert sandbox.run_python("1", session="old", continues=True).output == f"{NOTE}1\n"
        assert sandbox.run_python("1", session="old", continues=True).output == "1\n"


async def test_refused_block_does_not_hide_that_a_block_beside_it_has_run(tmp_path: Path) -> None:
    records = CommandRecords(tmp_path / "log.sqlite")
    with LocalSandbox(tmp_path / "workspace", records=records) as sandbox:
        await sandbox.arun("true", key="used")
        refused = asyncio.create_task(sandbox.arun_python("1", session="s", key="used"))
        beside = asyncio.create_task(sandbox.arun_python("kept = 1", session="s"))
        with pytest.raises(KeyReused):
            await refused
        await beside
        await sandbox.areset()
        assert (await sandbox.arun_python("1", session="s")).output == f"{NOTE}1\n"
    records.close()


async def test_note_that_a_cancelled_block_has_not_shown_is_shown_by_the_next_block(tmp_path: Path) -> None:
    with LocalSandbox(tmp_path) as sandbox:
        block = Session(sandbox)
        await asyncio.to_thread(_kill_by_a_command, block)
        begun = threading.Event()
        code = "print(1)\nimport time; time.sleep(60)"
        task = asyncio.create_task(
            sandbox.arun_python(code, session=block.name, on_output=lambda _: begun.set())
        )
        assert await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        await asyncio.wait([task])
        after = await sandbox.arun_python("1", session=block.name)
        assert after.output == f"{NOTE}1\n"
        assert (await sandbox.arun_python("1", session=block.name)).output == "1\n"


def test_stopped_interpreter_runs_the_next_block(block: Session) -> None:
    pid = block("import os\nos.getpid()").output.strip()
    block.sandbox.run(f"kill -STOP {pid}")
    assert block("kept").output == "1\n"


@pytest.mark.parametrize(
    "start",
    [
        "signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)",
        "signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.2, 0.05)",
        "def late(*_): raise TimeoutError(62, 'late')\n"  # an error with a number, like those of the kernel
        "signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)",
        "import ctypes, threading\nraise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc\n"
        "main = ctypes.c_ulong(threading.get_ident())\n"
        "threading.Timer(0.2, raise_in, [main, ctypes.py_object(ValueError('late'))]).start()",
    ],
)
def test_error_raised_between_blocks_is_shown_by_the_next_block(block: Session, start: str) -> None:
    """The block itself is read whole, and the answer is written once."""
    block(f"import signal\ndef late(*_): raise ValueError('late')\n{start}")
    time.sleep(2)
    first = block("print('ran')")
    assert first.output.startswith("[raised by a signal handler or a thread since the last block: ")
    assert first.exit_code in (0, 1)  # a further signal may come while the block runs
    block("signal.setitimer(signal.ITIMER_REAL, 0)")
    for _ in range(2):  # an error of the last signal may be left
        last = block("kept")
    assert last.output == "1\n"


def test_errors_between_blocks_that_are_not_shown_are_counted(sandbox: ChannelSandbox) -> None:
    block = Session(sandbox)
    block(
        "import signal\ncount = 0\ndef late(*_):\n    global count\n    count += 1\n"
        "    if count == 10: signal.setitimer(signal.ITIMER_REAL, 0); open('all-raised', 'w')\n"
        "    raise ValueError(count)\n"
        "signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.2, 0.1)"
    )
    eventually(lambda: sandbox.run("rm all-raised").exit_code == 0)
    *shown, more, ran = block("print('ran')").output.splitlines()
    assert len(shown) == 3
    assert (more, ran) == ("[not shown: 7 further errors of this kind]", "ran")
    assert block("kept").output == "1\n"


@ON_BOTH
def test_interpreter_survives_a_handler_that_raises_all_the_time(sandbox: ChannelSandbox) -> None:
    block = Session(sandbox)
    block("kept = 1\nimport signal\ndef late(*_): raise ValueError('late')")
    block("signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)")
    for _ in range(100):  # most of them end before the next signal
        assert "lost" not in block("kept").output


def test_signals_that_a_block_holds_back_stay_so(block: Session) -> None:
    block("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])")
    block("import os\nos.kill(os.getpid(), signal.SIGUSR1)")
    assert block("int(signal.sigwait([signal.SIGUSR1])), kept").output == "(10, 1)\n"
    assert block("signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR1}").output == "True\n"


@ON_BOTH
@pytest.mark.parametrize(
    "code",
    [
        "os.close(3)",
        "os.close(4)",
        "os.closerange(3, 100)",
        "os.closerange(0, 100)",
        "os.close(7)",
        "os.dup2(os.open('/dev/null', os.O_RDWR), 3)",
        "os.dup2(os.open('file', os.O_RDWR | os.O_CREAT), 4)",
    ],
)
def test_block_that_takes_the_interpreters_descriptors_ends_at_once_and_says_so(
    sandbox: ChannelSandbox, code: str
) -> None:
    block = Session(sandbox)
    result = block(f"import os\n{code};", 60)
    assert (result.exit_code, result.timed_out) == (1, False)
    assert result.output == TAKEN
    assert block("print(1)").output == f"{NOTE}1\n"


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (
            "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
            "E: <exception str() failed>",
        ),
        ("class E(TypeError):\n    def __str__(self): raise SystemExit\nraise E", "E"),
        ("raise SystemExit(object())", "SystemExit: <object object at"),
        ("class C:\n    def __str__(self): 1 / 0\nraise SystemExit(C())", "SystemExit"),
        ("class E(SystemExit): code = property(lambda self: 1 / 0)\nraise E", "cannot be shown: E]"),
        ("class E(Exception):\n    @property\n    def __class__(self): raise SystemExit\nraise E", "E"),
        ("class C:\n    def __eq__(self, other): 1 / 0\nraise SystemExit(C())", "SystemExit"),
        (
            "import sys\nclass S:\n    def flush(self): raise BaseException\n    def write(self, t): pass\n"
            "sys.stdout = S()\n1 / 0",
            "ZeroDivisionError: division by zero",
        ),
        ("import sys\nsys.stdout = sys.stderr = None\n1 / 0", "ZeroDivisionError: division by zero"),
        ("import linecache\nlinecache.cache = None\n1 / 0", "ZeroDivisionError"),
        ("import traceback\ntraceback.TracebackException = None\n1 / 0", "ZeroDivisionError"),
        ("import os\nos.write = os.read = os.dup2 = None\n1 / 0", "ZeroDivisionError: division by zero"),
        ("import ast\nast.parse = ast.Expr = None\n1 / 0", "ZeroDivisionError: division by zero"),
        ("import signal\nsignal.signal = signal.SIGINT = None\n1 / 0", "ZeroDivisionError: division by zero"),
        (
            "import sys, types\nsys.modules['matplotlib.pyplot'] = types.ModuleType('x')\n1 / 0",
            "ZeroDivisionError: division by zero\n",
        ),
        ("import io\nio.StringIO = None\n1 / 0", "ZeroDivisionError"),
        ("from unittest import mock\nmock.patch('io.StringIO').start()\n1 / 0", "ZeroDivisionError"),
        ("import os\nos.fsdecode = None\n1 / 0", "ZeroDivisionError"),
        ("import os\nos.set_blocking(3, False)\n1 / 0", "ZeroDivisionError"),
        ("import builtins\nbuiltins.bytes = None\n1 / 0", "ZeroDivisionError"),
        ("import builtins\nbuiltins.isinstance = None\n1 / 0", "ZeroDivisionError: division by zero"),
        (
            "import builtins\nall, show = vars(builtins), print\nall.clear()\nall['print'] = show\n1 / 0",
            "ZeroDivisionError: division by zero",
        ),
        ("import builtins\nbuiltins.compile = None\n1 / 0", "ZeroDivisionError: division by zero"),
        ("import builtins\nbuiltins.len = builtins.getattr = None\n1 / 0", "ZeroDivisionError"),
        ("import sys\nfor name in list(sys.modules): del sys.modules[name]\n1 / 0", "ZeroDivisionError"),
        (
            "import sys\ndef trace(frame, event, arg):\n"
            "    if frame.f_code.co_name == 'flush': raise ValueError('traced')\nsys.settrace(trace)\n1 / 0",
            "ZeroDivisionError: division by zero",
        ),
        (
            "import sys\ndef profile(frame, event, arg):\n"
            "    if frame.f_code.co_name == '_serve': raise ValueError('profiled')\n"
            "sys.setprofile(profile)\n1 / 0",
            "ZeroDivisionError: division by zero",
        ),
        ("import sys\nsys.setrecursionlimit(10**6)\ndef f(): f()\nf()", "RecursionError"),
    ],
)
def test_block_that_breaks_the_interpreters_own_code_shows_its_error_and_keeps_the_variables(
    sandbox: ChannelSandbox, code: str, shown: str
) -> None:
    block = Session(sandbox)
    result = block(code, 120)  # on a busy machine, the frames of a million calls take 30 s
    assert shown in result.output
    assert result.exit_code == 1
    assert len(result.output) < 20_000
    for code in ("print(kept)", "kept"):
        after = block(code)
        assert (after.exit_code, after.output) == (0, "1\n")


@ON_BOTH
def test_cprofile_goes_on_in_the_next_block(block: Session) -> None:
    block("import cProfile\nprofile = cProfile.Profile()\nprofile.enable()\ndef called(): pass")
    block("called()")
    assert "(called)" in block("profile.disable()\nprofile.print_stats()").output


def test_audit_hook_that_raises_is_the_error_of_each_later_block(block: Session) -> None:
    """An audit hook cannot be removed, so no later block can be compiled. The interpreter says so itself."""
    block("import sys\ndef hook(*_): raise ValueError('hooked')\nsys.addaudithook(hook)")
    for _ in range(2):
        result = block("kept")
        assert (result.exit_code, result.output) == (1, "ValueError: hooked\n")
