"""Each way to fail has its class, and each limit its own; the next program notices nothing (X7)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from libs.exec_tool.runner import CodeRunner
from tests.integration.exec_runners import SMALL, containers, runner
from tests.waiting import eventually

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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    """Small limits, so that each is reached soon; long enough for a busy machine to reach them."""
    with runner(
        tmp_path_factory.mktemp("exec"), name=NAME, seconds=20, limits=SMALL, disk=32 << 20, warm=2
    ) as made:
        yield made


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeRunner]:
    with runner(tmp_path_factory.mktemp("hurried"), seconds=4, limits=SMALL, keep=False) as made:
        yield made


@pytest.mark.parametrize(
    ("language", "code", "kind"),
    [
        ("python", "def x(:\n    pass", "syntax"),
        ("python", "if True:\nprint(1)", "syntax"),
        ("bash", "if true; then echo", "syntax"),
        ("python", "import no_such_module", "dependency"),
        ("bash", "no-such-command", "dependency"),
        ("python", HUGE, "memory"),
        ("python", "import numpy; numpy.ones(1 << 40)", "memory"),
        ("bash", "head -c 4G /dev/zero | tail -c 4G | wc -c; exit ${PIPESTATUS[1]}", "memory"),
        ("python", FILL, "disk"),
        ("bash", "head -c 1G /dev/zero > big", "disk"),
        ("python", FORK_BOMB, "processes"),
        # Its shell ends at once: without the last word it is chance whether the limit is met by then.
        ("bash", ":(){ :|:& };: ; sleep 2", "processes"),
        ("python", THREADS, "processes"),
        ("python", "import urllib.request; urllib.request.urlopen('http://example.com')", "network"),
        ("python", "import requests; requests.get('https://example.com', timeout=5)", "network"),
        ("bash", "curl -sS https://example.com", "network"),
        ("python", "1/0", "runtime"),
        ("python", "import sys; sys.exit(3)", "runtime"),
        ("bash", "exit 7", "runtime"),
        ("python", 'print(\'{"ok": false, "error": "no such city"}\')', "runtime"),
        ("python", "import os; os.kill(os.getpid(), 11)", "runtime"),
    ],
)
def test_class(run: CodeRunner, language: str, code: str, kind: str) -> None:
    result = run.run(code, language=language)
    assert result.error is not None
    assert result.error.kind == kind, (result.error, result.stderr[-500:])
    assert result.error.hint
    assert result.error.message


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (BUSY, "cpu"),
        ("import time; time.sleep(60)", "timeout"),
        ("import subprocess; subprocess.run(['sleep', '60'])", "timeout"),
    ],
)
def test_the_time_is_used_up(hurried: CodeRunner, code: str, kind: str) -> None:
    result = hurried.run(code)
    assert result.error and result.error.kind == kind
    # The start of its sandbox is a part of its time.
    assert 3.5 < result.metrics.sandbox + result.metrics.run < 10
    assert result.metrics.exit_code == 124


@pytest.mark.parametrize("code", [BUSY, FORK_BOMB, FILL, HUGE])
def test_the_next_program_notices_nothing(hurried: CodeRunner, code: str) -> None:
    assert hurried.run(code).error
    result = hurried.run("import os; open('x', 'w').write('1'); print(os.listdir('.') != [])")
    assert result.error is None
    assert set(result.files) == {"x"}


def test_what_a_program_says_of_itself_is_the_message(run: CodeRunner) -> None:
    error = run.run('print(\'{"ok": false, "error": "no such city"}\')').error
    assert error and "no such city" in error.message


def test_a_limit_that_was_met_without_harm_is_none(run: CodeRunner) -> None:
    code = (
        "import subprocess\nrunning = []\n"
        "try:\n    while True:\n        running.append(subprocess.Popen(['sleep', '30']))\n"
        "except OSError:\n    for each in running:\n        each.kill()\n    print('[1]')"
    )
    result = run.run(code)
    assert (result.error, result.result) == (None, [1])


def test_what_can_be_had_of_a_full_disk(run: CodeRunner) -> None:
    """The log that it wrote before is small and comes back; where all of it is too large, that is said."""
    result = run.run("open('log', 'w').write('begun')\n" + FILL)
    assert result.error and result.error.kind == "disk"
    assert result.files.get("log") == b"begun" or "come back" in result.note


def test_nothing_is_left(hurried: CodeRunner) -> None:
    hurried.run(FORK_BOMB)
    eventually(lambda: len(containers(f"{NAME}-hurried")) <= 1)
