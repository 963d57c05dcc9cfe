"""Run code blocks in a sandbox."""

from __future__ import annotations

import hashlib
import shlex

from libs.code_blocks.protocol import BlockResult
from libs.sandbox.errors import SandboxError
from libs.sandbox.protocol import OnOutput, Sandbox

__all__ = ["SandboxRunner"]

SANDBOX_FAILED = 125
"""Exit code of a block that the sandbox could not run."""


class SandboxRunner:
    """Runs blocks in `sandbox`. Implements `libs.code_blocks.protocol.BlockRunner`.

    Bash blocks of a thread keep the working directory. It is kept in the sandbox, and so begins at the
    workspace again in a fresh one; a block that replaces its shell (`exec`) or sets its own EXIT trap
    leaves it as it was. Python blocks each run in a process of their own.

    Args:
        sandbox: the computer.
        scratch: a folder in it for what is kept between blocks, out of the way of the user's files.
    """

    def __init__(self, sandbox: Sandbox, *, scratch: str = "/tmp/.code-blocks") -> None:  # noqa: S108 - inside
        self._sandbox = sandbox
        self._scratch = scratch

    async def run(
        self, language: str, code: str, *, thread_id: str, key: str, on_output: OnOutput | None = None
    ) -> BlockResult:
        """See `BlockRunner.run`."""
        try:
            if language == "python":
                return await self._python(code, key, on_output)
            return await self._bash(code, thread_id, on_output)
        except SandboxError as error:
            return BlockResult(f"{error} {error.hint}", SANDBOX_FAILED, 0.0)
        except ValueError as error:  # NUL, or half a character
            return BlockResult(f"The block cannot be run: {error}.", SANDBOX_FAILED, 0.0)

    async def _bash(self, code: str, thread_id: str, on_output: OnOutput | None) -> BlockResult:
        return await self._run(_keeping_directory(code, self._place(thread_id, "directory")), on_output)

    async def _python(self, code: str, key: str, on_output: OnOutput | None) -> BlockResult:
        program = self._place(key, "block.py")
        await self._sandbox.awrite_file(program, code.encode())
        return await self._run(f"exec python3 {shlex.quote(program)}", on_output)

    async def _run(self, command: str, on_output: OnOutput | None) -> BlockResult:
        result = await self._sandbox.arun(command, on_output=on_output)
        return BlockResult(result.output, result.exit_code, result.seconds)

    def _place(self, owner: str, name: str) -> str:
        # A thread id may be any text.
        return f"{self._scratch}/{hashlib.sha256(owner.encode('utf-8', 'replace')).hexdigest()[:16]}/{name}"


def _keeping_directory(code: str, place: str) -> str:
    """A command that runs `code` where the last one ended, and remembers where it ends itself.

    Output, exit code and line numbers stay those of `code`: everything added is on its first line, silent
    whatever options `code` sets, and a trap leaves the exit code as it is.
    """
    kept, folder = shlex.quote(place), shlex.quote(place.rpartition("/")[0])
    save = f"{{ set +x; mkdir -p {folder} && builtin pwd >| {kept} || :; }} 2>/dev/null"
    enter = f'{{ [ ! -f {kept} ] || cd -- "$(cat {kept})"; }} 2>/dev/null || :'
    return f"trap -- {shlex.quote(save)} EXIT; {enter}; {code}"
