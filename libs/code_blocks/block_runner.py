"""Run code blocks in a sandbox, and keep the working directory of bash blocks."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from libs.sandbox import (
    MAX_TIMEOUT,
    CommandInterrupted,
    OnOutput,
    RunResult,
    Sandbox,
    SandboxError,
    declared_uses,
)
from libs.sandbox.host import encoded, failed_result

__all__ = ["SandboxRunner"]

_UNTOLD = (
    "[this block runs where the block before began: that block ended without telling its last directory]"
)
_LOST = "[this block runs in /workspace: the earlier blocks' directory is unknown or cannot be entered]"


class SandboxRunner:
    """Runs blocks, and keeps the working directory of the bash blocks of a thread.

    The sandbox stores the directory, so a fresh sandbox starts in the workspace again, and the block's output
    begins with a note. A block that replaces its shell (`exec`), sets its own EXIT trap or is killed does not
    change the stored directory, and the next block's output says so. Python blocks of a thread share one
    interpreter (see `Sandbox.run_python`).

    Args:
        sandbox: returns the sandbox of the current thread.
        timeout: seconds that a block may take at most if the gate runs it.
        scratch: a folder in the sandbox for the working directories.
        suspect: called with the output of each block and its key, in a worker thread, for at most a second.
    """

    def __init__(
        self,
        sandbox: Callable[[], Sandbox],
        *,
        timeout: float = MAX_TIMEOUT,
        scratch: str = "/tmp/.code-blocks",  # noqa: S108 - inside
        suspect: Callable[[str, str], None] | None = None,
    ) -> None:
        self._sandbox = sandbox
        self.timeout = timeout
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
        continues: bool = False,
        timeout: float | None = None,
        alone: bool = False,
        recorded: bool = False,
    ) -> RunResult:
        """Run one block to its end. Never raises for what the code does, nor for a sandbox that fails.

        `continues` says whether a block of this language has run earlier in the thread, `recorded` whether
        this block has: then it does not run again, even if its result is gone. `timeout` and `alone`: see
        `Sandbox`. Cancelling ends the processes of the block. The exit code is 124 after a time-out, and 125
        after a failure of the sandbox, which the output explains. A key that has ended gives its recorded
        result.
        """
        more: dict[str, Any] = {"timeout": timeout, "on_output": on_output, "key": key, "alone": alone}
        more["uses"] = declared_uses(code)
        try:
            if recorded and not await self._sandbox().abegun([key]):
                raise CommandInterrupted
            if language == "python":
                session = _short(thread_id)
                result = await self._sandbox().arun_python(
                    code, session=session, continues=continues, note_new=True, **more
                )
            else:
                encoded(code, any_bytes=True)  # here, so that the error counts the characters of the block
                place = f"{self._scratch}/{_short(thread_id)}/directory"
                if not continues and not recorded:
                    # Apart, because bash runs nothing of a line with a syntax error.
                    await self._sandbox().arun(f"[ -f {shlex.quote(place)} ] || {{ {_begin(place)}; }}")
                before = _keeping_directory(place, continues=continues)
                result = await self._sandbox().arun(before + code, note_new=True, **more)
                # After `set -v`, bash prints the trap, and for a syntax error the whole line.
                output = result.output.replace(f"{_saving(place)}\n", "").replace(before, "")
                result = replace(result, output=output)
        except SandboxError as error:
            return failed_result(error)
        except ValueError as error:  # NUL, or half a character
            return failed_result(f"The block cannot be run: {error}.")
        if self._suspect:
            await asyncio.to_thread(self._suspect, result.output, key)
        return result

    async def begun(self, keys: Sequence[str]) -> set[str]:
        """Return the keys of the blocks that had begun before the run was interrupted."""
        try:
            return await self._sandbox().abegun(keys)
        except SandboxError:  # the first block fails with the same error
            return set()


def _short(thread_id: str) -> str:
    """Return a name for folders and sessions. A thread id may be any text."""
    return hashlib.sha256(thread_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _keeping_directory(place: str, *, continues: bool) -> str:
    """Return what stands before a block that runs in the stored directory and stores its last directory.

    Exit code and line numbers of the block do not change: all additions are on its first line, and the trap
    keeps the exit code. The additions print only the notes about the directory.
    """
    kept = shlex.quote(place)
    runs = shlex.quote(f"{place}.unknown")  # not empty while a block runs
    say, untold = f"echo {shlex.quote(_LOST)}", f"echo {shlex.quote(_UNTOLD)}"
    # The directory is stored before the first block. So if a later block finds no file, the sandbox is new.
    begin = f"{f'{say};' if continues else ''} {_begin(place)}"
    # A full disk may have left the file empty. `$(< file)` would remove line ends of the directory's name.
    read = f"{{ read -r -d '' < {kept} || :; }}"
    again = f'[ -s {kept} ] && {read} && cd -- "${{REPLY%?}}" && {{ ! [ -s {runs} ] || {untold}; }} || {say}'
    either = f"if [ -f {kept} ]; then {again}; else {begin}; fi; unset REPLY"
    enter = f"{{ {either}; echo >| {runs}; }} 2>/dev/null || :"
    return f"trap -- {shlex.quote(_saving(place))} EXIT; {enter}; "


def _begin(place: str) -> str:
    """Return a command that stores the first directory."""
    return f"mkdir -p {shlex.quote(place.rpartition('/')[0])}; builtin pwd >| {shlex.quote(place)}"


def _saving(place: str) -> str:
    """Return the trap that stores the last directory."""
    kept, folder = shlex.quote(place), shlex.quote(place.rpartition("/")[0])
    make = f"[ -d {folder} ] || mkdir -p {folder}"  # usually no program, as the block may have changed PATH
    told = f": >| {shlex.quote(f'{place}.unknown')}"
    steady = "set +x; builtin trap -- '' XFSZ"  # the block may have set a limit for the size of files
    return f"{{ {steady}; {{ {make}; }} && builtin pwd >| {kept} && {told} || :; }} >/dev/null 2>&1"
