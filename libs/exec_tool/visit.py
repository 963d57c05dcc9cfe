"""One program in one sandbox: put in, run, and looked at when it has ended."""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace

from libs.exec_tool import spans
from libs.exec_tool.call import Call
from libs.exec_tool.classify import Counted, counted, why_failed
from libs.exec_tool.last_json import last_json
from libs.exec_tool.layout import (
    COLLECT,
    END,
    IN,
    LEFT,
    MOST_BYTES,
    OUT,
    PLACE,
    ROOM,
    UNPACK,
    Collected,
    collected,
    packed,
    program_path,
)
from libs.exec_tool.outcome import ExecError, ExecResult, Metrics
from libs.sandbox.errors import SandboxBusy
from libs.sandbox.fresh import Fresh
from libs.sandbox.protocol import OnOutput, RunResult

__all__ = ["COLLECT_SECONDS", "MOST_FILES", "Visit"]

MOST_FILES = 256
COLLECT_SECONDS = 20.0
"""In all, for what a program leaves, besides the time of the program."""
_UNPACK_SECONDS = 20.0
_NOTHING = Collected({}, (), ())
_TRIES = 3
"""Of looking what came of a program, where what it left behind leaves no room for another process."""
_MOST_REASON = 600


@dataclass(frozen=True, slots=True)
class Visit:
    """What a sandbox is given. Errors of the sandbox itself are raised: SandboxError."""

    sandbox: Fresh
    call: Call
    before: Mapping[str, bytes]
    """Files that are there before the program starts, those of the call included."""
    packages: str | None
    """Where the dependencies are inside."""

    async def run(self, seconds: float, on_output: OnOutput | None, metrics: Metrics) -> ExecResult:
        """Run the program to its end, once it has been put in.

        Args:
            seconds: that it may take. What it leaves is collected after that, see COLLECT_SECONDS.
            metrics: what is known of them so far.
        """
        interpreter = "python3" if self.call.language == "python" else "bash"
        with spans.part("run"):
            done = await self.sandbox.arun(
                f"exec {interpreter} {program_path(self.call.language)}",
                timeout=round(seconds, 3),
                on_output=on_output,
                merge_stderr=False,
                env=self._variables(),
            )
        with spans.part("collect"):
            try:
                async with asyncio.timeout(COLLECT_SECONDS):
                    kernel, kept, note = await self._look(failed=done.exit_code != 0)
            except TimeoutError:
                kernel, kept = Counted(), _NOTHING
                note = f"What it wrote cannot be had: collecting it took over {COLLECT_SECONDS:g} s."
        metrics = replace(
            metrics,
            run=done.seconds,
            peak_memory=kernel.peak_memory,
            cpu=kernel.cpu,
            exit_code=done.exit_code,
        )
        found = await asyncio.to_thread(last_json, done.output)
        return ExecResult(
            stdout=done.output,
            stderr=done.stderr,
            files=kept.changed,
            removed=kept.removed,
            result=found.value,
            note=" ".join(filter(None, (found.note, note))),
            error=self._error(done, kernel, found.value, has_result=not found.note),
            metrics=metrics,
        )

    async def fill(self) -> ExecError | None:
        """Put the program and its files in; why they do not fit, where they do not."""
        with spans.part("fill"):
            return await self._fill()

    async def _fill(self) -> ExecError | None:
        code = self.call.code.encode("utf-8", "replace")
        said = None
        try:
            await self.sandbox.awrite_file(program_path(self.call.language), code)
            if self.before:
                await self.sandbox.awrite_file(IN, await asyncio.to_thread(packed, self.before))
                done = await self.sandbox.arun(UNPACK, timeout=_UNPACK_SECONDS)
                said = done.output if done.exit_code else None
        except OSError as error:
            said = str(error)
        if said is None:
            return None
        return ExecError(
            "disk",
            f"The files cannot be put into the sandbox: {said.strip()[-300:]}",
            "Send fewer or smaller files.",
        )

    def _variables(self) -> dict[str, str]:
        """What the program finds in its environment besides the sandbox's own."""
        variables = {
            "ARGS_JSON": json.dumps(self.call.args),
            # What lies in the working directory is imported like any module.
            "PYTHONPATH": f"/workspace:{PLACE}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        if self.packages:
            variables |= {
                "PYTHONUSERBASE": self.packages,
                "PATH": f"{self.packages}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            }
        return variables

    async def _look(self, *, failed: bool) -> tuple[Counted, Collected, str]:
        """What the kernel has counted, what is in the workspace, and why that cannot be known."""
        collect = COLLECT.format(most=MOST_BYTES // 1024)
        said = await self._asked(END + collect)
        if said is None:
            return Counted(), _NOTHING, "What it wrote cannot be had: it left no room for another process."
        kernel = counted(said)
        if failed or not (kernel.packed or kernel.empty):
            said += await self._asked(LEFT + ("" if kernel.packed else ROOM + collect)) or ""
            kernel = counted(said)
        if kernel.empty:
            return kernel, Collected({}, tuple(sorted(self.before)), ()), ""
        if not kernel.packed:
            why = f"Its files have {kernel.size or 0:,} bytes; as at most {MOST_BYTES:,} come back, none did."
            return kernel, _NOTHING, why
        try:
            archive = await self.sandbox.aread_file(OUT, redacted=False)
            found = await asyncio.to_thread(
                collected, archive, self.before, most=MOST_FILES, redact=self.sandbox.redact
            )
        except (tarfile.TarError, OSError, ValueError) as error:
            return kernel, _NOTHING, f"What it wrote cannot be had: {error}"
        return kernel, found, _left_out(found.left_out)

    async def _asked(self, command: str) -> str | None:
        """What a command prints; None where what is left behind leaves no room for another process."""
        for _ in range(_TRIES):
            try:
                return (await self.sandbox.arun(command, timeout=COLLECT_SECONDS)).output
            except SandboxBusy:
                continue  # what was left behind has been ended
        return None

    def _error(
        self, done: RunResult, kernel: Counted, value: object, *, has_result: bool
    ) -> ExecError | None:
        error = why_failed(
            self.call.language,
            exit_code=done.exit_code,
            timed_out=done.timed_out,
            stdout=done.output,
            stderr=done.stderr,
            seconds=done.seconds,
            kernel=kernel,
            has_result=has_result,
        )
        if error or not isinstance(value, dict) or value.get("ok") is not False:
            return error
        why = value.get("error") or value.get("message") or "no reason was given"
        told = why if isinstance(why, str) else json.dumps(why)
        return ExecError(
            "runtime",
            f"The program says that it failed: {told}"[:_MOST_REASON],
            "Mend the cause, and send the whole program again.",
        )


def _left_out(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    shown = ", ".join(ascii(name)[:80] for name in names[:3])
    why = f"there are over {MOST_FILES}, or their names cannot be kept"
    return f"{len(names)} of its files did not come back, as {why}: {shown}."
