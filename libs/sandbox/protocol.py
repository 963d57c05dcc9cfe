"""The contract of a sandbox: what every implementation does, and what it raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

__all__ = ["FileFailed", "OnOutput", "RunResult", "Sandbox"]

OnOutput = Callable[[bytes], None]
"""Called with output as it comes, in a thread of the sandbox: it must be quick and may not raise."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a command ended."""

    output: str
    """Standard output, with standard error where the two were merged. What is no UTF-8 is replaced."""
    stderr: str
    """Standard error, empty where it was merged."""
    exit_code: int
    """As the shell gives it: 128 + n for signal n, 124 for a time-out."""
    truncated: bool
    """Whether the middle of an output is left out; a line in its place says how much."""
    timed_out: bool
    spill_path: str | None
    """File inside the sandbox that holds the whole of a truncated output, up to 64 MB."""
    seconds: float
    """Wall time inside the sandbox."""


class FileFailed(OSError):
    """A file operation could not be done. `code` is one of the words below, `str()` the reason.

    file_not_found, is_directory, not_a_directory, permission_denied, invalid_path, exists, protected,
    too_many, too_large, past_end, not_text, not_found, ambiguous, timeout, failed, secret (it is no text and
    holds a known secret).
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Sandbox(Protocol):
    """One computer that answers commands. Thread-safe; each method has an async twin with the prefix `a`.

    The first call starts it. One that was found dead is replaced for the next call, its workspace kept.

    Every method raises SandboxError where the sandbox itself fails: DockerUnavailable, ImageMissing,
    SandboxDied (it ended meanwhile, the effect is unknown), SandboxBusy (its process limit is used up).

    What has a key is done once, whatever becomes of this process. Asked for again, a command, a block or a
    change of a file that had ended is not done again: what it gave comes back. One that was under way and
    never ended is a CommandInterrupted, and not done either. CommandUnderWay: it runs at this moment.
    KeyReused: the key is that of another one. RecordUnavailable: it cannot be written down, so it is not
    begun.
    """

    name: str

    def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        merge_stderr: bool = True,
        env: Mapping[str, str] = ...,
        key: str | None = None,
    ) -> RunResult:
        """Run `bash -c command` in the workspace, standard input at end of file.

        Returns when the shell exits; its background children keep running. A time-out, and cancelling the
        awaiting task, ends everything it started within half a second.

        Args:
            timeout: seconds; None is the limit's default.
            on_output: is given the output as it comes. Of a flood, only samples.
            env: variables on top of the sandbox's own.
            key: tells this command from every other one of its thread, also when a run that was killed is
                executed again: see the class. Without a record of commands it has no effect.

        Raises:
            ValueError: the time-out is not over 0 and at most 3,600, or the command holds a NUL.
            SandboxError: see the class. Never for what the command does.
        """
        ...

    async def arun(
        self,
        command: str,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        merge_stderr: bool = True,
        env: Mapping[str, str] = ...,
        key: str | None = None,
    ) -> RunResult:
        """`run`, without a thread that waits."""
        ...

    def run_python(
        self,
        code: str,
        *,
        session: str,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        key: str | None = None,
    ) -> RunResult:
        """Run a block in the live interpreter of a session: variables stay, imports are paid once.

        The value of a last expression is printed unless it is None or a semicolon follows; figures left open
        are saved to `/results` and named. The exit code is 0, 1 after an exception, 130 where it was
        interrupted. A time-out interrupts the block, then, if it does not heed that, ends the interpreter;
        the last line says which, and whether variables are lost. At most 8 sessions live at once: a further
        one ends the one that has rested longest. Blocks of one session run one after the other.

        Args:
            session: whose variables; at most 65,535 bytes.
            key: as for `run`. The next block is told where variables of one that was not run again are lost.

        Raises:
            ValueError: the time-out is not over 0 and at most 3,600, or the code is too large.
            SandboxError: see the class. Never for what the block does.
        """
        ...

    async def arun_python(
        self,
        code: str,
        *,
        session: str,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        key: str | None = None,
    ) -> RunResult:
        """`run_python`, without a thread that waits."""
        ...

    def begun(self, keys: Sequence[str]) -> set[str]:
        """Which of these keys of the thread were begun before, however that ended."""
        ...

    async def abegun(self, keys: Sequence[str]) -> set[str]:
        """`begun`, without blocking the event loop."""
        ...

    def read_file(self, path: str) -> bytes:
        """All bytes of a file.

        Raises:
            FileNotFoundError, IsADirectoryError, PermissionError: as for a local file.
            ValueError: the path is malformed, or names a FIFO, socket or device.
        """
        ...

    async def aread_file(self, path: str) -> bytes:
        """`read_file`, without a thread that waits."""
        ...

    def write_file(self, path: str, content: bytes) -> None:
        """Make or replace a file, whole or not at all; missing folders are made. Raises as `read_file`."""
        ...

    async def awrite_file(self, path: str, content: bytes) -> None:
        """`write_file`, without a thread that waits."""
        ...

    def file(
        self, do: str, *, content: bytes | None = None, key: str | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        """One file operation of the sandbox (libs/sandbox/files.py): its answer, and content it returns.

        Args:
            key: as for `run`, of an operation that changes something.

        Raises:
            FileFailed: it could not be done.
        """
        ...

    async def afile(
        self, do: str, *, content: bytes | None = None, key: str | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        """`file`, without a thread that waits."""
        ...

    def reset(self) -> None:
        """End everything that runs; the next call starts a fresh sandbox on the same workspace."""
        ...

    async def areset(self) -> None:
        """`reset`, without blocking the event loop."""
        ...

    def close(self) -> None:
        """End the sandbox. A later call starts it anew."""
        ...

    async def aclose(self) -> None:
        """`close`, without blocking the event loop."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
