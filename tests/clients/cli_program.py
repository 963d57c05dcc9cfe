"""Runs the real `code-agent` program in a folder of its own, with or without a terminal."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import pty
import re
import select
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
from libs.sandbox.docker.strays import OWNER_LABEL

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-c", "from agent.cli import app; app(prog_name='code-agent')"]
_OWN = {name.upper() for name in Settings.model_fields} - {"SANDBOX_IMAGE"}


Reply = str | dict[str, Any] | list[dict[str, Any]]
"""A reply of the model: a text, a tool call, or several calls."""


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def execute(command: str) -> dict[str, Any]:
    return call("execute", command=command)


def _turns(replies: Sequence[Reply]) -> list[dict[str, Any]]:
    return [
        {"text": each}
        if isinstance(each, str)
        else {"tool_calls": each if isinstance(each, list) else [each]}
        for each in replies
    ]


@dataclass
class Program:
    """`code-agent` with a script for a model, a workspace and threads below one folder."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: Sequence[str] = tuple(PROGRAM)

    def script(self, *replies: Reply) -> None:
        """Set the replies of the model."""
        (self.folder / "script.yaml").write_text(yaml.safe_dump(_turns(replies)))

    def conversations(self, **replies: Sequence[Reply]) -> None:
        """Set several conversations: the words that begin each -> the replies of the model."""
        script = [{"when": words.replace("_", " "), "replies": _turns(r)} for words, r in replies.items()]
        (self.folder / "script.yaml").write_text(yaml.safe_dump({"conversations": script}))

    @property
    def log(self) -> str:
        """The content of /results/log; empty without the file."""
        path = self.workspace / "results" / "log"
        return path.read_text() if path.exists() else ""

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def env(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in _OWN}
        own = {"PYTHONPATH": str(ROOT), "MODEL": "scripted:script.yaml", "COLUMNS": "200"}
        return {**inherited, **own, **self.environment}

    @property
    def _options(self) -> dict[str, Any]:
        return {"cwd": self.folder, "env": self.env, "stdin": subprocess.DEVNULL, "text": True}

    def run(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run the program to its end, which must come within `timeout` seconds."""
        command = [*self.command, *arguments]
        return subprocess.run(command, capture_output=True, timeout=timeout, **self._options)

    def lines(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Run the program with --json; check and return its lines."""
        done = self.run("run", "--json", *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return check_lines(done.stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self.command, *arguments], stdout=subprocess.PIPE, **self._options)

    def at_terminal(self, *arguments: str) -> Terminal:
        return Terminal(self, arguments)


def check_lines(output: str) -> list[dict[str, Any]]:
    """Parse the JSON lines of a run; check their fields, and that only the last line is the result."""
    fields = {
        "message": {"text", "tool_calls", "subagent"},
        "command": {"id", "language", "code", "subagent"},
        "output": {"id", "text"},
        "file": {"path", "plot"},
        "secret_suspected": {"id", "found"},
        "approval": {"thread_id", "interrupt_id", "grants", "action_requests", "review_configs"},
        "result": {"thread_id", "status", "text", "executions", "files"},
    }
    optional = {
        "output": {"exit_code", "seconds"},
        "approval": {"scopes"},
        "command": {"granted"},
        "result": {"absent_paths"},
    }
    lines = [json.loads(line) for line in output.splitlines()]
    for line in lines:
        assert ("exit_code" in line) == ("seconds" in line)
        extra = optional.get(line["type"], set()) & line.keys()
        assert line.keys() == {"type"} | fields[line["type"]] | extra
    assert [line["type"] for line in lines].index("result") == len(lines) - 1
    for execution in lines[-1]["executions"]:
        assert execution.keys() == {"language", "code", "output", "exit_code", "seconds"}
    return lines


class Terminal:
    """The program under a pseudo-terminal."""

    size = (0, 0)
    """Rows and columns; 0 if the terminal does not say."""

    def __init__(self, program: Program, arguments: Sequence[str], *, term: str = "xterm-256color") -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, self.size)
            os.chdir(program.folder)
            os.execvpe(program.command[0], [*program.command, *arguments], {**program.env, "TERM": term})
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._seen = 0

    @property
    def text(self) -> str:
        """The printed text, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.raw).replace("\r\n", "\n")

    def wait_for(self, words: str, seconds: float = 60) -> None:
        """Wait until `words` are printed, after the words of the last wait."""
        deadline = time.monotonic() + seconds
        while words not in self.text[self._seen :]:
            assert self._read(deadline - time.monotonic()), f"{words!r} was not printed: {self.text}"
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
        except OSError:  # EIO: the other end is closed
            data = b""
        self.raw += self._decoder.decode(data)
        return bool(data)


def containers_of(pid: int) -> list[Any]:
    """Return the containers that a process owns."""
    with contextlib.closing(docker.from_env()) as client:
        found = client.containers.list(all=True, filters={"label": OWNER_LABEL}, ignore_removed=True)
        return [each for each in found if json.loads(each.labels[OWNER_LABEL])["pid"] == pid]


def processes_of(pid: int) -> list[str]:
    """Return the command lines that run in the containers of a process."""
    found: list[str] = []
    for each in containers_of(pid):
        with contextlib.suppress(docker.errors.APIError):  # the container ended meanwhile
            found += [" ".join(row) for row in each.top()["Processes"] or ()]
    return found
