"""The kernel's counters of a sandbox: how to print them there, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

__all__ = ["COUNT", "DISK", "ROUTES", "Counted", "counted"]

COUNT = """\
said() {
  local name=$1 file line; shift
  for file; do
    [ -r "/sys/fs/cgroup/$file" ] || continue
    while read -r line || [ -n "$line" ]; do echo "$name $line"; done < "/sys/fs/cgroup/$file"
    return
  done
}
said peak memory/memory.max_usage_in_bytes memory.peak
said oom memory/memory.oom_control memory.events
said pids pids/pids.events pids.events
said cpu cpuacct/cpuacct.usage cpu.stat
"""
"""Prints the kernel's counters (cgroup v1 or v2), one name and value in a line. Starts no process. The
sandbox is fresh, so the counters are the program's."""

ROUTES = "grep -hE '^(Ip|Udp): ' /proc/net/snmp\n"
"""Prints the kernel's counters of packets, in pairs of lines: names and values."""

DISK = """\
stat -f -c '%a %d %c' /workspace /tmp /dev/shm /run | while read -r room files most; do
  if ((most && files < room)); then echo "disk $files"; else echo "disk $room"; fi
done | sort -k 2nr
"""
"""Prints a line for each disk, the fullest last: its free blocks, or the files that it has room for, if these
are fewer. Not every file system counts files. `tell_exception.py` looks at these disks, too."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The kernel's counters of a sandbox. None if the kernel does not report a value."""

    peak_memory: int | None = None
    """Bytes."""
    cpu: float | None = None
    """Seconds."""
    killed: int = 0
    """Processes killed for lack of memory."""
    refused: int = 0
    """Processes that could not start."""
    unreached: int = 0
    """Packets that were sent to other machines or to a name server, and reached none."""
    disk_left: int | None = None
    """Free blocks of the fullest disk, or files that it has room for, whatever is less."""
    left: int | None = 0
    """Processes that the program left running, and that were killed. None: they were not counted."""


def counted(output: str) -> Counted:
    """Read the output of `program_end.END`, COUNT, ROUTES and DISK, for cgroup v1 and v2."""
    found: dict[str, int] = {}
    lines = [line.split() for line in output.splitlines()]
    for names, values in pairwise(lines):
        if names[:1] == values[:1] and names[:1] in (["Ip:"], ["Udp:"]):
            found |= {name: int(value) for name, value in zip(names, values, strict=False) if value.isdigit()}
    for line in lines:
        *names, value = line[-3:] or [""]
        if value.isdigit():
            found[" ".join(names)] = int(value)
    cpu = found.get("cpu")  # version 1: nanoseconds
    microseconds = found.get("cpu usage_usec")
    return Counted(
        peak_memory=found.get("peak"),
        cpu=cpu / 1e9 if cpu is not None else microseconds / 1e6 if microseconds is not None else None,
        killed=found.get("oom oom_kill", 0),
        refused=found.get("pids max", 0),
        unreached=found.get("OutNoRoutes", 0) + found.get("NoPorts", 0),
        disk_left=found.get("disk"),
        left=found.get("left", 0),
    )
