"""The results of a run, looked at inside its sandbox: what a model wrote is never opened or run outside."""

from __future__ import annotations

import shlex

from libs.sandbox import SandboxError
from libs.sandbox.protocol import Sandbox
from tests.eval.task import Unsolved

__all__ = ["InSandbox"]

MAX_FILE = 20_000_000
"""Bytes of a result that are read at most."""
SECONDS = 20.0
"""How long a program that is checked may take."""

_PDF_TEXT = (
    "import sys, pypdf; print('\\n'.join(page.extract_text() for page in pypdf.PdfReader(sys.argv[1]).pages))"
)


class InSandbox:
    """See `tests.eval.task.Machine`. Blocking: call it in a thread."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def file(self, name: str) -> bytes:
        path = f"/results/{name}"
        size = self._printed(f"stat -Lc %s -- {shlex.quote(path)} 2>/dev/null").strip()
        if not size:
            raise Unsolved(f"{path} is missing; there is {', '.join(self.names('.')) or 'nothing'}")
        if int(size) > MAX_FILE:
            raise Unsolved(f"{path} has {int(size):,} bytes")
        try:
            return self._sandbox.read_file(path)
        except (OSError, ValueError) as error:
            raise Unsolved(f"{path} cannot be read: {error}") from error

    def names(self, folder: str) -> list[str]:
        return sorted(self._printed(f"ls -A -- {shlex.quote(f'/results/{folder}')} 2>/dev/null").splitlines())

    def program(self, name: str, *arguments: str, stdin: str = "") -> str:
        command = shlex.join(["python3", f"/results/{name}", *arguments])
        return self._printed(f"printf %s {shlex.quote(stdin)} | {command}")

    def pdf_text(self, name: str) -> str:
        return self._printed(shlex.join(["python3", "-c", _PDF_TEXT, f"/results/{name}"]))

    def _printed(self, command: str) -> str:
        try:
            return self._sandbox.run(command, timeout=SECONDS, merge_stderr=False).output
        except SandboxError as error:
            raise Unsolved(f"the result cannot be looked at: {error}") from error
