"""Error classes: what the kernel has counted comes before what a program says (X7)."""

from __future__ import annotations

from typing import Any

import pytest

from libs.exec_tool.classify import Counted, counted, why_failed

V1 = """\
peak 16568320
oom oom_kill_disable 0
oom under_oom 0
oom oom_kill 2
pids max 3
cpu 1500000000
packed 0
"""
V2 = """\
peak 16568320
oom low 0
oom max 12
oom oom 1
oom oom_kill 2
pids max 3
cpu usage_usec 1500000
cpu user_usec 1000000
packed 1
disk 0
size 4096
"""


def kind(language: Any = "python", **given: Any) -> str | None:
    defaults: dict[str, Any] = {
        "exit_code": 1,
        "timed_out": False,
        "stdout": "",
        "stderr": "",
        "seconds": 1.0,
        "kernel": Counted(),
        "has_result": False,
    }
    error = why_failed(language, **{**defaults, **given})
    assert error is None or error.hint
    return error.kind if error else None


@pytest.mark.parametrize("printed", [V1, V2])
def test_both_versions_of_control_groups(printed: str) -> None:
    found = counted(printed)
    assert (found.peak_memory, found.cpu, found.killed, found.refused, found.packed) == (
        16568320,
        1.5,
        2,
        3,
        True,
    )


@pytest.mark.parametrize("printed", ["", "\n", "peak\n", "peak max\n", "cpu x y z\n", "packed 153\n"])
def test_what_is_not_told_is_not_known(printed: str) -> None:
    found = counted(printed)
    assert (found.peak_memory, found.cpu, found.killed, found.packed) == (None, None, 0, False)


TRACE = 'Traceback (most recent call last):\n  File "program.py", line 1, in <module>\n'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"exit_code": 0}, None),
        ({"exit_code": 0, "has_result": True, "kernel": Counted(refused=3)}, None),
        ({"exit_code": 0, "kernel": Counted(refused=3)}, "processes"),
        ({"exit_code": 137, "kernel": Counted(killed=1)}, "memory"),
        (
            {"exit_code": 1, "kernel": Counted(refused=1), "stderr": "BlockingIOError: [Errno 11]"},
            "processes",
        ),
        ({"exit_code": 124, "timed_out": True, "seconds": 30, "kernel": Counted(cpu=28.0)}, "cpu"),
        ({"exit_code": 124, "timed_out": True, "seconds": 30, "kernel": Counted(cpu=0.2)}, "timeout"),
        ({"exit_code": 124, "timed_out": True, "seconds": 30}, "timeout"),
        ({"stderr": f"{TRACE}MemoryError\n"}, "memory"),
        (
            {"stderr": f"{TRACE}numpy._core._exceptions._ArrayMemoryError: Unable to allocate 4.00 GiB"},
            "memory",
        ),
        ({"stderr": f"{TRACE}OSError: [Errno 28] No space left on device"}, "disk"),
        ({"stderr": f"{TRACE}sqlite3.OperationalError: database or disk is full"}, "disk"),
        ({"stderr": f"{TRACE}ValueError: x", "kernel": Counted(disk_left=0)}, "disk"),
        ({"stderr": '  File "program.py", line 1\n    def x(:\nSyntaxError: invalid syntax'}, "syntax"),
        ({"stderr": "  File\nIndentationError: unexpected indent"}, "syntax"),
        ({"stderr": f"{TRACE}SyntaxError: invalid syntax (<string>, line 1)"}, "runtime"),
        (
            {"language": "bash", "exit_code": 2, "stderr": "program.sh: line 3: syntax error near `fi'"},
            "syntax",
        ),
        ({"stderr": f"{TRACE}ModuleNotFoundError: No module named 'polars'"}, "dependency"),
        (
            {"language": "bash", "exit_code": 127, "stderr": "program.sh: line 1: nosuch: command not found"},
            "dependency",
        ),
        ({"stderr": f"{TRACE}urllib.error.URLError: <urlopen error [Errno -3]>"}, "network"),
        ({"stderr": f"{TRACE}requests.exceptions.ProxyError: …EGRESS_ALLOW is empty"}, "network"),
        ({"language": "bash", "exit_code": 6, "stderr": "curl: (6) Could not resolve host: x"}, "network"),
        ({"stderr": f"{TRACE}ZeroDivisionError: division by zero"}, "runtime"),
        ({"stderr": f"{TRACE}requests.exceptions.ConnectionError\n\n{TRACE}KeyError: 0"}, "runtime"),
        ({"exit_code": 3}, "runtime"),
        ({"exit_code": 3, "stdout": "boom"}, "runtime"),
    ],
    ids=str,
)
def test_class(given: dict[str, Any], expected: str | None) -> None:
    assert kind(**given) == expected


def test_the_message_is_the_last_error_and_short() -> None:
    error = why_failed(
        "python",
        exit_code=1,
        timed_out=False,
        stdout="",
        stderr=f"noise {'x' * 10_000}\n{TRACE}KeyError: {'y' * 10_000}",
        seconds=1.0,
        kernel=Counted(),
        has_result=False,
    )
    assert error is not None
    assert "KeyError" in error.message
    assert len(error.message) < 700
