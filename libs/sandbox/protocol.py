"""The contract of a sandbox: the methods of every implementation, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from typing_extensions import TypedDict

from libs.sandbox.tree_protocol import Tree

__all__ = ["Execution", "FileFailed", "OnOutput", "RunResult", "Sandbox"]

OnOutput = Callable[[bytes], None]
"""Called with live output, in a thread of the sandbox. It must be quick and must not raise."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a command."""

    output: str
    """Standard output, and standard error if merged. Bytes that are not UTF-8 are replaced."""
    stderr: str
    """Standard error. Empty if merged."""
    exit_code: int
    """As the shell gives it: 128 + n for signal n, 124 for a time-out."""
    truncated: bool
    """Whether the middle of an output was replaced by a line that says how much is left out, or the end of an
    output did not come. An output that is short enough without its secrets is whole."""
    timed_out: bool
    spill_path: str | None
    """File inside the sandbox that holds the complete output of a truncated result, up to 64 MB. None if the
    file could not be written, or was removed or changed before the end. The output says so."""
    seconds: float
    """Wall time inside the sandbox."""
    interrupted: Literal["stopped", "ended"] | None = None
    """Why the end of a command that had begun is unknown: its caller stopped the command, or the program or
    the sandbox ended. None for a command with a result."""


class Execution(TypedDict):
    """A command, a block or a program with its result, as stored in a thread and listed by a run."""

    language: str
    """`bash` or `python`."""
    code: str
    output: str
    exit_code: int | None
    """None if nothing ran. If the end is unknown: 125 for a command or a block, None for a whole program."""
    seconds: float
    """`RunResult.seconds`. For a whole program, with the start of its sandbox and its packages."""


