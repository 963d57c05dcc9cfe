"""Finds and kills whole process trees, from inside the sandbox (standard library only).

No process can leave the tree below its worker. The worker is a child subreaper, so it adopts each child whose
parent is gone (double fork, `setsid`, `nohup`). A descendant that is a subreaper itself is still below it.

The gVisor of Debian 12 has no subreapers: there, PID 1 adopts all orphans, and knows the orphans of a
command by their start: see `kill_orphans`.
"""

from __future__ import annotations

# The module `ctypes` takes 1.5 ms to import.
import _ctypes
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = [
    "SIGCONT",
    "SIGKILL",
    "SUBREAPERS",
    "become_subreaper",
    "children_of",
    "count_tasks",
    "descendants",
    "have_zombies",
    "hide_from_own_uid",
    "kill",
    "kill_orphans",
    "kill_trees",
    "moment",
    "parent_of",
    "prctl",
]

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
# Equal on all Linux architectures. The module `signal` takes 4 ms to import.
SIGKILL, SIGCONT, SIGSTOP = 9, 18, 19
_IN_CONTAINER = os.getpid() == 1
"""Whether the sandbox has a PID namespace of its own. Set in the supervisor, and inherited by its workers."""
_LOOKS = 10
"""Searches without a result, a millisecond apart, until everything is stopped for a search."""
_HALF = 16_384  # half of the fewest process ids that a kernel has
_loads: list[int] = []  # the opened /proc/loadavg: opening takes several times as long as reading
_libc = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type] # None: this program


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


def prctl(option: int, value: int | _ctypes._CArgObject, memory: bytes | int = 0) -> None:
    """Call prctl(2). Raises OSError if the kernel refuses."""
    if _ctypes.call_function(_ctypes.dlsym(_libc, "prctl"), (option, value, memory, 0, 0)) != 0:
        raise OSError(f"prctl({option}, {value}) is refused")


def _have_subreapers() -> bool:
    try:
        prctl(_PR_GET_CHILD_SUBREAPER, _ctypes.byref(_Int(0)))
    except OSError:
        return False
    return True


SUBREAPERS = _have_subreapers()
"""Whether the kernel has child subreapers. Found in the supervisor, and inherited by its workers."""


def become_subreaper() -> None:
    """Adopt every descendant whose parent exits, from now on. See prctl(2), PR_SET_CHILD_SUBREAPER.

    Does nothing if the kernel has no subreapers.
    """
    if SUBREAPERS:
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_from_own_uid() -> None:
    """Close `/proc/<pid>/fd`, `mem`, `environ` and ptrace to processes of the same uid.

    See prctl(2), PR_SET_DUMPABLE. A fork inherits it, an exec ends it.
    """
    prctl(_PR_SET_DUMPABLE, 0)


def _processes() -> dict[int, tuple[int, str, int]]:
    """Return parent, state letter and start (clock ticks since boot) of every process. See proc(5), stat."""
    table: dict[int, tuple[int, str, int]] = {}
    for name in os.listdir("/proc"):
        fields = _stat(name) if name.isdigit() else []
        if not fields:
            continue
        state = fields[0].decode()
        if state in "ZX" and int(fields[17]) > 1:
            state = "R"  # the first thread has ended, but others run
        table[int(name)] = (int(fields[1]), state, int(fields[19]))
    return table


def _stat(name: str) -> list[bytes]:
    """Return the fields of a process from its state on; none if there is no such process."""
    try:
        descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        line = os.read(descriptor, 512)
    except OSError:
        return []
    finally:
        os.close(descriptor)
    # The second field is the command in brackets, and may contain brackets and spaces.
    return line[line.rindex(b")") + 2 :].split(b" ", 20)


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 if there is no such process."""
    fields = _stat(str(pid))
    return int(fields[1]) if fields else 0


def children_of(pid: int) -> list[int]:
    """Return the direct children of a process, zombies included."""
    return [child for child, (parent, _, _) in _processes().items() if parent == pid]


def count_tasks(root: int) -> int:
    """Return the number of threads of all processes below `root`, ended ones included."""
    table = _processes()
    found = [root]
    for pid in found:  # grows meanwhile
        found += [child for child, (parent, _, _) in table.items() if parent == pid]
    return sum(_threads(pid) for pid in found[1:])


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def have_zombies(*pids: int) -> bool:
    """Return whether one of these processes has an ended child that it has not collected."""
    return any(parent in pids and state == "Z" for parent, state, _ in _processes().values())


def descendants(
    *roots: int, since: tuple[int, int] = (0, 0), besides: Collection[int] = (), spared: Collection[int] = ()
) -> list[int]:
    """Return every process below `roots`, without zombies and without `roots`.

    Args:
        since: a `moment`. Older processes are left out, with what they have started since.
        besides: children of `roots` that are left out, with their descendants.
        spared: processes that are left out, but not their descendants.
    """
    table = _processes()
    below: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [*roots]
    while waiting:
        for child in below.get(waiting.pop(), ()):
            _, state, start = table[child]
            if child in besides or (child not in spared and not _younger(child, start, since)):
                continue
            waiting.append(child)
            if state not in "ZX" and child not in spared:
                found.append(child)
    return found


def kill(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _made() -> bytes:
    """Return the id of the newest process in this PID namespace, if known. See proc(5), loadavg."""
    try:
        if not _loads:
            _loads.append(os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC))
        newest = os.pread(_loads[0], 256, 0).split()[-1]
    except (OSError, IndexError):
        return b""
    return newest if newest != b"0" else b""  # gVisor does not count


def moment() -> tuple[int, int]:
    """Return the present clock tick since boot, and the newest process (0: not known). See `descendants`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")), int(_made() or 0)


