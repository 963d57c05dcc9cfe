"""The system call filter of each architecture, executed by a small BPF interpreter."""

from __future__ import annotations

import struct

import pytest

from libs.sandbox.guest.seccomp import _program

ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000
MACHINES = {
    # AUDIT_ARCH; ptrace, prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr,
    # kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo,
    # setpriority, ioprio_set: linux/asm/unistd.h.
    "x86_64": (0xC000003E, (101, 302, 142, 144, 203, 314, 62, 200, 234, 129, 297, 141, 251)),
    "aarch64": (0xC00000B7, (117, 261, 118, 119, 122, 274, 129, 130, 131, 138, 240, 140, 30)),
}


def verdict(program: bytes, number: int, arch: int, *arguments: int) -> int:
    """Return the verdict of a filter for a call."""
    data = struct.pack("<iIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("HBBI", program))
    word, at = 0, 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            (word,) = struct.unpack_from("<I", data, value)
        elif code == 0x15:
            at += if_true if word == value else if_false
        elif code == 0x35:
            at += if_true if word >= value else if_false
        else:
            assert code == 0x06
            return int(value)


@pytest.mark.parametrize("machine", MACHINES)
class TestFilter:
    def test_tracing_is_refused(self, machine: str) -> None:
        arch, (ptrace, *_) = MACHINES[machine]
        for request in (0, 16, 0x4206):
            assert verdict(_program(machine), ptrace, arch, request, 7, 0, 0) == REFUSE

    def test_calls_on_process_one_are_refused_and_others_allowed(self, machine: str) -> None:
        arch, (_, *on_process, priority, io_priority) = MACHINES[machine]
        program = _program(machine)
        for number in on_process:
            assert verdict(program, number, arch, 1) == REFUSE
            assert verdict(program, number, arch, 1 | 1 << 32) == REFUSE  # the kernel reads the low half
            assert [verdict(program, number, arch, pid) for pid in (0, 2, 1 << 31)] == [ALLOW] * 3
        for number, process, everybody in ((priority, 0, 2), (io_priority, 1, 3)):
            assert verdict(program, number, arch, process, 1) == REFUSE
            assert verdict(program, number, arch, process, 0) == ALLOW
            assert verdict(program, number, arch, process, 12) == ALLOW
            assert verdict(program, number, arch, everybody, 0) == REFUSE

    def test_all_other_calls_are_allowed(self, machine: str) -> None:
        arch, forbidden = MACHINES[machine]
        program = _program(machine)
        others = [number for number in range(500) if number not in forbidden]
        assert {verdict(program, number, arch, 1, 1) for number in others} == {ALLOW}

    def test_call_of_another_abi_kills_the_process(self, machine: str) -> None:
        arch, _ = MACHINES[machine]
        program = _program(machine)
        assert verdict(program, 1, 0x40000003) == KILL  # AUDIT_ARCH_I386
        assert verdict(program, 1 | 0x40000000, arch) == KILL  # x32
