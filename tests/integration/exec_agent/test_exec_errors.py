"""Each failure and each limit has its error class, and does not affect the next program."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from libs.exec_tool.program_runner import CodeRunner
from tests.support.exec_tool.exec_runners import SMALL, runner, spare_ready
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

NAME = f"test-exec-{secrets.token_hex(3)}"
BUSY = "while True: pass"
FORK_BOMB = "import os\nwhile True:\n    os.fork()"
HUGE = "x = bytearray(4 << 30)\nfor n in range(0, len(x), 4096): x[n] = 1"
THREADS = (
    "import threading, time\n"
    "for n in range(500): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
)
FILL = "with open('big', 'wb') as file:\n    while True:\n        file.write(bytes(1 << 20))"


def also(*case: str) -> Any:
    return pytest.param(*case, marks=pytest.mark.thorough)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    """A runner with small limits, and enough time for a busy machine to reach them."""
    with runner(
        tmp_path_factory.mktemp("exec"), name=NAME, seconds=20, limits=SMALL, disk=32 << 20, warm=2
    ) as made:
        yield made


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    with runner(tmp_path_factory.mktemp("hurried"), seconds=4, limits=SMALL, keep=False) as made:
        eventually(lambda: made.run("print(1)").result == 1)
        yield made


@pytest.mark.parametrize(
    ("language", "code", "kind"),
    [
        ("python", "def x(:\n    pass", "syntax"),
        ("bash", "no-such-command", "dependency"),
        ("bash", "set -xC; f() { no-such-command >/dev/null; }; f", "dependency"),
        ("bash", "no-such-command 2> /dev/null", "dependency"),
        ("bash", "exit 127", "runtime"),
        ("bash", "ls\r\npwd\r\n", "runtime"),
        ("bash", "./no-such-file", "runtime"),
        ("python", HUGE, "memory"),
        ("bash", "head -c 1G /dev/zero > big", "disk"),
        ("bash", "head -c 1G /dev/zero > /tmp/big", "disk"),
        ("bash", "set -e; for name in {1..20000}; do : > /tmp/$name; done", "disk"),
        ("python", FORK_BOMB, "processes"),
        # The shell ends at once. The sleep gives the processes time to reach the limit.
        also("bash", ":(){ :|:& };: ; sleep 2", "processes"),
        also("python", THREADS, "processes"),
        ("bash", "curl -sS https://example.com", "network"),
        ("bash", "exit 7", "runtime"),
        ("bash", 'echo \'{"ok": false, "error": "no such city"}\'', "runtime"),
    ],
)
def test_error_class(run: CodeRunner, language: str, code: str, kind: str) -> None:
    result = run.run(code, language=language)
    assert result.error is not None
    assert result.error.kind == kind, (result.error, result.stderr[-500:])
    assert result.error.hint
    assert result.error.message


@pytest.mark.parametrize(
    ("language", "code", "kind", "message"),
    [
        (
            "python",
            "import logging, sys\ntry:\n    import polars\nexcept ImportError:\n"
            "    logging.exception('pandas')\n"
            "sys.exit('the column is missing\\nin row 7')",
            "runtime",
            "The program ended with exit code 1. the column is missing\nin row 7",
        ),
        (
            "python",
            "open('/tmp/big', 'wb').write(bytes(15 << 20))\nopen('/tmp/more', 'wb').write(bytes(9 << 20))",
            "disk",
            "A disk of the sandbox is full. OSError: [Errno 28] No space left on device",
        ),
        (
            "python",
            "import requests\nrequests.get('https://example.com')",
            "network",
            "The program ended with exit code 1. requests.exceptions.ConnectionError: HTTPSConnectionPool(",
        ),
        (
            "python",
            "import socket\nsocket.create_connection(('127.0.0.1', 9))",
            "runtime",
            "The program ended with exit code 1. ConnectionRefusedError: ",
        ),
        ("python", "def x(:\n    pass", "syntax", "The program ended with exit code 1. SyntaxError: "),
        (
            "bash",
            "if true; fi",
            "syntax",
            "The program ended with exit code 2. /tmp/run/program.sh: line 1: syntax error near",
        ),
        (
            "bash",
            "grep x nofile\nexit $?\nnotes ( free text",
            "runtime",
            "The program ended with exit code 2. grep: nofile: No such file or directory",
        ),
        (
            "bash",
            "trap 'echo bye >&2' EXIT; no-such-command",
            "dependency",
            "The program ended with exit code 127. Not found: the command 'no-such-command'. bye",
        ),
        (
            "bash",
            "exec 2>&1; echo on; if true; fi",
            "syntax",
            "The program ended with exit code 2. /tmp/run/program.sh: line 1: syntax error near",
        ),
        (
            "bash",
            "echo 'Warning: syntax error near defaults' >&2; grep x nofile",
            "runtime",
            "The program ended with exit code 2. grep: nofile: No such file or directory",
        ),
    ],
)
def test_cause_is_what_ended_the_program(
    run: CodeRunner, language: str, code: str, kind: str, message: str
) -> None:
    error = run.run(code, language=language).error
    assert error is not None
    assert error.kind == kind
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    ("code", "kind"), [(BUSY, "cpu"), ("import subprocess; subprocess.run(['sleep', '60'])", "timeout")]
)
def test_time_limit_by_computing_or_waiting(hurried: CodeRunner, code: str, kind: str) -> None:
    spare_ready(hurried)
    result = hurried.run(code)
    assert result.error and result.error.kind == kind
    # The start of the sandbox counts too.
    assert 3.5 < result.metrics.sandbox + result.metrics.run < 9
    assert result.metrics.exit_code == 124
    spare_ready(hurried)
    assert hurried.run("print(1)").result == 1


@pytest.mark.parametrize(
    "code", [FORK_BOMB, *(pytest.param(code, marks=pytest.mark.thorough) for code in (FILL, HUGE))]
)
def test_next_program_is_not_affected(run: CodeRunner, code: str) -> None:
    assert run.run(code).error
    result = run.run("import os; open('x', 'w').write('1'); print(os.listdir('.') != [])", thread=code[:9])
    assert result.error is None
    assert set(result.files) == {"x"}


@pytest.mark.thorough
@pytest.mark.parametrize("fork", ["os.fork()", "subprocess.Popen([sys.executable, __file__])"])
def test_files_of_a_program_that_fills_the_process_limit_come_back(run: CodeRunner, fork: str) -> None:
    """Its processes start others without end, also after the first has ended."""
    result = run.run(f"import os, subprocess, sys\nopen('a', 'a').write('1')\nwhile True: {fork}")
    assert result.error
    # Interpreters need so much memory that this may be used up first.
    assert result.error.kind in {"processes", "memory"}
    assert list(result.files) == ["a"]
