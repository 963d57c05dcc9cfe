"""The starter: a program runs as `python3 program.py` would run, and its last exception is known."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from libs.exec_tool.outcome import Raised, raised

INSIDE = files("libs.exec_tool.inside")
RESERVED = bytes(16 * 1024)
LIMIT = "import resource\nresource.setrlimit(resource."
GROW = "while True: open('x', 'ab').write(bytes(9999))"


class Started:
    """Runs programs with the starter and without."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = folder / "program.py"
        self._starter = folder / ".start"
        self._record = folder / ".start.ended"
        self._starter.write_bytes((INSIDE / "start_program.py").read_bytes())
        (folder / ".start.tell").write_bytes((INSIDE / "tell_exception.py").read_bytes())

    def told(self, code: str) -> Raised | None:
        """Return the exception that the starter wrote down."""
        self.outcome(code)
        return raised(self._record.read_bytes())

    def outcome(self, code: str, *, natively: bool = False) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        self._program.write_text(code)
        self._record.write_bytes(RESERVED)
        command = [sys.executable, *([] if natively else [str(self._starter)]), str(self._program)]
        done = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )
        return done.returncode, _steady(done.stdout), _steady(done.stderr)


def _steady(text: str) -> str:
    """Replace addresses and times, which differ between two runs."""
    return re.sub(r"0x[0-9a-f]+|in [\d.]+s", "…", text)


@pytest.fixture
def started(tmp_path: Path) -> Started:
    return Started(tmp_path)


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    1/0\ntry:\n    {}['a']\nexcept KeyError:\n    f()",
        "x = 1\ndef f(:\n    pass",
        "if 1:\nx",
        "import warnings\nwarnings.warn('w')\nprint(1 is 1)",
        "import sys\nsys.exit('two\\nlines')",
        "import sys\nsys.exit(3)",
        "raise SystemExit",
        "raise KeyboardInterrupt",
        "class X(Exception):\n    def __str__(self): raise ValueError\nraise X",
        "raise ExceptionGroup('x', [ValueError('y'), KeyError(1)])",
        "import sys\nsys.excepthook = lambda *a: print(a[0], a[2].tb_lineno, a[2].tb_next)\n1/0",
        "import os\nif os.fork() == 0:\n    raise KeyError('child')\nos.wait()",
        "import threading, time\ndef late():\n    time.sleep(.1)\n    print('late')\n"
        "threading.Thread(target=late).start()\n1/0",
        "import atexit\natexit.register(print, 'bye')\n"
        "class A:\n    def __del__(self): print('gone')\na = A()\n1/0",
        "'''Docs'''\nfrom __future__ import annotations\nx: int = 3\nprint(__doc__, __annotations__)",
        "import inspect\ndef f(): return inspect.getsource(f)\nprint(f())",
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test(self): self.assertEqual(1, 2)\nunittest.main()",
        "import __main__, pickle\nclass A: pass\n"
        "print(type(pickle.loads(pickle.dumps(A()))) is __main__.A is A)",
        "import sys\nprint(__name__, __file__, __spec__, __loader__.path, __builtins__, sorted(globals()))\n"
        "print(sys.argv, sys.orig_argv[1:], sys.path[0], sys.modules['__main__'].__dict__ is globals())",
        "import multiprocessing as m\ndef f(x): return x * 2\nif __name__ == '__main__':\n"
        "    with m.get_context('spawn').Pool(1) as pool: print(pool.map(f, [1, 2]))",
    ],
)
def test_program_runs_as_without_the_starter(started: Started, code: str) -> None:
    assert started.outcome(code) == started.outcome(code, natively=True)


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        (
            "import logging, sys\ntry:\n    import nosuch\nexcept ImportError:\n    logging.exception('no')\n"
            "sys.exit('column is missing\\nin row 7')",
            "builtins.SystemExit",
            "column is missing\nin row 7",
        ),
        (
            "class Bad(Exception): pass\ntry:\n    int('x')\n"
            "except ValueError as e:\n    raise Bad('row 3') from e",
            "__main__.Bad",
            "Bad: row 3",
        ),
        (
            "try:\n    import nosuch\nexcept ImportError:\n    next(iter([]))",
            "builtins.StopIteration",
            "StopIteration",
        ),
        ("import json\njson.loads('{')", "json.decoder.JSONDecodeError", "json.decoder.JSONDecodeError: Exp"),
        ("import sys\nsys.excepthook = None\n1/0", "builtins.ZeroDivisionError", "ZeroDivisionError: div"),
        ("import sys\nsys.exit(7)", "builtins.SystemExit", ""),
        (
            "class X(Exception):\n    def __str__(self): raise ValueError\nraise X",
            "__main__.X",
            "X: <exception str() failed>",
        ),
        (
            "import asyncio\nasync def bad(): raise ValueError('deep')\nasync def main():\n"
            "    async with asyncio.TaskGroup() as group: group.create_task(bad())\nasyncio.run(main())",
            "builtins.ValueError",
            "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception): ValueError: deep",
        ),
    ],
)
def test_exception_that_ended_the_program_is_told(
    started: Started, code: str, name: str, message: str
) -> None:
    told = started.told(code)
    assert told is not None
    assert (told.ran, told.types[0]) == (True, name)
    assert told.message.startswith(message)
    assert bool(told.message) is bool(message)


