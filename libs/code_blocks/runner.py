"""Run code blocks in a sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Callable, Sequence

from libs.code_blocks.protocol import BlockResult
from libs.sandbox.errors import SandboxError
from libs.sandbox.protocol import OnOutput, Sandbox

__all__ = ["SandboxRunner"]

SANDBOX_FAILED = 125
"""Exit code of a block that the sandbox could not run."""


class SandboxRunner:
    """Runs blocks in a sandbox. Implements `libs.code_blocks.protocol.BlockRunner`.

    Bash blocks of a thread keep the working directory. It is kept in the sandbox, and so begins at the
    workspace again in a fresh one; a block that replaces its shell (`exec`) or sets its own EXIT trap
    leaves it as it was. Python blocks of a thread share one live interpreter, with its variables, imports and
    working directory (see `Sandbox.run_python`).

    Args:
        sandbox: gives the computer of the thread that asks.
        scratch: a folder in it where the working directories are kept, out of the way of the user's files.
        suspect: called in a thread with the output of each block and its key; may take a second.
    """

    def __init__(
        self,
        sandbox: Callable[[], Sandbox],
        *,
        scratch: str = "/tmp/.code-blocks",  # noqa: S108 - inside
        suspect: Callable[[str, str], None] | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._scratch = scratch
        self._suspect = suspect

    async def run(
        self,
        language: str,
        code: str,
        *,
        thread_id: str,
        key: str,
        on_output: OnOutput | None = None,
    ) -> BlockResult:
        """See `BlockRunner.run`."""
        try:
            if language == "python":
                session = _short(thread_id)
                result = await self._sandbox().arun_python(
                    code, session=session, on_output=on_output, key=key
                )
            else:
                command = _keeping_directory(code, f"{self._scratch}/{_short(thread_id)}/directory")
                result = await self._sandbox().arun(command, on_output=on_output, key=key)
        except SandboxError as error:
            return BlockResult(f"{error} {error.hint}", SANDBOX_FAILED, 0.0)
        except ValueError as error:  # NUL, or half a character
            return BlockResult(f"The block cannot be run: {error}.", SANDBOX_FAILED, 0.0)
        if self._suspect:
            await asyncio.to_thread(self._suspect, result.output, key)
        return BlockResult(result.output, result.exit_code, result.seconds)

    async def begun(self, keys: Sequence[str]) -> set[str]:
        """See `BlockRunner.begun`."""
        try:
            return await self._sandbox().abegun(keys)
        except SandboxError:  # the first block will say the same, and not be run
            return set()


def _short(thread_id: str) -> str:
    """A thread's name as a folder and a session may have it: a thread id may be any text."""
    return hashlib.sha256(thread_id.encode("utf-8", "replace")).hexdigest()[:16]


def _keeping_directory(code: str, place: str) -> str:
    """A command that runs `code` where the last one ended, and remembers where it ends itself.

    Output, exit code and line numbers stay those of `code`: everything added is on its first line, silent
    whatever options `code` sets, and a trap leaves the exit code as it is.
    """
    kept, folder = shlex.quote(place), shlex.quote(place.rpartition("/")[0])
    save = f"{{ set +x; mkdir -p {folder} && builtin pwd >| {kept} || :; }} 2>/dev/null"
    enter = f'{{ [ ! -f {kept} ] || cd -- "$(cat {kept})"; }} 2>/dev/null || :'
    return f"trap -- {shlex.quote(save)} EXIT; {enter}; {code}"