def _younger(pid: int, start: int, since: tuple[int, int]) -> bool:
    ticks, newest = since
    if not newest or not ticks <= start <= ticks + 1:
        return start >= ticks
    # Within a tick, ids of processes rise. After the largest id, they begin again.
    return 0 < pid - newest < _HALF or pid - newest < -_HALF


def stop_trees(*roots: int, patience: float = 2.0) -> None:
    """Stop every process below `roots`, but not `roots`. `patience`: seconds after which to give up.

    A process that is in a fork stops only when its child exists. So all must be seen stopped, and then
    another search must find no new one.
    """
    deadline = time.monotonic() + patience
    searches = 0
    while roots and searches < 2 and time.monotonic() <= deadline:
        if running := [pid for pid in descendants(*roots) if not _stopped(pid)]:
            searches = 0
            for pid in running:
                kill(pid, SIGSTOP)
            time.sleep(0.001)
        else:
            searches += 1


def _stopped(pid: int) -> bool:
    """Return whether all threads of a process are stopped or have ended."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    return all((_stat(f"{pid}/task/{each}") or [b"X"])[0] in b"TXZ" for each in threads)


def continue_trees(*roots: int) -> None:
    """Let every process below `roots` go on."""
    for pid in descendants(*roots):
        kill(pid, SIGCONT)


def _stop(look: Callable[[], list[int]], deadline: float) -> None:
    """Stop the processes that are found, until a search finds no new one: a stopped process cannot fork."""
    stopped: set[int] = set()
    while (fresh := [pid for pid in look() if pid not in stopped]) and time.monotonic() <= deadline:
        for pid in fresh:
            kill(pid, SIGSTOP)
        stopped.update(fresh)


def kill_trees(
    *roots: int,
    patience: float = 2.0,
    since: tuple[int, int] = (0, 0),
    besides: Collection[int] = (),
    spared: Collection[int] = (),
) -> bool:
    """Kill every process below `roots`, but not `roots`.

    All processes are stopped first, until a search finds no new one. A stopped process cannot fork, so a fork
    bomb ends, too. Then all are killed, until a search finds none. A search may miss a process that forks and
    exits all the time if processes are made meanwhile. If that happens again and again, PID 1 stops all
    processes for the search. Outside a container, other programs make processes all the time, and gVisor does
    not count processes: there, two searches in a row must find none. Each search reads all of `/proc`, for
    all trees together.

    Args:
        patience: seconds after which to give up.
        since, besides, spared: see `descendants`.

    Returns:
        Whether all processes are gone.
    """
    if not roots:
        return True

    def look() -> list[int]:
        return descendants(*roots, since=since, besides=besides, spared=spared)

    deadline = time.monotonic() + patience
    _stop(look, deadline)
    looks = 0
    while True:
        before = _made()
        left = look()
        for pid in left:
            kill(pid, SIGKILL)
        if not left and (_made() == before if _IN_CONTAINER and before else not look()):
            return True
        if time.monotonic() > deadline:
            return False
        if not left:
            looks += 1
            if looks == _LOOKS and os.getpid() == 1:
                return _kill_frozen(look, deadline)
        time.sleep(0.001)


def kill_orphans(since: float, besides: Collection[int]) -> None:
    """Kill the orphans that PID 1 has adopted since a command began, with their descendants.

    Without subreapers, nothing tells of which command an orphan is. So orphans of other commands are killed,
    too, if they began meanwhile.

    Args:
        since: seconds of CLOCK_BOOTTIME. Older orphans and their descendants are left out.
        besides: children of PID 1 that are no orphans.
    """
    ticks = int(since * os.sysconf("SC_CLK_TCK"))
    own = os.getpid()
    older = {pid for pid, (parent, _, start) in _processes().items() if parent == own and start < ticks}
    kill_trees(own, besides={*besides, *older})


def _kill_frozen(look: Callable[[], list[int]], deadline: float) -> bool:
    """Do the work of `kill_trees` while all other processes are stopped. Only PID 1 can stop all."""
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
