"""Put one program into a sandbox, run it, and collect its result."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from libs.exec_tool import execution_spans as spans
from libs.exec_tool import program_folder as folder
from libs.exec_tool.changed_files import Collected, collected
from libs.exec_tool.execute_code_call import Call
from libs.exec_tool.outcome import (
    COUNT,
    DISK,
    ROUTES,
    Counted,
    ExecError,
    ExecResult,
    Metrics,
    Raised,
    command_not_found,
    counted,
    last_json,
    quoted_path,
    raised,
    why_failed,
    with_reasons,
)
from libs.exec_tool.program_end import END
from libs.exec_tool.program_start import BASH_SYNTAX, RECORD, start_command
from libs.redaction import MARK
from libs.sandbox import OnOutput, RunResult, SandboxBusy, SandboxDied, declared_uses
from libs.sandbox.pool import Fresh

__all__ = ["COLLECT_SECONDS", "Visit"]

COLLECT_SECONDS = 20.0
"""Time limit for collecting files and counters, in addition to the program's time."""
_NOTHING = Collected({}, (), ())
_BROKEN = re.compile(rf"[:,\[]\s*{re.escape(MARK.decode())}\s*[,}}\]]")
"""A secret in the place of a value of JSON, such as a number."""
_HIDDEN = (
    f"Known secrets in the output were replaced by {MARK.decode()}. A JSON value that held one outside of a "
    "string is not JSON any more, so it does not count."
)
_TRIES = 3
"""Attempts to start a command while processes of the program use up the process limit."""
_END_SECONDS = 5.0
"""Seconds in which processes that the program left running are ended and counted. Then the sandbox ends them
without counting: processes that start others without end slow each count down."""
_MOST_REASON = 600
_THREAD = ""
"""A fresh sandbox has commands of one thread only, which has no name."""
_REASONS = ("error", "message", "answer")
"""Keys of a program's result, of which the first with a value says why the program failed."""
_BASH_REFUSES = 2
"""Exit code of bash for a program with a syntax error. Other programs end with it, too."""
_MOST_COMPARED = 200
"""Characters at the end of an error of bash that are looked for in the output, which may lack its middle."""
_NOT_FOUND = 127
"""Exit code of bash after a command that does not exist. Other programs end with it, too."""


