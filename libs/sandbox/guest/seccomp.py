"""Forbids system calls in addition to those that the Engine forbids (standard library only).

The Engine's default profile allows some calls by which a process can affect others of the same uid:

- `ptrace`. Two processes that trace each other's exits cannot be killed, so the container could not end. A
  tracer also decides when the end of a command is seen.
- Signals to process 1. Linux drops them (see `supervisor.py`), gVisor does not.
- Calls that change priority, scheduling, processors or limits of process 1, which keeps every deadline.
- All calls of another ABI (32-bit programs), because they have other numbers.

See seccomp(2): every child inherits a filter, and no process can remove it.
"""

from __future__ import annotations

# The modules `ctypes` and `array` take milliseconds to import.
import _ctypes
import os
import struct

from libs.sandbox.guest.workers.kill_process_trees import prctl

__all__ = ["forbid_calls"]

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""BPF instructions: load a word of the call, compare it, return. See linux/bpf_common.h."""
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in struct seccomp_data. For an argument, of its low half, as the kernel uses only that."""
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
"""Verdicts: allow; refuse with EPERM; kill the process with SIGSYS."""
_X32 = 0x40000000
"""Bit in the numbers of the x32 ABI, on x86_64 only."""

# AUDIT_ARCH of the machine; ptrace; the calls whose first argument is a process; setpriority, ioprio_set.
# The calls on a process: prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr;
# kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo.
_MACHINES = {
    "x86_64": (0xC000003E, 101, (302, 142, 144, 203, 314, 62, 200, 234, 129, 297), (141, 251)),
    "aarch64": (0xC00000B7, 117, (261, 118, 119, 122, 274, 129, 130, 131, 138, 240), (140, 30)),
}
# PRIO_USER, IOPRIO_WHO_USER: all processes of the uid, process 1 included.
_OF_ALL = (2, 3)


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "B"


def forbid_calls() -> None:
    """Forbid the calls to this process and its children. Does nothing on an unknown architecture.

    Raises:
        OSError: the kernel refuses the filter.
    """
    program = _program(os.uname().machine)
    if not program:
        return
    code = (_Byte * len(program)).from_buffer_copy(program)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, struct.pack("HxxxxxxP", len(program) // 8, _ctypes.addressof(code)))


def _program(machine: str) -> bytes:
    if machine not in _MACHINES:
        return b""
    arch, ptrace, on_process, on_group = _MACHINES[machine]
    refuse_first = _if(1, _return(_REFUSE)) + _return(_ALLOW)
    rules = _if(ptrace, _return(_REFUSE))
    for number in on_process:
        rules += _if(number, _load(_FIRST) + refuse_first)
    for number, everybody in zip(on_group, _OF_ALL, strict=True):
        group = _load(_FIRST) + _if(everybody, _return(_REFUSE))
        rules += _if(number, group + _load(_SECOND) + refuse_first)
    native = _load(_NUMBER) + _step(_AT_LEAST, _X32, 0, 1) + _return(_KILL) + rules + _return(_ALLOW)
    return _load(_ARCH) + _step(_EQUAL, arch, 1, 0) + _return(_KILL) + native


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Encode one instruction. `if_true`, `if_false`: instructions to skip after a comparison."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def _load(place: int) -> bytes:
    return _step(_LOAD, place)


def _return(verdict: int) -> bytes:
    return _step(_RETURN, verdict)


def _if(value: int, then: bytes) -> bytes:
    return _step(_EQUAL, value, 0, len(then) // 8) + then
