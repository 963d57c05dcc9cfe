"""Runs one program in a sandbox of its own, and brings back what came of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

from pydantic import ValidationError

from libs.exec_tool import spans
from libs.exec_tool.call import Call, explained, in_another
from libs.exec_tool.dependencies import Dependencies, NotInstalled, Ready, Stop
from libs.exec_tool.outcome import ELSEWHERE, ErrorClass, ExecResult, Metrics
from libs.exec_tool.visit import Visit
from libs.sandbox.blocking import blocking
from libs.sandbox.errors import CommandInterrupted, SandboxError
from libs.sandbox.fresh import FreshSandboxes
from libs.sandbox.once import Form, Once
from libs.sandbox.protocol import OnOutput
from libs.sandbox.records import CommandRecords
from libs.sandbox.redact import Redact

__all__ = ["CodeRunner", "NoFiles", "ThreadFiles"]

_AGAIN = "Send the call again, corrected."
_RENAME = "Choose another name, or have a program remove the file of the thread first."
_LEAST = 0.05
"""Seconds that a program must have."""
_INSTALLATIONS = 32
"""Executions that wait for packages at once."""


class _Late(Exception):
    """The time was used up before the program was started."""


class ThreadFiles(Protocol):
    """Keeps the files of a thread from one execution to the next."""

    async def files(self, thread: str) -> Mapping[str, bytes]:
        """Those that are kept, by relative path."""
        ...

    async def keep(self, thread: str, changed: Mapping[str, bytes], removed: tuple[str, ...]) -> None:
        """Keep what is new or has changed, and forget what was removed: all of it or nothing.

        Raises:
            SandboxError: nothing of it is kept.
        """
        ...


class NoFiles:
    """Keeps nothing: every execution begins with an empty folder."""

    async def files(self, thread: str) -> Mapping[str, bytes]:  # noqa: ARG002
        return {}

    async def keep(self, thread: str, changed: Mapping[str, bytes], removed: tuple[str, ...]) -> None:
        """See `ThreadFiles.keep`."""


class _Startable:
    """What `Once` would start: a sandbox is taken by the work itself."""

    running = True

    def start(self) -> None: ...


class CodeRunner:
    """Runs programs. Thread-safe; starts nothing before it is asked.

    Args:
        sandboxes: where each takes a sandbox of its own from.
        seconds: what one execution may take until its program has ended: installing its dependencies, reading
            the files of its thread, waiting for a sandbox and filling it included.
        dependencies: the packages that can be had; None: none.
        files: keeps the files of threads.
        records: where it is written down what has begun, so that a run that is executed again after a kill
            runs nothing twice; without it, a key has no effect.
        redact: takes secrets out of what comes from the record. All else comes redacted from the sandbox.
        read_only: folders in the workspace that a call can put no file into.
    """

    def __init__(
        self,
        sandboxes: FreshSandboxes[Any],
        *,
        seconds: float = 30.0,
        dependencies: Dependencies | None = None,
        files: ThreadFiles | None = None,
        records: CommandRecords | None = None,
        redact: Redact | None = None,
        read_only: Collection[str] = (),
    ) -> None:
        self._sandboxes = sandboxes
        self._seconds = seconds
        self._dependencies = dependencies
        self._files: ThreadFiles = files or NoFiles()
        self._records = records
        self._redact = redact
        self._read_only = frozenset(read_only)
        # Its own threads: installations would hold those that all else in the process shares.
        self._installing = ThreadPoolExecutor(_INSTALLATIONS, "install")
        # Gone with whoever waits in it.
        self._turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def keeps_files(self) -> bool:
        """Whether what an execution writes is there again in the next one of its thread."""
        return not isinstance(self._files, NoFiles)

    def prepare(self) -> None:
        """Have a sandbox started, as a program is about to come; returns at once."""
        self._sandboxes.prepare()

    def close(self) -> None:
        """End every sandbox. A later call starts what it needs again."""
        self._sandboxes.close()
        if self._records:
            self._records.close()

    def run(self, code: str, *, thread: str = "", key: str | None = None, **given: Any) -> ExecResult:
        """`arun`, for callers without an event loop."""
        return blocking(lambda _: self.arun(code, thread=thread, key=key, **given))(None)

    async def arun(
        self,
        code: str,
        *,
        thread: str = "",
        key: str | None = None,
        on_output: OnOutput | None = None,
        **given: Any,
    ) -> ExecResult:
        """Run a program to its end. Never raises for what is wrong with it, or what it does.

        Executions of one thread that keep files run one after the other. Cancelling ends the program.

        Args:
            code: the program.
            thread: whose files and values it sees.
            key: tells this execution from every other one of the thread: what has ended is not run again.
            on_output: is given standard output and standard error as they come, in a thread of the sandbox;
                before them, where packages have to be installed, a line that says so.
            given: `dependencies`, `files`, `args`, `language`; see `Call`.
        """
        try:
            call = Call(code=code, **given)
        except ValidationError as error:
            return ExecResult.failed("input", explained(error), _AGAIN)
        return await self.acall(call, thread=thread, key=key, on_output=on_output)

    async def acall(
        self, call: Call, *, thread: str = "", key: str | None = None, on_output: OnOutput | None = None
    ) -> ExecResult:
        """As `arun`, of a call that was read before."""
        if closed := next(filter(self._is_read_only, call.files), None):
            why = f"files: {closed} lies in a folder that can only be read: choose another one."
            return ExecResult.failed("input", why, _AGAIN)
        once = Once(_Startable(), self._records, lambda: thread, self._redact)
        # Up to 32 MB of files: not on the event loop.
        asked = await asyncio.to_thread(_asked, call) if key is not None and self._records else ()
        # Files that are kept for the thread are not kept a second time in the record.
        form: Form[ExecResult] = Form(
            lambda result: result.kept(contents=not self.keeps_files), ExecResult.restored
        )

        async def work() -> ExecResult:
            async with self._turn(thread):
                return await self._execute(call, thread, on_output)

        async def start() -> None: ...

        with spans.execution(call, thread) as span:
            try:
                result = await once.ado(key, asked, form, work, start)
                if any(content is ELSEWHERE for content in result.files.values()):
                    result = result.with_files(await self._files.files(thread))
            except CommandInterrupted as error:
                result = ExecResult.failed("interrupted", str(error), error.hint)
            except SandboxError as error:
                result = ExecResult.failed("sandbox", str(error), error.hint)
            spans.told(span, call, thread, result)
        return result

    @asynccontextmanager
    async def _turn(self, thread: str) -> AsyncIterator[None]:
        """One execution of a thread at a time: each begins with the files of the one before."""
        if not (thread and self.keeps_files):
            yield
            return
        place = id(asyncio.get_running_loop()), thread
        lock = self._turns.setdefault(place, asyncio.Lock())
        async with lock:
            yield

    async def _execute(self, call: Call, thread: str, on_output: OnOutput | None) -> ExecResult:
        begun = time.monotonic()
        metrics = Metrics()
        folder: str | None = None
        if call.dependencies:
            try:
                with spans.part("install"):
                    ready = await self._installed(call, on_output)
            except NotInstalled as error:
                took = time.monotonic() - begun
                kind: ErrorClass = "timeout" if error.late else "dependency"
                return ExecResult.failed(
                    kind, str(error), error.hint, Metrics(install=took, total=took, cache_hit=False)
                )
            folder = ready.path
            metrics = replace(metrics, install=time.monotonic() - begun, cache_hit=ready.cache_hit)
        try:
            result = await self._visited(
                call, thread, on_output, folder=folder, deadline=begun + self._seconds, metrics=metrics
            )
        except _Late:
            result = ExecResult.failed(
                "timeout",
                f"The {self._seconds:g} s of this execution were used up before the program was started.",
                "Send the program again: packages that are installed stay. Ask the person to raise "
                "EXEC_SECONDS if that happens again.",
                metrics,
            )
        result = self._without_read_only(result)
        # What a program never ran with may be what kept it from running: it would do so for ever.
        written = {} if result.metrics.exit_code is None else {**call.contents, **result.files}
        changed = {path: content for path, content in written.items() if path not in result.removed}
        if changed or result.removed:
            try:
                await self._files.keep(thread, changed, result.removed)
            except SandboxError as error:
                # What it has printed is not lost with them.
                note = f"Its files are not kept: {error} {error.hint}"
                result = replace(result, note=" ".join(filter(None, (result.note, note))))
        return result.after(time.monotonic() - begun)

    async def _visited(
        self,
        call: Call,
        thread: str,
        on_output: OnOutput | None,
        *,
        folder: str | None,
        deadline: float,
        metrics: Metrics,
    ) -> ExecResult:
        """Run the program in a sandbox, by the deadline on the monotonic clock.

        Raises:
            _Late: it was not begun by then.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    kept = await self._files.files(thread)
                    before = {path: content for path, content in kept.items() if not self._is_read_only(path)}
                    before |= await asyncio.to_thread(lambda: call.contents)
                    if path := in_another(before):
                        return ExecResult.failed("input", _nested(path), _RENAME, metrics)
                    started = time.monotonic()
                    with spans.part("sandbox"):
                        sandbox = await stack.enter_async_context(self._sandboxes.aone(thread))
                    visit = Visit(sandbox, call, before, folder)
                    refused = await visit.fill()
            except TimeoutError:
                raise _Late from None
            metrics = replace(metrics, sandbox=time.monotonic() - started)
            if refused:
                return ExecResult(error=refused, metrics=metrics)
            left = deadline - time.monotonic()
            if left < _LEAST:
                raise _Late
            return await visit.run(left, on_output, metrics)

    def _is_read_only(self, path: str) -> bool:
        return path.partition("/")[0] in self._read_only

    def _without_read_only(self, result: ExecResult) -> ExecResult:
        """The same without files in the place of what is there for every program, and a note that says so."""
        closed = sorted(filter(self._is_read_only, result.files))
        if not closed:
            return result
        note = f"{len(closed)} of its files did not come back, as nothing is kept there: {closed[0][:80]!a}."
        return replace(
            result,
            files={path: content for path, content in result.files.items() if path not in closed},
            note=" ".join(filter(None, (result.note, note))),
        )

    async def _installed(self, call: Call, on_output: OnOutput | None) -> Ready:
        if self._dependencies is None:
            raise NotInstalled(
                "There are no packages besides those that are there.", "Do without `dependencies`."
            )
        stop = Stop()

        def begins() -> None:  # it takes seconds, or minutes: whoever watches is told
            if on_output:
                on_output(f"installing {', '.join(call.dependencies)} …\n".encode())

        try:
            installing = partial(self._dependencies.ready, call.dependencies, self._seconds, stop, begins)
            return await asyncio.get_running_loop().run_in_executor(self._installing, installing)
        except asyncio.CancelledError:
            stop()
            raise


def _asked(call: Call) -> tuple[str, ...]:
    """What makes a call the same one."""
    whole = json.dumps(call.model_dump(mode="json"), sort_keys=True)
    return call.language, call.code, hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def _nested(path: str) -> str:
    return (
        f"files: {path[:80]!a} lies in a folder that has the name of another file; one of the two is the "
        "thread's."
    )
