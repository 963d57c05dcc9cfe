"""Error classes: from the kernel's counters, the exception that ended the program, and the exit code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from libs.exec_tool.execute_code_call import Language
from libs.exec_tool.outcome import Counted, ExecError, Raised, command_not_found, counted, why_failed
from libs.exec_tool.program_folder import MODULES
from libs.sandbox.host import NO_MEMORY
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
    raised: Raised | None = None,
    unreached: tuple[str, ...] = (),
    paths: tuple[str, ...] = (),
    **done: Any,
) -> ExecError | None:
    ended = RunResult("", "", 1, truncated=False, timed_out=False, spill_path=None, seconds=1.0)
    return why_failed(
        replace(ended, **done),
        kernel or Counted(),
        bash=language == "bash",
        raised=raised,
        has_result=has_result,
        has_network=has_network,
        installs=installs,
        unreached=unreached,
        modules=MODULES,
        paths=paths,
    )


@pytest.mark.parametrize("printed", [V1, V2])
def test_counters_of_both_cgroup_versions_are_read(printed: str) -> None:
    assert replace(counted(printed), disk_left=None) == Counted(16568320, 1.5, 2, 3)


@pytest.mark.parametrize("printed", ["", "peak max\n"])
def test_missing_counters_are_none(printed: str) -> None:
    assert counted(printed) == Counted()


def test_packets_that_reach_nothing_are_counted() -> None:
    said = (
        "Ip: Forwarding OutNoRoutes OutTransmits\nIp: 1 2 8\nUdp: InDatagrams NoPorts\nUdp: 5 4\npids max 1\n"
    )
    assert counted(said) == Counted(unreached=6, refused=1)


def test_processes_that_were_left_running_are_counted() -> None:
    assert counted("left 2\npids max 1\n") == Counted(left=2, refused=1)


def ended(name: str, *bases: str, **fields: Any) -> dict[str, Any]:
    """An exception that ended the program. Names without a module are builtins."""
    types = tuple(each if "." in each else f"builtins.{each}" for each in (name, *bases))
    return {"raised": Raised(types, f"{name}: told", **fields)}


def failed_connection(*types: str, **fields: Any) -> dict[str, Any]:
    return ended(*(types or ("requests.exceptions.ConnectionError",)), "OSError", **fields)


def answered(address: str) -> dict[str, Any]:
    return ended("requests.exceptions.HTTPError", "OSError", address=address)


GAI, REFUSED = "socket.gaierror:", "builtins.ConnectionRefusedError:ECONNREFUSED"
HANDLED = (
    "ModuleNotFoundError: No module named 'polars'\nConnectionError: x\nNo space left on device\nprogress"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"exit_code": 0}, None),
        ({"exit_code": 0, "has_result": True, "kernel": Counted(refused=3)}, None),
        ({"exit_code": 0, "kernel": Counted(refused=3)}, "processes"),
        ({"exit_code": 137, "kernel": Counted(killed=1)}, "memory"),
        ({**ended("BlockingIOError", code="EAGAIN"), "kernel": Counted(refused=1)}, "processes"),
        ({"exit_code": 124, "timed_out": True, "seconds": 30, "kernel": Counted(cpu=28.0)}, "cpu"),
        ({"exit_code": 124, "timed_out": True, "seconds": 30, "kernel": Counted(cpu=0.2)}, "timeout"),
        ({"exit_code": 124, "timed_out": True, "seconds": 1.3, "kernel": Counted(cpu=0.14)}, "timeout"),
        ({"exit_code": 124, "timed_out": True, "seconds": 1.3, "kernel": Counted(cpu=1.2)}, "cpu"),
        (ended("numpy.ArrayMemoryError", "MemoryError"), "memory"),
        (ended("OSError", code="ENOMEM"), "memory"),
        (ended("OSError", code="ENOSPC"), "disk"),
        (ended("OSError", code="ENOSPC-elsewhere"), "runtime"),
        (ended("sqlite3.OperationalError", code="SQLITE_FULL"), "disk"),
        (ended("OSError", code="EFBIG"), "disk"),
        (ended("OSError", code="EFBIG-elsewhere"), "runtime"),
        (ended("MemoryError", code="ENOMEM-elsewhere"), "runtime"),
        ({**ended("ValueError"), "kernel": Counted(disk_left=0)}, "disk"),
        (ended("IndentationError", "SyntaxError", ran=False), "syntax"),
        (ended("MemoryError", ran=False), "syntax"),
        (ended("SyntaxError"), "runtime"),
        ({"language": "bash", "exit_code": 2, "raised": Raised((), "line 3: …", ran=False)}, "syntax"),
        ({"language": "bash", "exit_code": 2, "stderr": "line 3: syntax error near `fi'"}, "runtime"),
        (ended("ModuleNotFoundError", "ImportError", missing="polars"), "dependency"),
        (ended("ModuleNotFoundError", "ImportError", missing="pandas.x"), "runtime"),
        (
            {**ended("ModuleNotFoundError", "ImportError", missing="own"), "paths": ("lib/own.py",)},
            "runtime",
        ),
        (ended("ImportError", missing="xlrd"), "dependency"),
        (ended("ImportError"), "runtime"),
        ({"language": "bash", "exit_code": 127, "raised": command_not_found(b"nosuch")}, "dependency"),
        ({"language": "bash", "exit_code": 127}, "runtime"),
        (failed_connection(address="https://example.com/"), "network"),
        (failed_connection(address="http://127.0.0.1:9/", wrapped=(REFUSED,)), "runtime"),
        (failed_connection(address="localhost", wrapped=(GAI,)), "runtime"),
        (failed_connection(address="sandbox"), "runtime"),
        (failed_connection(address="http://sandbox:8000/"), "runtime"),
        (failed_connection(address="127.1"), "runtime"),
        (failed_connection(address="0"), "runtime"),
        (failed_connection(address="http://sandbox.example.com/"), "network"),
        (failed_connection(address="http://[", wrapped=(GAI,)), "network"),
        (failed_connection(address="http://[::1]:9", wrapped=(REFUSED,)), "runtime"),
        (
            failed_connection(address="https://a.test/", wrapped=("ssl.SSLCertVerificationError:EPERM",)),
            "runtime",
        ),
        (
            failed_connection(address="https://a.test/", wrapped=("builtins.OSError:", "ssl.SSLError:")),
            "network",
        ),
        (failed_connection("urllib.error.URLError", wrapped=(GAI,)), "network"),
        (failed_connection("urllib.error.URLError", wrapped=("builtins.OSError:",)), "network"),
        (failed_connection("urllib.error.URLError", wrapped=(REFUSED,)), "runtime"),
        (failed_connection("urllib.error.HTTPError", "urllib.error.URLError", address="x.test"), "runtime"),
        (ended("ConnectionRefusedError", "ConnectionError", "OSError", wrapped=(REFUSED,)), "runtime"),
        (ended("OSError", code="ENETUNREACH", wrapped=("builtins.OSError:ENETUNREACH",)), "network"),
        (ended("KeyError", wrapped=("builtins.KeyError:", GAI)), "runtime"),
        ({"language": "bash", "exit_code": 6, "kernel": Counted(unreached=2)}, "network"),
        ({"language": "bash", "exit_code": 6}, "runtime"),
        ({"language": "bash", "exit_code": 3, "kernel": Counted(unreached=2)}, "runtime"),
        *(
            ({"language": "bash", "exit_code": code, "unreached": ("a.test",)}, kind)
            for code, kind in ((22, "network"), (56, "network"), (128, "network"), (3, "runtime"))
        ),
        ({"language": "bash", "exit_code": 22}, "runtime"),
        *(
            ({**ended(name, "OSError"), "unreached": ("a.test",)}, "network")
            for name in ("urllib.error.HTTPError", "requests.exceptions.HTTPError")
        ),
        *(
            ({**answered(f"http://{host}/"), "unreached": ("a.test",)}, kind)
            for host, kind in (("a.test", "network"), ("ok.test", "runtime"), ("[", "network"))
        ),
        ({**ended("subprocess.CalledProcessError"), "unreached": ("a.test",)}, "network"),
        ({**ended("ZeroDivisionError"), "unreached": ("a.test",)}, "runtime"),
        ({"exit_code": 22, "unreached": ("a.test",)}, "runtime"),  # Python: sys.exit(22)
        ({"language": "bash", "exit_code": 153}, "runtime"),
        ({"exit_code": 3, "output": "boom"}, "runtime"),
        *(({"language": language, "stderr": HANDLED}, "runtime") for language in ("python", "bash")),
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
        (ended("MemoryError"), "Memory was refused, and the kernel has killed nothing"),
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
