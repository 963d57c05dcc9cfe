"""Read the results of a run through a shell: a model's files must not be opened or run on the host."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from libs.sandbox import SandboxError
from libs.sandbox.protocol import Sandbox

__all__ = ["Machine", "Unsolved", "in_sandbox"]

MAX_FILE = 20_000_000
"""Most bytes of a result."""
SECONDS = 20.0
"""Most seconds for a program that is checked."""

_PDF_TEXT = (
    "import sys, pypdf; print('\\n'.join(page.extract_text() for page in pypdf.PdfReader(sys.argv[1]).pages))"
)


class Unsolved(Exception):
    """The outcome is wrong; the message says why."""


@dataclass(frozen=True)
class Machine:
    """Access to the results of a run: in the sandbox, or in a folder for a reference solution. Blocking."""

    folder: str
    """The folder of the results."""
    shell: Callable[[str], str]
    """Runs a command and returns its standard output."""
    read: Callable[[str], bytes]

    def file(self, name: str) -> bytes:
        """Return the content of a result.

        Raises:
            Unsolved: The file is missing, too large or cannot be read.
        """
        path = f"{self.folder}/{name}"
        size = self.shell(f"stat -Lc %s -- {shlex.quote(path)} 2>/dev/null").strip()
        if not size:
            raise Unsolved(f"{path} is missing; there is {', '.join(self.names('.')) or 'nothing'}")
        if int(size) > MAX_FILE:
            raise Unsolved(f"{path} has {int(size):,} bytes")
        try:
            return self.read(path)
        except (OSError, ValueError) as error:
            raise Unsolved(f"{path} cannot be read: {error}") from error

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder of the results, or nothing if the folder is missing."""
        path = shlex.quote(f"{self.folder}/{folder}")
        return sorted(self.shell(f"ls -A -- {path} 2>/dev/null").splitlines())

    def program(self, name: str, *arguments: str, stdin: str = "") -> str:
        """Return the output of a Python program."""
        command = shlex.join(["python3", f"{self.folder}/{name}", *arguments])
        return self.shell(f"printf %s {shlex.quote(stdin)} | {command}")

    def pdf_text(self, name: str) -> str:
        return self.shell(shlex.join(["python3", "-c", _PDF_TEXT, f"{self.folder}/{name}"]))


def in_sandbox(sandbox: Sandbox) -> Machine:
    def shell(command: str) -> str:
        try:
            return sandbox.run(command, timeout=SECONDS, merge_stderr=False).output
        except SandboxError as error:
            raise Unsolved(f"the result cannot be looked at: {error}") from error

    return Machine("/results", shell, sandbox.read_file)
