"""Shared by the tests of the browser: the site inside the sandbox, and the processes of the browser."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from libs.backends.docker import DockerExecutionBackend

SITE = Path(__file__).with_name("browser_site.py")
AT = "http://localhost:8000"
SERVER = "[s]kills.browser._server"  # the brackets keep the pattern from matching the shell that runs pgrep
CHROMIUM = "[h]eadless"


class Output(str):
    """Output of a program; `value` reads the last line as JSON."""

    @property
    def value(self) -> Any:
        return json.loads(self.splitlines()[-1])


Run = Callable[..., Output]
Fails = Callable[..., str]


def serve(sandbox: DockerExecutionBackend, port: str, certificate: str = "") -> None:
    sandbox.upload_files([("/tmp/site.py", SITE.read_bytes())])
    done = sandbox.execute(
        f"(exec 3<> /dev/tcp/127.0.0.1/{port}) 2>/dev/null && exit; python /tmp/site.py {port} {certificate} "
        f"> /dev/null 2>&1 & until (exec 3<> /dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.05; done"
    )
    assert done.exit_code == 0, done.output


def processes(sandbox: DockerExecutionBackend, what: str) -> list[int]:
    """Return the ids of processes whose command contains this pattern."""
    return [int(pid) for pid in sandbox.execute(f"pgrep -f -- {shlex.quote(what)}").output.split()]


def gone(sandbox: DockerExecutionBackend, what: str) -> bool:
    deadline = time.monotonic() + 20
    while left := [pid for pid in processes(sandbox, what) if alive(sandbox, pid)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return not left


def alive(sandbox: DockerExecutionBackend, pid: int) -> bool:
    return sandbox.execute(f"grep -q '^State:.[^Z]' /proc/{pid}/status").exit_code == 0


def bracketed(pattern: str) -> str:
    """Return the pattern in a form that does not match the shell that contains it."""
    return "|".join(f"{part[:-1]}[{part[-1]}]" for part in pattern.split("|"))
