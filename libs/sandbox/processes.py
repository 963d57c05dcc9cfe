"""Find and end whole trees of processes, from inside the sandbox (standard library only).

Nothing a command does takes a process out of the tree below the worker that started it: the worker is
a child subreaper, so a child whose parent is gone (double fork, `setsid`, `nohup`) falls back to it, and
a descendant that makes itself a subreaper is still below it.
"""

from __future__ import annotations

# The module `ctypes` around it costs a millisecond and a half at each start of a sandbox.
import _ctypes
import posix as os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Final

__all__ = [
    "SIGCONT",
    "SIGKILL",
    "become_subreaper",
    "children_of",
    "descendants",
    "hide_from_own_uid",
    "kill",
    "kill_trees",
    "prctl",
    "refused_forks",
]

_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
# The same on every Linux architecture that Python runs on; the module `signal` costs 5 ms to import.
SIGKILL: Final = 9
SIGCONT: Final = 18
SIGSTOP: Final = 19
_LOOKS: Final = 10
"""Looks in vain, a millisecond apart, because other processes were made meanwhile."""
_libc: Final = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type] # None: this program


def prctl(option: int, value: int, memory: bytes | int = 0) -> None:
    """See prctl(2). Raises OSError where the kernel refuses."""
    if _ctypes.call_function(_ctypes.dlsym(_libc, "prctl"), (option, value, memory, 0, 0)) != 0:
        raise OSError(f"prctl({option}, {value}) is refused")


def become_subreaper() -> None:
    """Adopt every descendant whose parent exits, from now on. See prctl(2), PR_SET_CHILD_SUBREAPER."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_from_own_uid() -> None:
    """Close `/proc/<pid>/fd`, `mem`, `environ` and ptrace to processes of the same uid.

    See prctl(2), PR_SET_DUMPABLE. A fork inherits it, an exec ends it.
    """
    prctl(_PR_SET_DUMPABLE, 0)


def _processes() -> dict[int, tuple[int, str, int]]:
    """Parent, state letter and start (clock ticks since boot) of every process. See proc(5), stat."""
    table: dict[int, tuple[int, str, int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            line = os.read(descriptor, 512)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        # The second field is the command in brackets and may hold anything, brackets and spaces too.
        fields = line[line.rindex(b")") + 2 :].split(b" ", 20)
        state = fields[0].decode()
        if state in "ZX" and int(fields[17]) > 1:
            state = "R"  # its first thread has ended, and others go on
        table[int(name)] = (int(fields[1]), state, int(fields[19]))
    return table


def children_of(pid: int) -> list[int]:
    """The direct children of a process, zombies included."""
    return [child for child, (parent, _, _) in _processes().items() if parent == pid]


def descendants(
    *roots: int, since: float = 0.0, besides: Collection[int] = (), spared: Collection[int] = ()
) -> list[int]:
    """Every process below `roots`, zombies left out, `roots` not included.

    Args:
        since: seconds of CLOCK_BOOTTIME; older processes are left out.
        besides: children of `roots` that are left out, with all that is below them.
        spared: processes that are left out, without what is below them.
    """
    table = _processes()
    ticks = int(since * os.sysconf("SC_CLK_TCK"))
    below: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [*roots]
    while waiting:
        for child in below.get(waiting.pop(), ()):
            if child in besides:
                continue
            waiting.append(child)
            if table[child][1] not in "ZX" and table[child][2] >= ticks and child not in spared:
                found.append(child)
    return found


def refused_forks() -> int:
    """How often the container's process limit has refused a process; 0 where that is not counted."""
    for path in ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"):
        try:
            with open(path, "rb") as file:
                return int(file.read().split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return 0


def kill(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _made() -> bytes:
    """The last process that was made in this container, where the kernel tells. See proc(5), loadavg."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return file.read().split()[-1]
    except (OSError, IndexError):
        return b""


def kill_trees(
    *roots: int,
    patience: float = 2.0,
    since: float = 0.0,
    besides: Collection[int] = (),
    spared: Collection[int] = (),
) -> bool:
    """End every process below `roots`; these themselves stay.

    Each is stopped first, until a look finds none that is new: a stopped process cannot fork, so a fork
    bomb ends too. Then all are killed, and watched until they are gone. A look during which processes were
    made may have missed one that forks and exits all the time; where no other look can be had, PID 1 stops
    everything inside for a moment. A look reads all of `/proc`: one does for all the trees.

    Args:
        patience: seconds after which to give up.
        since, besides, spared: see `descendants`.

    Returns:
        Whether all are gone.
    """
    if not roots:
        return True

    def look() -> list[int]:
        return descendants(*roots, since=since, besides=besides, spared=spared)

    deadline = time.monotonic() + patience
    stopped: set[int] = set()
    while True:
        fresh = [pid for pid in look() if pid not in stopped]
        if not fresh or time.monotonic() > deadline:
            break
        for pid in fresh:
            kill(pid, SIGSTOP)
        stopped.update(fresh)
    looks = 0
    while True:
        before = _made()
        left = look()
        for pid in left:
            kill(pid, SIGKILL)
        if not left and _made() == before:
            return True
        if time.monotonic() > deadline:
            return False
        if not left:
            looks += 1
            if looks == _LOOKS and os.getpid() == 1:
                return _kill_frozen(look, deadline)
        time.sleep(0.001)


def _kill_frozen(look: Callable[[], list[int]], deadline: float) -> bool:
    """`kill_trees` while nothing but this process, PID 1, runs: the signal reaches even a fork under way."""
    resting = {pid for pid, (_, state, _) in _processes().items() if state == "T"}
    kill(-1, SIGSTOP)
    while left := look():
        for pid in left:
            kill(pid, SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(0.001)
    for pid in _processes():
        if pid not in resting and pid != 1:
            kill(pid, SIGCONT)
    return not left
