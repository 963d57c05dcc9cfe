"""Message and hint of a failed program: what is certain, what may be the cause, and what mends it."""

from __future__ import annotations

from typing import Any

import pytest

from libs.exec_tool.outcome import Counted, Raised, command_not_found
from libs.sandbox.host import NO_MEMORY
from tests.support.exec_tool.exec_failures import HANDLED, answered, ended, failure


@pytest.mark.parametrize(
    ("name", "hinted"),
    [("kv", True), ("pandas", False), ("total", False)],
    ids=["module", "package", "other"],
)
def test_hint_names_the_import_of_a_module_of_the_sandbox(name: str, hinted: bool) -> None:
    error = failure(**ended("NameError", missing=name))
    assert error is not None
    assert (error.hint.startswith(f"Write `import {name}` first")) is hinted


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (ended("MemoryError"), "The program ended with exit code 1. MemoryError: told"),
        (
            {"language": "bash", "exit_code": 127, "stderr": "bye", "raised": command_not_found(b"nosuch")},
            "The program ended with exit code 127. Not found: the command 'nosuch'. bye",
        ),
        (
            {"language": "bash", "exit_code": 127, "raised": command_not_found(b"")},
            "The program ended with exit code 127.",
        ),
        ({"stderr": "x", "kernel": Counted(killed=1)}, "The sandbox ran out of memory. x"),
        ({"stderr": "x", "kernel": Counted(disk_left=0)}, "A disk of the sandbox is full. x"),
        (
            {"stderr": "x", "kernel": Counted(refused=2)},
            "The sandbox had no room for more processes: 2 were refused. x",
        ),
        (
            {"stderr": "KeyError: 1\ncp: no file\n", "output": "Error: y\n"},
            "The program ended with exit code 1. cp: no file",
        ),
        (
            {"stderr": "".join(f"\r {n}%" for n in range(200)) + "\r\rno route\r\n"},
            "The program ended with exit code 1. no route",
        ),
        (
            {"stderr": "a.sh: line 1: ./b\r: No such file\n"},  # with line ends of Windows
            "The program ended with exit code 1. a.sh: line 1: ./b\r: No such file",
        ),
        ({"output": "all is well"}, "The program ended with exit code 1."),
        (
            {"exit_code": 0, "kernel": Counted(refused=1)},
            "The sandbox had no room for more processes: 1 were refused. The program ended with exit code 0 "
            "and without a result: it may have done its work.",
        ),
        (
            {"stderr": HANDLED, "raised": Raised(("builtins.SystemExit",), "no price\nin row 7")},
            "The program ended with exit code 1. no price\nin row 7",
        ),
        (
            {"stderr": "No file\n", "raised": Raised(("builtins.SystemExit",))},
            "The program ended with exit code 1. No file",
        ),
        (
            {"stderr": HANDLED, "exit_code": 124, "timed_out": True},
            "The program used up its time, 1.0 s.",
        ),
        (
            {"exit_code": 124, "timed_out": True, "seconds": 30, "kernel": Counted(cpu=4.0)},
            "The program used up its time, 30.0 s, with 4.0 s of processor time.",
        ),
        (
            {"exit_code": 124, "timed_out": True, "kernel": Counted(disk_left=0)},
            "The program used up its time, 1.0 s. A disk of the sandbox is full.",
        ),
        (
            {"exit_code": 124, "timed_out": True, "kernel": Counted(killed=1)},
            "The sandbox ran out of memory. The program also used up its time, 1.0 s.",
        ),
    ],
    ids=str,
)
def test_message_is_what_the_kernel_counted_and_what_ended_the_program(
    given: dict[str, Any], message: str
) -> None:
    error = failure(**given)
    assert error is not None
    assert error.message == message


@pytest.mark.parametrize(
    ("given", "handled"),
    [
        ({**ended("FileNotFoundError", "OSError", code="ENOENT"), "kernel": Counted(refused=1)}, True),
        ({**ended("SystemExit"), "kernel": Counted(killed=1)}, True),
        ({"exit_code": 124, "timed_out": True, "kernel": Counted(disk_left=0)}, True),
        ({**ended("MemoryError"), "kernel": Counted(killed=1)}, False),
        ({**ended("OSError", code="ENOSPC"), "kernel": Counted(disk_left=0)}, False),
        ({"exit_code": 137, "kernel": Counted(killed=1)}, False),
        ({"exit_code": 2, "kernel": Counted(killed=1)}, True),
        ({"language": "bash", "exit_code": 2, "kernel": Counted(disk_left=0)}, True),
        ({"language": "bash", "exit_code": 2, "kernel": Counted(refused=1)}, True),
        (ended("FileNotFoundError", "OSError", code="ENOENT"), False),
    ],
    ids=str,
)
def test_hint_says_that_a_limit_may_have_been_handled(given: dict[str, Any], handled: bool) -> None:
    error = failure(**given)
    assert error is not None
    assert error.hint.startswith("The program reached this limit, but it may have handled that. ") is handled


@pytest.mark.parametrize(
    ("given", "perhaps"),
    [
        (answered("http://a.test/"), False),
        (ended("aiohttp.client_exceptions.ClientResponseError"), True),
        ({"language": "bash", "exit_code": 22}, True),
    ],
    ids=str,
)
def test_host_that_perhaps_caused_the_failure_is_said_to_do_so(given: dict[str, Any], perhaps: bool) -> None:
    error = failure(**given, unreached=("b.test", "a.test"))
    assert error is not None
    assert "Not reached: a.test, b.test." in error.message
    assert (
        error.hint.startswith("The program did not reach a host, but it may have handled that. ") is perhaps
    )


def test_last_line_of_the_errors_is_that_of_the_program() -> None:
    stderr = "grep: report.csv: No such file or directory\n" + NO_MEMORY.decode()
    error = failure("bash", exit_code=2, kernel=Counted(killed=1), stderr=stderr)
    assert error is not None
    assert error.message == "The sandbox ran out of memory. grep: report.csv: No such file or directory"


def test_hint_helps_where_it_is_given() -> None:
    missing = ended("ModuleNotFoundError", "ImportError", missing="polars")
    refused = {"raised": Raised((), "line 3", ran=False)}
    for given, hint in (
        (missing, "Name the package in `dependencies`"),
        ({**missing, "installs": False}, "This runner installs no packages"),
        (refused, "Nothing of the program ran."),
        (ended("OSError", code="ENOSPC-elsewhere"), "No disk of the sandbox was full"),
        (ended("OSError", code="EFBIG-elsewhere"), "The program runs with a limit that it has set itself"),
        (ended("MemoryError"), "The error says that memory is lacking, but"),
        ({**ended("MemoryError"), "kernel": Counted(killed=1)}, "The program needed more memory"),
        ({"raised": command_not_found(b"x")}, "A command was not found, but the program may have handled"),
        ({"raised": command_not_found(b"x"), "stderr": "line 1: x: command not found\n"}, "Name the package"),
        (
            {**ended("sqlite3.OperationalError", code="SQLITE_FULL"), "kernel": Counted(disk_left=9)},
            "The database had no room.",
        ),
        ({"language": "bash", "exit_code": 2, **refused}, "The lines above the error may have run"),
    ):
        error = failure(**given)
        assert error is not None
        assert error.hint.startswith(hint)


def test_message_is_short() -> None:
    long = "y" * 10_000
    for given in ({"stderr": f"noise\n{long}"}, {"raised": Raised(("builtins.KeyError",), long)}):
        error = failure(**given)
        assert error is not None
        assert len(error.message) < 700
