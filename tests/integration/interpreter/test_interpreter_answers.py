"""The output of a block says truly whether variables are kept, whatever ended or changed the interpreter."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.sandboxes import NEW_INTERPRETER as NOTE
from tests.support.sandboxes import ON_BOTH, Session

KEPT = "the block was interrupted, its variables are kept]"
LOST = "the interpreter was ended, its variables are lost]"
IMPORTS = "import os, signal, time\n"


@ON_BOTH
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("signal.signal(signal.SIGINT, signal.SIG_DFL)\ntime.sleep(60)", LOST),
        ("try: time.sleep(60)\nexcept KeyboardInterrupt: os._exit(130)", LOST),
        ("try: time.sleep(60)\nexcept KeyboardInterrupt: raise SystemExit(130)", KEPT),
        ("os.system('sleep 60')", KEPT),
        ("try: time.sleep(60)\nexcept KeyboardInterrupt: print('done')", KEPT),
        ("class Slow(Exception):\n    def __str__(self): time.sleep(60)\nraise Slow", KEPT),
    ],
)
def test_time_out_says_whether_the_variables_are_kept(sandbox: ChannelSandbox, code: str, said: str) -> None:
    for _ in range(6):  # an interrupted block has 0.2 s to end; on a busy machine it may be ended instead
        block = Session(sandbox)
        result = block(IMPORTS + code, 0.5)
        assert (result.exit_code, result.timed_out) == (124, True)
        kept = result.output.endswith(KEPT)
        assert kept or result.output.endswith(LOST)
        after = block("kept").output
        assert after == "1\n" if kept else after.startswith(NOTE)
        if result.output.endswith(said):
            return
    raise AssertionError(result.output)


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


def _reset(block: Session) -> None:
    block.sandbox.reset()


@ON_BOTH
@pytest.mark.parametrize("end", [_end_later, _kill_by_a_command, _kill_its_worker, _evict, _reset])
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


def test_error_of_a_signal_handler_between_blocks_is_shown_by_the_next_block(block: Session) -> None:
    block(
        "import signal\ndef late(*_): raise ValueError('late')\n"
        "signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)"
    )
    time.sleep(2)
    assert block("kept").output == "[raised by a signal handler since the last block: ValueError: late]\n1\n"


@ON_BOTH
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
        ("import builtins\nbuiltins.len = builtins.getattr = None\n1 / 0", "ZeroDivisionError"),
        ("import sys\nfor name in list(sys.modules): del sys.modules[name]\n1 / 0", "ZeroDivisionError"),
        ("import sys\nsys.setrecursionlimit(10**6)\ndef f(): f()\nf()", "RecursionError"),
    ],
)
def test_block_that_breaks_the_interpreters_own_code_shows_its_error_and_keeps_the_variables(
    sandbox: ChannelSandbox, code: str, shown: str
) -> None:
    block = Session(sandbox)
    result = block(code)
    assert shown in result.output
    assert result.exit_code == 1
    assert len(result.output) < 20_000
    assert block("print(kept)").exit_code in (0, 1)
    assert NOTE not in block("kept").output


def test_audit_hook_that_raises_is_the_error_of_each_later_block(block: Session) -> None:
    """An audit hook cannot be removed, so no later block can be compiled. The interpreter says so itself."""
    block("import sys\ndef hook(*_): raise ValueError('hooked')\nsys.addaudithook(hook)")
    for _ in range(2):
        result = block("kept")
        assert (result.exit_code, result.output) == (1, "ValueError: hooked\n")
