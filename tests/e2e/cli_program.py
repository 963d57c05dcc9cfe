"""Running the real `code-agent` program in a folder of its own, with or without a terminal."""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import docker.errors
import yaml

from agent.config import Settings
from libs.sandbox.strays import OWNER_LABEL

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from agent.cli import app; app(prog_name='code-agent')"]
_OWN = {name.upper() for name in Settings.model_fields} - {"SANDBOX_IMAGE"}


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def execute(command: str) -> dict[str, Any]:
    return call("execute", command=command)


@dataclass
class Program:
    """`code-agent` with a script for a model, a workspace and threads below one folder."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: Sequence[str] = tuple(PROGRAM)

    def script(self, *replies: str | dict[str, Any] | list[dict[str, Any]]) -> None:
        """What the model says, reply by reply: text, a tool call, or several."""
        turns = [
            {"text": reply}
            if isinstance(reply, str)
            else {"tool_calls": reply if isinstance(reply, list) else [reply]}
            for reply in replies
        ]
        (self.folder / "script.yaml").write_text(yaml.safe_dump(turns))

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def env(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in _OWN}
        own = {"PYTHONPATH": str(ROOT), "MODEL": "scripted:script.yaml", "COLUMNS": "200"}
        return {**inherited, **own, **self.environment}

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run it to its end, standard input at end of file."""
        return subprocess.run(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            **options,
        )

    def lines(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Run it with --json: its lines, after a look at their form."""
        done = self.run("run", "--json", *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return check_lines(done.stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def at_terminal(self, *arguments: str) -> Terminal:
        return Terminal(self, arguments)


def check_lines(output: str) -> list[dict[str, Any]]:
    """The JSON lines of a run: each has the fields of its type, the last alone is the result."""
    fields = {
        "message": {"text", "tool_calls", "subagent"},
        "command": {"id", "language", "code", "subagent"},
        "output": {"id", "text"},
        "file": {"path", "plot"},
        "secret_suspected": {"id", "found"},
        "approval": {"thread_id", "interrupt_id", "grants", "action_requests", "review_configs"},
        "result": {"thread_id", "status", "text", "executions", "files"},
    }
    lines = [json.loads(line) for line in output.splitlines()]
    for line in lines:
        extra = {"exit_code", "seconds"} if line["type"] == "output" and "seconds" in line else set()
        extra |= {"scopes"} & line.keys() if line["type"] == "approval" else set()
        extra |= {"granted"} if line["type"] == "command" and "granted" in line else set()
        assert line.keys() == {"type"} | fields[line["type"]] | extra
    assert [line["type"] for line in lines].index("result") == len(lines) - 1
    for execution in lines[-1]["executions"]:
        assert execution.keys() == {"language", "code", "output", "exit_code", "seconds"}
    return lines


class Terminal:
    """The program under a pseudo-terminal."""

    def __init__(
        self,
        program: Program,
        arguments: Sequence[str],
        *,
        size: tuple[int, int] | None = None,
        term: str = "xterm-256color",
    ) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            if size:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.chdir(program.folder)
            os.execvpe(program.command[0], [*program.command, *arguments], {**program.env, "TERM": term})
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._seen = 0

    @property
    def text(self) -> str:
        """What is on the screen, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.raw).replace("\r\n", "\n")

    def wait_for(self, words: str, seconds: float = 60) -> None:
        """Wait until `words` come up after those of the last wait."""
        deadline = time.monotonic() + seconds
        while words not in self.text[self._seen :]:
            assert self._read(deadline - time.monotonic()), f"{words!r} did not come: {self.text}"
        self._seen = self.text.index(words, self._seen) + len(words)

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def end(self, seconds: float = 60) -> int:
        """Wait for the end and return the exit status."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        assert time.monotonic() < deadline, f"it did not end: {self.text}"
        _, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError as error:  # Linux says so when the other end is closed
            if error.errno != errno.EIO:
                raise
            data = b""
        self.raw += self._decoder.decode(data)
        return bool(data)


def containers_of(pid: int) -> list[Any]:
    """The sandboxes that the process with this id owns."""
    client = docker.from_env()
    try:
        found = client.containers.list(all=True, filters={"label": OWNER_LABEL}, ignore_removed=True)
        return [each for each in found if f'"pid": {pid},' in each.labels[OWNER_LABEL]]
    finally:
        client.close()


def processes_of(pid: int) -> list[str]:
    """The command lines that run in the sandboxes of a process."""
    found: list[str] = []
    for each in containers_of(pid):
        with contextlib.suppress(docker.errors.APIError):  # it ended meanwhile, and all in it
            found += [" ".join(row) for row in each.top()["Processes"] or ()]
    return found
