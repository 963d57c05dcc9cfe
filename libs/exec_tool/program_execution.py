"""Execute a call once: install its packages, run it in a fresh sandbox, and save its files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from libs.exec_tool import execution_spans as spans
from libs.exec_tool.execute_code_call import Call, in_another
from libs.exec_tool.execution_record import ThreadFiles, written
from libs.exec_tool.outcome import ExecResult, Metrics, quoted_path
from libs.exec_tool.package_sets import Dependencies, NotInstalled
from libs.exec_tool.program_visit import Visit
from libs.sandbox import OnOutput, SandboxError
from libs.sandbox.pool import FreshSandboxes

__all__ = ["Executor"]

_RENAME = "Choose another name, or have a program remove the file of the thread first."
_LEAST = 0.05
"""Seconds that a program needs at least."""


@dataclass(frozen=True, slots=True)
class Executor:
    """Executes calls. See `CodeRunner` for the fields. Raises SandboxError if a sandbox fails."""

    sandboxes: FreshSandboxes[Any]
    seconds: float
    dependencies: Dependencies | None
    files: ThreadFiles | None
    read_only: Collection[str]
    stays: Callable[[str, Mapping[str, bytes]], Awaitable[str]] | None

    async def run(
        self,
        call: Call,
        thread: str,
        on_output: OnOutput | None,
        unreached: set[str] | None,
        started: asyncio.Event,
    ) -> ExecResult:
        """Return the result of the program, after its files are saved.

        `unreached`: see `WhileRunning`. None: the program's effect needs no decision.
        `started` is set when the program starts.
        """
        begun = time.monotonic()
        metrics = Metrics()
        folder: str | None = None
        if call.dependencies and self.dependencies is None:
            return ExecResult.failed(
                "dependency",
                "Additional packages are not available here.",
                "Do without `dependencies`.",
            )
        if call.dependencies and self.dependencies:
            packages = call.dependencies
            line = f"installing {', '.join(packages)} …\n".encode()
            try:
                with spans.part("install"):
                    ready = await self.dependencies.ready(
                        packages, self.seconds, lambda: on_output(line) if on_output else None
                    )
            except NotInstalled as error:
                took = time.monotonic() - begun
                metrics = Metrics(install=took, total=took, cache_hit=False)
                return ExecResult.failed(
                    "timeout" if error.late else "dependency", str(error), error.hint, metrics
                )
            metrics = Metrics(install=time.monotonic() - begun, cache_hit=ready.cache_hit)
            folder = ready.path
        try:
            result = await self._visited(
                call,
                thread,
                on_output,
                folder=folder,
                deadline=begun + self.seconds,
                metrics=metrics,
                unreached=unreached,
                started=started,
            )
        except TimeoutError:
            result = ExecResult.failed(
                "timeout",
                f"The {self.seconds:g} s of this execution were used up before the program was started.",
                "Send the program again: packages that are installed stay. Ask the person to raise "
                "EXEC_SECONDS if that happens again.",
                metrics,
            )
        if closed := sorted(filter(self.is_read_only, result.files)):
            result = replace(
                result, files={path: data for path, data in result.files.items() if path not in closed}
            ).noted(
                f"{len(closed)} of the program's files were not returned, because nothing is kept there: "
                f"{quoted_path(closed[0])}."
            )
        changed = written(call, result)
        if self.files and (changed or result.removed):
            try:
                await self.files.keep(thread, changed, result.removed)
                if self.stays and unreached is None:
                    result = result.noted(await self.stays(thread, changed))
            except SandboxError as error:  # the output is returned anyway
                result = result.noted(f"Its files are not kept: {error} {error.hint}")
        return replace(result, metrics=replace(result.metrics, total=time.monotonic() - begun))

    async def _visited(
        self,
        call: Call,
        thread: str,
        on_output: OnOutput | None,
        *,
        folder: str | None,
        deadline: float,
        metrics: Metrics,
        unreached: set[str] | None,
        started: asyncio.Event,
    ) -> ExecResult:
        """Run the program in a sandbox. `deadline` is a time of the monotonic clock.

        Raises:
            TimeoutError: the program did not start before the deadline.
        """
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(deadline - time.monotonic()):
                kept = await self.files.files(thread) if self.files else {}
                before = {path: content for path, content in kept.items() if not self.is_read_only(path)}
                before |= await asyncio.to_thread(lambda: call.contents)
                if inner := in_another(before):
                    why = (
                        f"files: {quoted_path(inner[0])} lies in a folder that has the name of another file; "
                        "one of the two is the thread's."
                    )
                    return ExecResult.failed("input", why, _RENAME, metrics)
                since = time.monotonic()
                with spans.part("sandbox"):
                    sandbox = await stack.enter_async_context(self.sandboxes.one(thread))
                if unreached is not None:
                    stack.callback(unreached.update, stack.enter_context(sandbox.without_network()))
                visit = Visit(
                    sandbox,
                    call,
                    before,
                    folder,
                    keeps_files=self.files is not None,
                    links=self.read_only,
                    installs=self.dependencies is not None and self.dependencies.installs,
                )
                with spans.part("fill"):
                    refused = await visit.fill()
            metrics = replace(metrics, sandbox=time.monotonic() - since)
            if refused:
                return ExecResult(error=refused, metrics=metrics)
            left = deadline - time.monotonic()
            if left < _LEAST:
                raise TimeoutError
            started.set()
            return await visit.run(left, on_output, metrics)

    def is_read_only(self, path: str) -> bool:
        """Return whether a path of the workspace lies in a folder that can only be read."""
        return path.partition("/")[0] in self.read_only