@dataclass(slots=True)
class Visit:
    """One program in one sandbox. Raises SandboxError if the sandbox fails."""

    sandbox: Fresh
    call: Call
    before: Mapping[str, bytes]
    """All files before the program starts, including the files of the call."""
    packages: str | None
    """The folder of the dependencies inside the sandbox."""
    keeps_files: bool = False
    """Whether the thread keeps its files after the program."""
    links: Collection[str] = ()
    """Folders of the workspace that are links."""
    installs: bool = False
    """Whether packages can be installed."""
    kernel: Counted = field(default=Counted(), init=False)
    """The kernel's counters after the program, once they are read."""

    async def run(self, seconds: float, on_output: OnOutput | None, metrics: Metrics) -> ExecResult:
        """Run the program to its end, after `fill`. Collecting has a limit besides `seconds`."""
        with spans.part("run"):
            done = await self.sandbox.arun(
                start_command(self.call.language),
                timeout=round(seconds, 3),
                on_output=on_output,
                merge_stderr=False,
                env=self._variables(),
                uses=declared_uses(self.call.code),
            )
        ended = None
        with spans.part("collect"):
            try:
                async with asyncio.timeout(COLLECT_SECONDS):
                    kept, note = await self._look(failed=done.exit_code != 0)
                    ended = await self._ended(done)
            except (TimeoutError, SandboxDied) as error:
                why = error if isinstance(error, SandboxDied) else f"that took over {COLLECT_SECONDS:g} s."
                kept, note = _NOTHING, f"The program's files could not be collected: {why}"
        kernel = self.kernel
        if kept is _NOTHING and self.keeps_files:
            note += " The thread keeps its files as they were before the program."
        metrics = replace(
            metrics,
            run=done.seconds,
            peak_memory=kernel.peak_memory,
            cpu=kernel.cpu,
            exit_code=done.exit_code,
        )
        found = await asyncio.to_thread(last_json, done.output, cut=done.truncated)
        hidden = _HIDDEN if _BROKEN.search(done.output) else ""
        return ExecResult(
            stdout=done.output,
            stderr=done.stderr,
            files=kept.changed,
            removed=kept.removed,
            result=found.value,
            note=" ".join(filter(None, (found.note, hidden, found.replaced, note))),
            error=self._error(
                done,
                kernel,
                ended,
                found.value,
                paths=[*self.before, *kept.changed],
                has_result=not found.note,
            ),
            metrics=metrics,
        )

    async def fill(self) -> ExecError | None:
        """Write the program and its files into the sandbox. Return an error if they do not fit."""
        try:
            await self.sandbox.awrite_file(folder.program_path(self.call.language), self.call.code.encode())
            if self.before:
                await folder.put_in(self.sandbox, self.before)
        except OSError as error:
            return ExecError(
                "disk",
                f"The files cannot be put into the sandbox: {str(error)[-300:]}",
                "If there was no room, send fewer or smaller files. Otherwise give another name to the path "
                "that the error names.",
            )
        return None

    def _variables(self) -> dict[str, str]:
        variables = {
            "ARGS_JSON": json.dumps(self.call.args),
            # Modules in the working directory can be imported.
            "PYTHONPATH": f"/workspace:{folder.IMPORTS}",
            "PYTHONUNBUFFERED": "1",
        }
        if self.packages:
            variables |= {
                "PYTHONUSERBASE": self.packages,
                "PATH": f"{self.packages}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            }
        return variables

    async def _look(self, *, failed: bool) -> tuple[Collected, str]:
        """Read the kernel's counters. Return what has changed, and a note about what is missing."""
        why = "it left no room for another process."
        for _ in range(_TRIES):
            try:
                self.kernel = await self._ended_all(END + COUNT + (ROUTES + DISK) * failed)
                found = await collected(self.sandbox, self.before, self.links)
                left_out = _left_out(found.left_out, found.stale if self.keeps_files else ())
                notes = (_ended(self.kernel.left), left_out, _redacted(found.redacted))
                return found, " ".join(filter(None, notes))
            except SandboxBusy:  # the sandbox has killed the processes
                self.kernel = replace(self.kernel, left=self.kernel.left or None)
            except OSError as error:
                why = f"{error}."
                break
        return _NOTHING, f"The program's files could not be collected: {why}"

    async def _ended_all(self, command: str) -> Counted:
        """End what the program left running, and return the kernel's counters, which the command prints."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                found = await self.sandbox.arun(command, timeout=COLLECT_SECONDS)
        except TimeoutError:
            self.kernel = replace(self.kernel, left=None)
            await self.sandbox.aend_programs(_THREAD)
            found = await self.sandbox.arun(command, timeout=COLLECT_SECONDS)
        kernel = counted(found.output)
        # The first count is that of the program. It begins with 0.
        return kernel if self.kernel.left == 0 else replace(kernel, left=self.kernel.left)

    async def _ended(self, done: RunResult) -> Raised | None:
        """Return the exception that ended a Python program, or the error that ended a bash program."""
        try:
            if done.exit_code and self.call.language == "python":
                return raised(await self.sandbox.aread_file(RECORD))
            if done.exit_code == _BASH_REFUSES:
                parsed = await self.sandbox.arun(BASH_SYNTAX, timeout=COLLECT_SECONDS)
                said = parsed.output.strip()
                # The program may have ended above the error.
                last = said[said.rfind("\n") + 1 :][-_MOST_COMPARED:]
                if parsed.exit_code and (last in done.stderr or last in done.output):
                    return Raised((), said, ran=False)
            if done.exit_code == _NOT_FOUND:
                return command_not_found(await self.sandbox.aread_file(RECORD))
        except (OSError, ValueError, SandboxBusy):
            pass  # the program has removed the record, or left no room for a process
        return None

    def _error(
        self,
        done: RunResult,
        kernel: Counted,
        ended: Raised | None,
        value: object,
        *,
        paths: list[str],
        has_result: bool,
    ) -> ExecError | None:
        error = why_failed(
            done,
            kernel,
            bash=self.call.language == "bash",
            raised=ended,
            has_result=has_result,
            has_network=self.sandbox.has_network,
            installs=self.installs,
            unreached=self.sandbox.unreached,
            modules=folder.MODULES,
            paths=paths,
        )
        if not isinstance(value, dict) or value.get("ok") is not False:
            return error
        if error and error.kind not in ("runtime", "network"):
            return error
        why = next((value[key] for key in _REASONS if value.get(key)), "no reason was given")
        reason = why if isinstance(why, str) else json.dumps(why)
        said = f"The program says that it failed: {reason}"[:_MOST_REASON]
        if error:
            # The program has printed its reason, and ended with another exit code than 0.
            return replace(error, message=f"{error.message} {said}")
        return ExecError("runtime", said, "Mend the cause, and send the whole program again.")


def _ended(processes: int | None) -> str:
    """Return the note about processes that the program has not waited for. None: they were not counted."""
    if processes == 0:
        return ""
    left = {None: "processes", 1: "1 process"}.get(processes, f"{processes} processes")
    return (
        f"The program left {left} running: what was not finished was ended. Let the program wait for what it "
        "starts."
    )


def _left_out(files: tuple[tuple[str, str], ...], stale: tuple[str, ...]) -> str:
    """Return the note about files that were not returned.

    Args:
        files: names and reasons.
        stale: files that keep their earlier content.
    """
    if not files:
        return ""
    told = f"{len(files)} of the program's files were not returned: {with_reasons(files)}."
    if stale:
        kept = ", ".join(map(quoted_path, stale[:3]))
        told += f" Earlier content of {len(stale)} of the thread's files stays: {kept}."
    return told


def _redacted(paths: tuple[str, ...]) -> str:
    """Return the note about files that do not come back as the program wrote them."""
    if not paths:
        return ""
    shown = ", ".join(map(quoted_path, paths[:3]))
    where = f"in the content or name of {len(paths)} of the program's files"
    return f"Known secrets {where} were replaced by {MARK.decode()}: {shown}."
