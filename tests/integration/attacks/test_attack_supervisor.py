"""Commands attack process 1, its workers and the kernel with files of /proc, system calls and signals."""

from __future__ import annotations

import json
import platform
import re
import time
from pathlib import Path

import docker
import pytest

from libs.backends.docker import DockerExecutionBackend
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

READ = """
fd/ fd/0 fd/1 fd/2 fd/3 mem environ maps root/x auxv
cwd/ root/ exe fdinfo/0 fdinfo/1 map_files/ io syscall pagemap smaps numa_maps stack task/1/mem task/1/fd/0
task/1/environ task/1/fd/1 ns/mnt ns/pid ns/user cwd/data root/etc/passwd root/proc/1/environ
"""
WRITE = """
clear_refs coredump_filter oom_score_adj oom_adj timerslack_ns comm mem attr/current uid_map gid_map setgroups
sched autogroup loginuid make-it-fail fd/0 fd/1 fd/2 fd/3 fd/4 fd/5 fd/6 fd/7 fd/8 fd/9 fd/10 task/1/comm
"""
# Prints for each pid the calls that succeeded. All must fail.
CALLS = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(64)
ours, theirs = ((ctypes.c_void_p * 2)(place, 16) for place in (ctypes.addressof(buffer), 0x400000))
x86 = os.uname().machine == "x86_64"
number = {"pidfd_getfd": 438, "process_madvise": 440, "kcmp": 312 if x86 else 272,
    "move_pages": 279 if x86 else 239, "migrate_pages": 256 if x86 else 238, "process_mrelease": 448}
result = {}
for pid in map(int, sys.argv[1:]):
    pidfd = libc.syscall(434, ctypes.c_long(pid), ctypes.c_long(0))  # pidfd_open
    def call(name, *arguments):
        return libc.syscall(number[name], *map(ctypes.c_long, arguments))
    tried = {f"pidfd_getfd {fd}": call("pidfd_getfd", pidfd, fd, 0) for fd in range(12)}
    tried |= {f"ptrace {request:x}": libc.ptrace(request, pid, 0, 0) for request in (16, 0x4206)}
    tried["readv"] = libc.process_vm_readv(pid, ours, 1, theirs, 1, 0)
    tried["writev"] = libc.process_vm_writev(pid, ours, 1, theirs, 1, 0)
    tried["madvise"] = call("process_madvise", pidfd, ctypes.addressof(theirs), 1, 20, 0)
    tried["mrelease"] = call("process_mrelease", pidfd, 0)
    tried["kcmp"] = call("kcmp", pid, os.getpid(), 0, 0, 1)
    tried["move_pages"] = call("move_pages", pid, 1, ctypes.addressof(theirs), 0, ctypes.addressof(buffer), 0)
    tried["setns"] = libc.setns(pidfd, 0x20000000)
    result[pid] = [name for name, value in tried.items() if value >= 0]
print(json.dumps(result))
"""
# System calls that would gain privileges, by number: libc has no names for most of them.
ESCAPES = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
here = os.open("/", os.O_RDONLY)
handle = (ctypes.c_uint * 34)(8, 1, 2, 0)
tried = {
    "mount": libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
    "bind": libc.mount(b"/etc", b"/workspace", None, 4096, None),
    "remount": libc.mount(None, b"/", None, 32, None),
    "umount": libc.umount2(b"/skills", 2),
    "pivot_root": libc.syscall(155, b"/tmp", b"/tmp"),
    "chroot": libc.chroot(b"/tmp"),
    "open_by_handle_at": libc.open_by_handle_at(here, handle, 0),
    "init_module": libc.syscall(175, b"x", 1, b""),
    "finit_module": libc.syscall(313, here, b"", 0),
    "kexec_load": libc.syscall(246, 0, 0, 0, 0),
    "bpf": libc.syscall(321, 0, handle, 72),
    "perf_event_open": libc.syscall(298, handle, 0, -1, -1, 0),
    "open_tree": libc.syscall(428, -100, b"/", 1),
    "fsopen": libc.syscall(430, b"tmpfs", 0),
    "mount_setattr": libc.syscall(442, -100, b"/", 0, handle, 32),
    "keyctl": libc.syscall(250, 0, -3, 1),
    "add_key": libc.syscall(248, b"user", b"x", b"y", 1, -3),
    "acct": libc.acct(b"/tmp/acct"),
    "swapon": libc.swapon(b"/tmp/swap", 0),
    "reboot": libc.reboot(0x89ABCDEF),
    "sethostname": libc.sethostname(b"x", 1),
    "settimeofday": libc.settimeofday(handle, None),
    "iopl": libc.syscall(172, 3),
    "quotactl": libc.quotactl(0x800002, None, 0, None),
    "lookup_dcookie": libc.syscall(212, 0, handle, 8),
    "setuid": libc.setuid(0),
    "setgroups": libc.setgroups(1, handle),
    "mknod": libc.mknod(b"/tmp/disk", 0o60666, 0x800),
    **{f"unshare {flag:x}": libc.unshare(flag) for flag in
       (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80)},
    **{f"setns {name}": libc.setns(libc.open(f"/proc/self/ns/{name}".encode(), 0), 0)
       for name in ("mnt", "net", "pid", "ipc", "uts", "user")},
    **{f"clone {flag:x}": libc.syscall(56, flag | 17, 0, 0, 0, 0)
       for flag in (0x10000000, 0x30000000, 0x20000)},
}
print(json.dumps([name for name, value in tried.items() if value >= 0]))
"""
# First signals that the kernel sends for a process (F_SETSIG), then direct ones.
SIGNALS = """
import fcntl, os, signal, socket
for number in range(1, 65):
    a, b = socket.socketpair()
    try:
        fcntl.fcntl(a, 10, number)  # F_SETSIG
        fcntl.fcntl(a, fcntl.F_SETOWN, 1)
        fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        b.send(b"x")
    except OSError:
        pass
for number in range(1, 65):
    try:
        os.kill(1, number)
        signal.pidfd_send_signal(os.pidfd_open(1), number)
    except (OSError, ValueError):
        pass
"""


