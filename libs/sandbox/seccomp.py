"""System calls that no program inside may make, besides those the Engine forbids (standard library only).

The Engine's default profile leaves some with which one process can reach another of the same uid:

- `ptrace`. Two processes that trace each other's exits cannot be killed, and with them neither can the
  container; whoever traces a command decides when its end is seen.
- What changes priority, scheduling, processors and limits, where it is aimed at process 1: every deadline is
  kept by that one.
- All of another ABI (32-bit programs): the numbers of its calls are others.

See seccomp(2): a filter is inherited by every child, and nothing takes it away again.
"""

from __future__ import annotations

# The modules `ctypes` and `array` around it take milliseconds to import.
import _ctypes
import posix as os
import struct

from libs.sandbox.processes import prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["forbid_calls"]

_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""BPF: load a word of what is asked, compare it, return. See linux/bpf_common.h."""
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
"""Where they stand in struct seccomp_data; of an argument the low half, which is all that is read of it."""
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
"""Allowed; refused with EPERM; the process is ended with SIGSYS."""
_X32: Final = 0x40000000
"""Calls of a third ABI, on x86_64 alone, have this bit."""

# AUDIT_ARCH of the machine; ptrace; the calls whose first argument is a process; setpriority, ioprio_set.
# The second group: prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr.
_MACHINES: Final = {
    "x86_64": (0xC000003E, 101, (302, 142, 144, 203, 314), (141, 251)),
    "aarch64": (0xC00000B7, 117, (261, 118, 119, 122, 274), (140, 30)),
}
# PRIO_USER, IOPRIO_WHO_USER: all processes of the uid, and process 1 is one.
_OF_ALL: Final = (2, 3)


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "B"


def forbid_calls() -> None:
    """Forbid them to this process and to all that come from it. On a machine that is not known: nothing.

    Raises:
        OSError: the kernel takes no filter.
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
    """One instruction; how many it leaves out behind itself, going by what it compares."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def _load(place: int) -> bytes:
    return _step(_LOAD, place)


def _return(verdict: int) -> bytes:
    return _step(_RETURN, verdict)


def _if(value: int, then: bytes) -> bytes:
    return _step(_EQUAL, value, 0, len(then) // 8) + then
