"""Starts the shells of a command worker. One shell always waits for the next command (standard library only).

The waiting shell reads the command from descriptor 9, so a command does not wait for a process start.
"""

from __future__ import annotations

# The module `signal` takes 4 ms to import.
import _signal  # type: ignore[import-not-found]
import os
import select

from libs.sandbox.guest.workers.children import is_limited
from libs.sandbox.guest.workers.kill_process_trees import SIGCONT, SIGKILL, kill
from libs.sandbox.guest.workers.skill_commands import search_path
from libs.sandbox.wire.frames import Fd
from libs.sandbox.wire.messages import RunRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Shells"]

# The command comes through a pipe or a memfd, in both cases on the same descriptor. The variable is the
# one in which `bash -c` itself keeps its command. The score makes the kernel kill the command
# before the supervisor when memory runs out.
_SHELL = (
    "echo 500 2>/dev/null >/proc/self/oom_score_adj; IFS= read -rd '' -u 9 BASH_EXECUTION_STRING; exec 9<&-; "
    'SECONDS=0; eval -- "$BASH_EXECUTION_STRING"'
)
_COMMAND_FD = 9
_PIPE_LIMIT = 32 * 1024
"""Longest command in bytes for the waiting shell, because bash reads a pipe byte by byte."""


class Shells:
    """Provides a shell for each command, one after the other."""

    def __init__(self) -> None:
        self._waiting: tuple[int, int] | None = None
        """Process id of the waiting shell, and the pipe for its command."""
        self._path = b""
        """PATH of the waiting shell."""
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.pipes: dict[int, tuple[int, int]] = {}
        """Output pipes of the shells. Reading does not block."""
        self._open_pipes()

    def _open_pipes(self) -> None:
        self._writable = True
        for fd in (Fd.OUT, Fd.ERR):
            self.pipes[fd] = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self.pipes[fd][0], False)

    def prepare(self) -> None:
        """Start a waiting shell. If that fails, the next command tries again.

        Each shell has its own pipe, so no shell runs the unread command of a killed one.
        """
        self._waiting = None
        if not self._writable:
            for reader, _ in self.pipes.values():
                os.close(reader)
            self._open_pipes()
        self._path = search_path()
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            self._waiting = self._spawn(reader, Fd.OUT, self._path), writer
            os.set_blocking(writer, False)
        except OSError:
            os.close(writer)
        finally:
            os.close(reader)

    def start(self, request: RunRequest) -> int:
        """Run a command. Return the shell's process id.

        Raises:
            OSError: no process can be started, or no memory is left.
        """
        command = request.command + b"\0"
        path = search_path()
        plain = request.merge and not request.env and len(command) <= _PIPE_LIMIT and path == self._path
        shell = self._tell_waiting(command if plain else None)
        if shell is not None:
            return shell
        self.empty()
        memory = os.memfd_create("command")
        try:
            view = memoryview(command)
            while view:
                view = view[os.write(memory, view) :]
            os.lseek(memory, 0, 0)
            added = dict(item.split(b"=", 1) for item in request.env)
            return self._spawn(memory, Fd.OUT if request.merge else Fd.ERR, path, added)
        finally:
            os.close(memory)

    def empty(self) -> None:
        """Drop what the pipes hold, such as errors of a shell that could not begin."""
        for reader, _ in self.pipes.values():
            try:
                while os.read(reader, 65_536):
                    pass
            except BlockingIOError:
                pass

    def written_to(self) -> bool:
        """Return whether a process can still write to the pipes. `prepare` then makes new pipes.

        Without subreapers, background processes of a command are not descendants. This finds them.
        """
        if self._writable:
            self._writable = False
            for _, writer in self.pipes.values():
                os.close(writer)
        poll = select.poll()
        for reader, _ in self.pipes.values():
            poll.register(reader, 0)
        return len(poll.poll(0)) < len(self.pipes)

    def _spawn(self, command_fd: int, stderr: int, path: bytes, added: Mapping[bytes, bytes] = {}) -> int:
        return os.posix_spawn(
            "/bin/bash",
            ["bash", "-c", _SHELL],
            {**os.environb, b"PATH": path, **added},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, self._null, 0),
                (os.POSIX_SPAWN_DUP2, self.pipes[Fd.OUT][1], 1),
                (os.POSIX_SPAWN_DUP2, self.pipes[stderr][1], 2),
                (os.POSIX_SPAWN_DUP2, command_fd, _COMMAND_FD),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[_signal.SIGPIPE, _signal.SIGXFSZ],
        )

    def _tell_waiting(self, command: bytes | None) -> int | None:
        """Give a command to the waiting shell. Else, or if `command` is None, kill it and return None."""
        if self._waiting is None:
            return None
        (shell, writer), self._waiting = self._waiting, None
        try:
            ended, _ = os.waitpid(shell, os.WNOHANG)
            if ended:
                return None
            kill(shell, SIGCONT)  # an earlier command may have stopped the shell
            # An earlier command may have changed the limits of the shell.
            if command is not None and not is_limited(shell) and os.write(writer, command) == len(command):
                return shell
        except ChildProcessError:
            return None
        except (BrokenPipeError, BlockingIOError):
            pass  # an earlier command has killed the shell or filled its pipe
        finally:
            os.close(writer)
        kill(shell, SIGKILL)
        os.waitpid(shell, 0)
        return None