def test_program_that_is_not_compiled_did_not_run(started: Started) -> None:
    told = started.told("x = 1\ndef f(:")
    assert told is not None
    assert not told.ran
    assert told.message == "SyntaxError: invalid syntax (program.py, line 2)"
    again = started.told("compile('x(', '', 'exec')")
    assert again is not None
    assert again.ran


@pytest.mark.parametrize(
    "code",
    [
        "print(1)",
        "import os\nos._exit(4)",
        "import os\nif os.fork() == 0:\n    raise KeyError('child')\nos.wait()",
        "import os\nos.remove(os.path.dirname(__file__) + '/.start.tell')\n1/0",
    ],
    ids=["success", "ended at once", "fork", "starter removed"],
)
def test_nothing_is_told_of_another_end(started: Started, code: str) -> None:
    assert started.told(code) is None


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("import nosuch.part", "nosuch"),
        ("import json.nosuch", "json.nosuch"),
        ("from . import x", ""),
        ("print(total)", "total"),
        (
            "try:\n    import nosuch\nexcept ImportError as e:\n    raise ImportError('optional') from e",
            "nosuch",
        ),
        ("try:\n    import nosuch\nexcept ImportError:\n    from json import nothing", ""),
    ],
)
def test_missing_name(started: Started, code: str, missing: str) -> None:
    told = started.told(code)
    assert told is not None
    assert told.missing == missing


@pytest.mark.parametrize(
    ("code", "address", "root"),
    [
        ("import requests\nrequests.get('http://127.0.0.1:9/x')", "http://127.0.0.1:9/x", "ECONNREFUSED"),
        ("import urllib.request as u\nu.urlopen('http://127.0.0.1:9')", "127.0.0.1", "ECONNREFUSED"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "127.0.0.1", "ECONNREFUSED"),
        ("import socket\nsocket.socket().connect(('127.0.0.1', 9))", "", "ECONNREFUSED"),
        ("import urllib.request as u\nu.urlopen('http://no.invalid')", "no.invalid", "socket.gaierror:"),
    ],
)
def test_address_and_root_of_a_failed_connection(
    started: Started, monkeypatch: pytest.MonkeyPatch, code: str, address: str, root: str
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    told = started.told(code)
    assert told is not None
    assert told.address == address
    assert told.wrapped[-1].endswith(root)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("open('/dev/null/x')", "ENOTDIR"),
        ("open('/dev/full', 'w', buffering=1).write('x\\n')", "ENOSPC-elsewhere"),
        (
            "import os\nclass Full: f_bavail = 0\nos.statvfs = lambda _: Full\nraise OSError(28, 'full')",
            "ENOSPC",
        ),
        (
            "import sqlite3\nbase = sqlite3.connect(':memory:')\nbase.execute('pragma max_page_count = 1')\n"
            "base.execute('create table a (b)')",
            "SQLITE_FULL",
        ),
        ("bytearray(1 << 60)", "ENOMEM"),
        (f"{LIMIT}RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))\nbytearray(1 << 31)", "ENOMEM-elsewhere"),
        (f"{LIMIT}RLIMIT_FSIZE, (9999, 1 << 30))\n{GROW}", "EFBIG-elsewhere"),
        (f"{LIMIT}RLIMIT_FSIZE, (9999, 9999))\n{GROW}", "EFBIG-elsewhere"),
        ("raise OSError(27, 'File too large')", "EFBIG"),
    ],
)
def test_error_number_has_a_name(started: Started, code: str, name: str) -> None:
    """It says so if the sandbox may not be the cause: no disk is full, or the program has set a limit."""
    told = started.told(code)
    assert told is not None
    assert told.code == name


@pytest.mark.parametrize("record", [b"", RESERVED, b"ran\0x", b"x\0" * 9, b"\xff" * 99])
def test_record_that_the_program_wrote_is_ignored(record: bytes) -> None:
    assert raised(record) is None