def workers(backend: DockerExecutionBackend) -> list[str]:
    def pids() -> list[str]:
        return backend.execute("ps -o pid= --ppid 1").output.split()

    # Most workers are forked a moment after the start.
    eventually(lambda: len(pids()) >= 3)
    return pids()


def run(backend: DockerExecutionBackend, program: str, *arguments: str) -> str:
    backend.upload_files([("/tmp/attack.py", program.encode())])
    answer = backend.execute(f"python3 /tmp/attack.py {' '.join(arguments)}", timeout=30)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_proc_files_of_supervisor_and_workers_cannot_be_opened(backend: DockerExecutionBackend) -> None:
    pids = ("1", *workers(backend))
    # First a harmless look: where the folder opens, reading a descriptor would take away the host's requests.
    look = "find /proc/{}/fd/ -mindepth 1 2>/dev/null; true"
    assert [pid for pid in pids if backend.execute(look.format(pid)).output] == []
    opened = []
    for pid in pids:
        reads = [
            f"(head -c1 /proc/{pid}/{name} || find /proc/{pid}/{name}/ -maxdepth 1) > /dev/null"
            f" && echo read {name}"
            for name in READ.split()
        ]
        writes = [f"(echo 1 > /proc/{pid}/{name}) && echo wrote {name}" for name in WRITE.split()]
        tries = "\n".join(reads + writes)
        opened += backend.execute(f"{{ {tries}\n}} 2>/dev/null; true").output.splitlines()
    assert opened == []


def test_system_calls_cannot_access_supervisor_or_workers(backend: DockerExecutionBackend) -> None:
    pids = ["1", *workers(backend)]
    assert json.loads(run(backend, CALLS, *pids)) == {pid: [] for pid in pids}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
def test_system_calls_that_leave_the_container_are_refused(backend: DockerExecutionBackend) -> None:
    assert json.loads(run(backend, ESCAPES)) == []


def test_signals_do_not_reach_process_one(
    backend: DockerExecutionBackend, docker_client: docker.DockerClient
) -> None:
    backend.execute("true")
    first = getattr(backend.sandbox, "container_name", None)
    run(backend, SIGNALS)
    begun = time.monotonic()
    assert [backend.execute(f"echo {i}").output for i in range(4)] == [f"{i}\n" for i in range(4)]
    assert time.monotonic() - begun < 5
    assert getattr(backend.sandbox, "container_name", None) == first
    assert docker_client.api.inspect_container(first)["State"]["Running"]


def test_links_and_moves_cannot_leave_the_workspace(backend: DockerExecutionBackend, workspace: Path) -> None:
    # The same operations succeed inside the workspace.
    may = "mkdir -p data d && touch mine && ln -f mine h && mv -T d e && rmdir data/../../workspace/e && rm h"
    answer = backend.execute(f"cd /workspace && {may}")
    assert answer.exit_code == 0, answer.output
    beside = sorted(path.name for path in workspace.parent.iterdir())
    for attempt in (
        "ln /etc/passwd /workspace/h",
        "ln -L /proc/1/root/etc/passwd /workspace/h",
        "ln /skills/README.md /workspace/h",
        "ln /workspace/mine /skills/h",
        "ln /usr/bin/python3 /tmp/h",
        "ln -L /proc/self/fd/9 /workspace/h 9</etc/hostname",
        "cd /workspace; for i in $(seq 60); do cd ..; done; touch x",
        "touch /proc/self/root/x",
        "touch /proc/self/cwd/../x",
        "rmdir /workspace/data/../../skills",
        "mv -T /workspace /tmp/h",
    ):
        answer = backend.execute(attempt)
        assert answer.exit_code == 1, answer.output  # the exit code of the refused program
        assert re.search(r"cross-device|read-only file system|permission denied|busy", answer.output, re.I)
    assert not (workspace / "h").exists()
    assert sorted(path.name for path in workspace.parent.iterdir()) == beside


@pytest.mark.parametrize("target", ["/tmp/elsewhere", "{host}", "../../outside", "/proc/self/cwd/aside"])
def test_spill_folder_link_leads_only_where_commands_can_write(
    backend: DockerExecutionBackend, workspace: Path, target: str
) -> None:
    """A command replaces the folder for long outputs with a link."""
    outside = workspace.parent / "outside"
    outside.mkdir(exist_ok=True)
    target = target.format(host=outside)
    backend.execute(f"cd /workspace; mkdir -p /tmp/elsewhere aside; rm -rf .output; ln -s {target} .output")
    try:
        answer = backend.execute("head -c 300000 /dev/zero | tr '\\0' x")
        assert answer.exit_code == 0
        assert answer.truncated
        kept = backend.execute("cat .output/*.txt 2>/dev/null | head -c 1").output == "x"
        assert kept == target.startswith(("/tmp/elsewhere", "/proc/self/cwd/aside"))
        assert list(outside.iterdir()) == []
    finally:
        backend.execute("rm -rf /workspace/.output /workspace/aside /tmp/elsewhere")
