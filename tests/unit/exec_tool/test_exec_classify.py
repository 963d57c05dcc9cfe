"""Error classes: from the kernel's counters, the exception that ended the program, and the exit code."""

from __future__ import annotations

from typing import Any

import pytest

from libs.exec_tool.outcome import Counted, Raised, command_not_found
from tests.support.exec_tool.exec_failures import HANDLED, answered, ended, failure

GAI, REFUSED = "socket.gaierror:", "builtins.ConnectionRefusedError:ECONNREFUSED"


def failed_connection(*types: str, **fields: Any) -> dict[str, Any]:
    return ended(*(types or ("requests.exceptions.ConnectionError",)), "OSError", **fields)


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
