"""Error classes: the kernel's counters come before the output of the program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from libs.exec_tool.execute_code_call import Language
from libs.exec_tool.execution_outcome import ExecError
from libs.exec_tool.failure_cause import Counted, counted, why_failed
from libs.exec_tool.program_folder import MODULES, program_path
from libs.sandbox.protocol import RunResult

V1 = """\
peak 16568320
oom oom_kill_disable 0
oom under_oom 0
oom oom_kill 2
pids max 3
cpu 1500000000
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
disk 0
"""


def failure(
    language: Language = "python",
    *,
    kernel: Counted | None = None,
    has_result: bool = False,
    has_network: bool = True,
    installs: bool = True,
    **done: Any,
) -> ExecError | None:
    ended = RunResult("", "", 1, truncated=False, timed_out=False, spill_path=None, seconds=1.0)
    return why_failed(
        language,
        replace(ended, **done),
        kernel or Counted(),
        has_result=has_result,
        has_network=has_network,
        installs=installs,
        modules=MODULES,
    )


@pytest.mark.parametrize("printed", [V1, V2])
def test_counters_of_both_cgroup_versions_are_read(printed: str) -> None:
    assert replace(counted(printed), disk_left=None) == Counted(16568320, 1.5, 2, 3)


@pytest.mark.parametrize("printed", ["", "peak max\n"])
def test_missing_counters_are_none(printed: str) -> None:
    assert counted(printed) == Counted()


SYNTAX = f'  File "{program_path("python")}", line 1\n'
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
        ({"exit_code": 124, "timed_out": True, "seconds": 1.3, "kernel": Counted(cpu=0.14)}, "timeout"),
        ({"exit_code": 124, "timed_out": True, "seconds": 1.3, "kernel": Counted(cpu=1.2)}, "cpu"),
        ({"stderr": f"{TRACE}MemoryError\n"}, "memory"),
        ({"stderr": f"{TRACE}OSError: [Errno 28] No space left on device"}, "disk"),
        ({"stderr": f"{TRACE}ValueError: x", "kernel": Counted(disk_left=0)}, "disk"),
        ({"stderr": f"{SYNTAX}    def x(:\nSyntaxError: invalid syntax"}, "syntax"),
        ({"stderr": '  File "other.py", line 1\n    def x(:\nSyntaxError: invalid syntax'}, "runtime"),
        ({"stderr": f"{TRACE}SyntaxError: invalid syntax (<string>, line 1)"}, "runtime"),
        (
            {"language": "bash", "exit_code": 2, "stderr": "program.sh: line 3: syntax error near `fi'"},
            "syntax",
        ),
        ({"stderr": f"{TRACE}ModuleNotFoundError: No module named 'polars'"}, "dependency"),
        ({"stderr": f"{TRACE}ImportError: cannot import name 'Fram' from 'pandas'"}, "runtime"),
        ({"stderr": f"{TRACE}ImportError: Missing optional dependency 'xlrd'."}, "dependency"),
        (
            {"language": "bash", "exit_code": 127, "stderr": "program.sh: line 1: nosuch: command not found"},
            "dependency",
        ),
        ({"stderr": f"{TRACE}requests.exceptions.ProxyError: …EGRESS_ALLOW is empty"}, "network"),
        ({"language": "bash", "exit_code": 6, "stderr": "curl: (6) Could not resolve host: x"}, "network"),
        ({"stderr": f"{TRACE}requests.exceptions.ConnectionError\n\n{TRACE}KeyError: 0"}, "runtime"),
        ({"exit_code": 3, "output": "boom"}, "runtime"),
    ],
    ids=str,
)
def test_error_class(given: dict[str, Any], expected: str | None) -> None:
    error = failure(**given)
    assert (error.kind if error else None) == expected
    assert error is None or error.hint


@pytest.mark.parametrize(
    ("name", "hinted"),
    [("kv", True), ("pandas", False), ("total", False)],
    ids=["module", "package", "other"],
)
def test_hint_names_the_import_of_a_module_of_the_sandbox(name: str, hinted: bool) -> None:
    error = failure(stderr=f"{TRACE}NameError: name '{name}' is not defined\n")
    assert error is not None
    assert (error.hint.startswith(f"Write `import {name}` first")) is hinted


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ({"stderr": f"{TRACE}MemoryError"}, "ended with exit code 1. MemoryError"),
        ({"stderr": f"{TRACE}RuntimeError: can't start new thread"}, "ended with exit code 1. RuntimeError"),
        ({"stderr": f"{TRACE}OSError: [Errno 27] File too large"}, "ended with exit code 1. OSError"),
        ({"stderr": "x", "kernel": Counted(killed=1)}, "The sandbox ran out of memory. x"),
        ({"stderr": "x", "kernel": Counted(disk_left=0)}, "The disk of the sandbox is full. x"),
        ({"stderr": "x", "kernel": Counted(refused=2)}, "no room for more processes: 2 were refused. x"),
    ],
    ids=str,
)
def test_fact_is_what_the_kernel_counted(given: dict[str, Any], fact: str) -> None:
    error = failure(**given)
    assert error is not None
    assert fact in error.message


def test_hint_helps_where_it_is_given() -> None:
    missing = {"stderr": f"{TRACE}ModuleNotFoundError: No module named 'polars'"}
    broken = "program.sh: line 3: syntax error near `fi'"
    for given, hint in (
        (missing, "Name the package in `dependencies`"),
        ({**missing, "installs": False}, "This runner installs no packages"),
        ({"stderr": f"{SYNTAX}SyntaxError: invalid syntax"}, "Nothing of the program ran."),
        ({"language": "bash", "exit_code": 2, "stderr": broken}, "The lines above the error may have run"),
    ):
        error = failure(**given)
        assert error is not None
        assert error.hint.startswith(hint)


def test_message_is_the_last_error_and_short() -> None:
    error = failure(stderr=f"noise {'x' * 10_000}\n{TRACE}KeyError: {'y' * 10_000}")
    assert error is not None
    assert "KeyError" in error.message
    assert len(error.message) < 700
