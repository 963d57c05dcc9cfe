"""The shells of a worker for commands, of which one waits ready (standard library only).

Started, its environment set, it reads descriptor 9 for the command: so a command costs no process start.
"""

from __future__ import annotations

# The module `signal` around it costs 5 ms to import.
import _signal  # type: ignore[import-not-found]
import posix as os

from libs.sandbox.frames import Fd
from libs.sandbox.processes import SIGCONT, SIGKILL, kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from libs.sandbox.messages import RunRequest

__all__ = ["Shells"]

# Same descriptor whether the command comes through the pipe of a waiting shell or out of a memfd; the
# variable is the one that `bash -c` itself keeps its command in. Under memory pressure the kernel shall end
# the command, not the supervisor: hence the score.
_SHELL: Final = (
    "echo 500 2>/dev/null >/proc/self/oom_score_adj; read -rd '' -u 9 BASH_EXECUTION_STRING; exec 9<&-; "
    'SECONDS=0; eval "$BASH_EXECUTION_STRING"'
)
_COMMAND_FD: Final = 9
_PIPE_LIMIT: Final = 32 * 1024
"""Longest command, in bytes, that goes to the waiting shell: bash reads a pipe byte by byte."""


class Shells:
    """Starts a shell for each command, one after the other."""

    def __init__(self) -> None:
        self._waiting: tuple[int, int] | None = None
        """The shell that waits, and the pipe that it reads its command from."""
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.pipes = {fd: os.pipe2(os.O_CLOEXEC) for fd in (Fd.OUT, Fd.ERR)}
        """What they print into; reading does not wait."""
        for reader, _ in self.pipes.values():
            os.set_blocking(reader, False)

    def prepare(self) -> None:
        """Have a shell waiting. Where none can be started now, the next command tries again.

        Each has a pipe of its own: what one that was killed has not read, no other may run.
        """
        self._waiting = None
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            self._waiting = self._spawn(reader, Fd.OUT, os.environ), writer
            os.set_blocking(writer, False)
        except OSError:
            os.close(writer)
        finally:
            os.close(reader)

    def start(self, request: RunRequest) -> int:
        """Have a command run; the shell's process id.

        Raises:
            OSError: no process can be made, or no memory is left.
        """
        command = request.command + b"\0"
        plain = request.merge and not request.env and len(command) <= _PIPE_LIMIT
        shell = self._tell_waiting(command if plain else None)
        if shell is not None:
            return shell
        memory = os.memfd_create("command")
        try:
            view = memoryview(command)
            while view:
                view = view[os.write(memory, view) :]
            os.lseek(memory, 0, 0)
            added = dict(item.split(b"=", 1) for item in request.env)
            return self._spawn(memory, Fd.OUT if request.merge else Fd.ERR, {**os.environ, **added})
        finally:
            os.close(memory)

    def _spawn(self, command_fd: int, stderr: int, environment: Mapping[bytes, bytes]) -> int:
        return os.posix_spawn(
            "/bin/bash",
            ["bash", "-c", _SHELL],
            environment,
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
        """Have the waiting shell run a command; None where it does not. It waits no more in any case."""
        if self._waiting is None:
            return None
        (shell, writer), self._waiting = self._waiting, None
        try:
            ended, _ = os.waitpid(shell, os.WNOHANG)
            if ended:
                return None
            kill(shell, SIGCONT)  # a command of before may have stopped it
            if command is not None and os.write(writer, command) == len(command):
                return shell
        except ChildProcessError:
            return None
        except (BrokenPipeError, BlockingIOError):
            pass  # a command of before has just ended it, or filled its pipe
        finally:
            os.close(writer)
        kill(shell, SIGKILL)
        os.waitpid(shell, 0)
        return None