class FileFailed(OSError):
    """A file operation failed. `code` is one of the words below, `str()` the reason.

    file_not_found, is_directory, not_a_directory, permission_denied, invalid_path, exists, protected,
    too_many, too_large, past_end, not_text, empty_old, not_found, ambiguous, timeout, failed, half_character
    (a text that UTF-8 cannot encode), secret (a binary file that holds a known secret), in_use (a program
    locks, writes or changes the file), read_only (nothing in the workspace can be changed), folder_removed (a
    mounted folder was removed on the host).
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Sandbox(Tree, Protocol):
    """A computer that runs commands, for callers in any thread and any event loop.

    Each method has an asynchronous twin with the prefix `a`, which blocks no thread. Cancelling the twin, or
    Ctrl-C in the synchronous method, ends the work before the caller continues. A synchronous call on the
    sandboxes' own event loop (see `libs.sandbox.host.loop_thread`) is a RuntimeError.

    The first call starts the sandbox. A dead sandbox is replaced at the next call and keeps its workspace.

    Every method raises SandboxError if the sandbox itself fails: DockerUnavailable, ImageMissing,
    SandboxDied (the sandbox ended, the effect is unknown; `output` is the beginning of what was printed),
    SandboxBusy (its process limit is used up), WorkspaceMissing (the workspace folder was removed on the
    host, or moved at least a second before). The next call starts a new sandbox if another folder is at its
    path or at that of a folder mounted to read, or if a mount below them came or went. Calls that run go on
    in the old folder.

    A command, a block or a file change with a key runs once, even if this process is killed. A second call
    with the key returns the recorded result; the time-outs may differ. CommandInterrupted: the first call has
    no known end; it is not run again. CommandUnderWay: the first call is still running. KeyReused: the key
    belongs to another operation, such as the same code in another session. RecordUnavailable: the operation
    cannot be recorded, so it does not begin; or the end of the first call could not be recorded, and still
    cannot. If a call is cancelled before its operation begins, its key is free again.
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
        note_new: bool = False,
        alone: bool = False,
        uses: Collection[str] = ...,
    ) -> RunResult:
        """Run `bash -c command` in the workspace, standard input at end of file.

        Returns when the shell exits. Its background children keep running; what they print in the next 100 ms
        is part of the output. A time-out and a cancellation end everything that the command started within
        half a second. If the kernel killed a process of the sandbox meanwhile, because the memory is used up,
        the last line of the errors says so, whatever the exit code.

        Python writes no compiled modules (PYTHONDONTWRITEBYTECODE=1, unless the caller sets it). Otherwise a
        module that is changed within a second and keeps its size would run as it was before.

        Args:
            timeout: seconds; None is `SandboxLimits.timeout`.
            on_output: called with live output. Fast output is sampled: a part may be left out without a mark.
            env: additional environment variables. Those that bash itself sets, such as PWD and IFS, keep
                bash's values.
            key: identifies this command in its thread, also when a killed run is executed again: see the
                class. Without a command log it has no effect.
            note_new: whether the output, also the live output, begins with a note if an earlier call of the
                thread, with `note_new` or a file change with a key, was in another sandbox, whatever ended
                that one. The note says so if the workspace folder, or a folder mounted to read, was replaced
                since, or if a file system below them was mounted or unmounted. A new folder with the inode of
                the old one is noticed only if it is the workspace, and there was no folder when the sandbox
                started. A file system that is mounted in the place of another one while no sandbox runs is
                noticed only if its id, its device or its root differs. The sandboxes of this program with the
                same workspace folder know of each other's calls. With a command log, the calls of earlier
                programs count, too, but not whether their folders were replaced. A program remembers at least
                the latest 10,000 threads. Another note names read-only folders that were gone on the host
                when last looked at, up to a second before.
            alone: whether what the command leaves running has ended before the next request to the sandbox
                begins, also if this is cancelled.
            uses: tools of MCP servers, `server.tool`, that programs of the command may call until its end,
                besides those that are free: see `libs.servers`.

        Raises:
            ValueError: the time-out is not over 0 and at most 3,600, the command is over 16 MB or as large as
                `SandboxLimits.file_size`, a variable has no valid name or over 131,071 bytes with its name,
                all variables are over 1 MB or over 65,535 in number, or a text holds a NUL or half a
                character (a lone surrogate, except for those of `os.fsdecode`).
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
        note_new: bool = False,
        alone: bool = False,
        uses: Collection[str] = ...,
    ) -> RunResult: ...

    def run_python(
        self,
        code: str,
        *,
        session: str,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        key: str | None = None,
        continues: bool = False,
        note_new: bool = False,
        alone: bool = False,
        uses: Collection[str] = ...,
    ) -> RunResult:
        """Run a block in the live interpreter of a session. Variables and imports stay.

        The value of a last expression is printed unless it is None or a semicolon follows. A block with
        `await` outside a function is one coroutine. Open figures are saved to `/results` and named, and
        closed; after a KeyboardInterrupt, or an error in its place, they are only closed, and counted.
        A forked process saves none. A figure that is not saved whole leaves no file. A warning that an
        earlier block has shown is shown again. The exit code is 0, 1 after an exception, or 130 after an
        interrupt.

        A time-out interrupts the block, ends the processes that the interpreter has started meanwhile, and
        ends the interpreter if the block continues. The output says so. Processes that threads of earlier
        blocks have started meanwhile end, too, because a thread may work for any block. The last line of the
        output says that variables are kept only if the interpreter itself answered after the interrupt, and
        was not ended meanwhile. A block that had ended when its interrupt came has its own result. While the
        interpreter lives, the processes of earlier blocks go on, with those that these processes start.

        An interpreter that is ended, or ends during a block, takes with it the programs that its blocks have
        left running. If earlier blocks of the session have run and a block starts a new interpreter, a note
        comes before its output, whatever ended the earlier interpreter. If that block is cancelled, the note
        comes with the next block. The first three errors that signal handlers or threads have raised in the
        interpreter's main thread since the last block come first, too, then the number of further ones, and
        the number of bytes that threads and processes of earlier blocks have printed since. What they print
        during a block is part of its output. If the kernel killed a process meanwhile, a line says so, as for
        `run`. A traceback shows the last 100 calls of an error, of each cause and of each part of a group. If
        one has more, a line has their number. Hints after an error say only what is certain, and how many
        names they leave out.

        No exception of a block ends the interpreter. The output says so if SystemExit ends a block before its
        last statement, with code 0, too. A trace or profile function (`sys.settrace`, `sys.setprofile`) ends
        with its block; cProfile goes on. Another object as `sys.stdout` or `sys.stderr` whose `fileno()` is
        not 1 or 2 ends with its block, too: later blocks have their output. If a block closes the
        interpreter's own descriptors, or answers in its place, the interpreter ends with that block or a
        later one, and the output says so. At most 8 sessions live at once, unless more run blocks: a further
        session ends the sessions that were idle longest. Until then, sessions that ran at once stay, but at
        most 8, or one for each 8 processes of the limit if that is more. If no process can be started for a
        session, what commands have left running is ended, and SandboxBusy is raised. If commands have left
        nothing running, the idle session with the most processes ends, for a command or a file operation,
        too. If fewer than 4 processes are left for a command, an idle session that holds half of the limit
        ends before. Blocks of one session run one after another.

        Args:
            session: name of the session, at most 65,535 bytes.
            key: as for `run`.
            continues: whether blocks of the session may have run before this object was made.
            note_new: as for `run`. This note comes before the note about the interpreter.
            alone: before the next request to the sandbox begins, all live interpreters and what blocks have
                left running are stopped, until the next block of their session.
            uses: as for `run`.

        Raises:
            ValueError: the time-out is not over 0 and at most 3,600, the code or the name of the session is
                too large, or the code holds half a character (a lone surrogate).
            SandboxError: see the class. Never for what the block does. SandboxBusy also if the block could
                not begin within its time-out.
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
        continues: bool = False,
        note_new: bool = False,
        alone: bool = False,
        uses: Collection[str] = ...,
    ) -> RunResult: ...

    def begun(self, keys: Sequence[str]) -> set[str]:
        """Return the keys of the thread whose operations have begun, whatever their end."""
        ...

    async def abegun(self, keys: Sequence[str]) -> set[str]: ...

    def read_file(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError, IsADirectoryError, PermissionError: as for a local file.
            ValueError: the path is malformed, has over 4,095 bytes, or names a FIFO, socket or device.
            OSError: any other failure: over 512 MB, binary with a known secret, or changed by a program while
                it was read. A file that grows is read as it was at some moment.
        """
        ...

    async def aread_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, content: bytes) -> None:
        """Create or replace a file atomically. Raises like `read_file`.

        Missing folders are made first. They stay, empty, if the file then cannot be written.

        A replaced file keeps its mode. As with `mv`, other hard links and programs that have the file open
        keep the old content, and owner and attributes are those of a new file.
        """
        ...

    async def awrite_file(self, path: str, content: bytes) -> None: ...

    def file(
        self, do: str, *, content: bytes | None = None, key: str | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Run a file operation (see `file_worker.py`). Return its answer and the content it read.

        No operation takes over 30 s, and a second for each 10 MB of content. A search stops after 5 s and
        returns what it has found; a deletion stops after 25 s and says so. Answers say what they leave out:
        `cut` of `ls`, `glob` and `grep`, and `unread` and `unread_first` of `grep` (number and first names of
        the files and folders that it could not search). If a mounted folder was removed on the host, the
        operations on its paths fail, and a search above counts the folder as unreadable.

        A path of an answer reaches the file that it was listed for, unless it has over 4,095 bytes, which no
        operation takes, or is one of `hidden`, which held a known secret: bytes that are not UTF-8 are
        surrogates, as with `os.fsdecode`. Texts are written exactly as given, or refused.

        A path means the same as to a command: `..` behind a missing folder is file_not_found. `page` shows
        each line end as a line feed, and tells at which byte the rest of a cut line begins. `edit` and `grep`
        find and count text as a page shows it, but U+FFFD and `[REDACTED]` only where the file holds them,
        not where a page shows them for other bytes and known secrets. `edit` keeps the line ends of the file.

        Changes of a file happen one after another, and respect flock(2). `edit` replaces the file atomically
        and keeps mode, access list and `user.*` attributes; other hard links keep the old content, and the
        file belongs to the sandbox's user. If a program changes the file meanwhile, the edit begins again. If
        a program keeps it open for writing, the edit is refused (in_use): the program's next output would be
        lost. Without leases, see fcntl(2), or for another user's file, an open file is not noticed.

        A pattern has at most 10,000 characters; its braces stand for at most 1,000 patterns with 100,000. An
        absolute pattern names files below the searched path, or is refused. So is a pattern with `!` first,
        or with `/` last and no `**` before it: none excludes files or finds folders. So is one with `\\*`,
        `{1..3}` or `[[:digit:]]`, which other tools understand. Only folders before the first wildcard may be
        links, or, in `grep`, have the name `.git` or `.output`. `**` matches folders like `.github` in
        `grep`, and not in `glob`. `grep` finds lines of a page; its text has at most 100,000 characters and
        100 lines.

        Args:
            key: as for `run`, for an operation that changes something.

        Raises:
            FileFailed: the operation failed.
            ValueError, TypeError: there is no such operation, an argument is missing, unknown or of another
                type, or the offset is negative.
        """
        ...

    async def afile(
        self, do: str, *, content: bytes | None = None, key: str | None = None, **arguments: Any
    ) -> tuple[dict[str, Any], bytes]: ...

    def reset(self) -> None:
        """Stop the sandbox. The next call starts a fresh sandbox on the same workspace."""
        ...

    async def areset(self) -> None: ...

    def close(self) -> None:
        """Stop the sandbox. A later call starts it again."""
        ...

    async def aclose(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
