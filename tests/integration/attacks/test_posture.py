"""Properties of a running container, read from the Engine and from inside."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend, SandboxLimits
from libs.sandbox.docker.engine import connect
from tests.support.sandboxes import IMAGE, RUNTIME

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[3]
MIB = 2**20
LIMITS = SandboxLimits(memory=512 * MIB, cpus=0.5, pids=100, tmp=16 * MIB, open_files=256, file_size=64 * MIB)


@pytest.fixture(scope="module")
def backend(workspace: Path) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(
        workspace, skills_dir=ROOT / "skills", image=IMAGE, runtime=RUNTIME, name="posture", limits=LIMITS
    ) as backend:
        yield backend


@pytest.fixture(scope="module")
def inspected(backend: DockerExecutionBackend) -> dict[str, Any]:
    backend.execute("true")
    details: dict[str, Any] = connect().api.inspect_container(backend.sandbox.container_name)
    return details


def inside(backend: DockerExecutionBackend, command: str) -> str:
    answer = backend.execute(command)
    assert answer.exit_code == 0, answer.output
    return answer.output


def refused(backend: DockerExecutionBackend, command: str) -> str:
    answer = backend.execute(command)
    assert answer.exit_code not in (0, 125, 127), answer.output  # 125 and 127: the command did not start
    return answer.output


def status_of(backend: DockerExecutionBackend, process: str) -> dict[str, str]:
    """Return the fields of /proc/<process>/status."""
    lines = inside(backend, f"cat /proc/{process}/status").splitlines()
    return dict(re.split(r":\s+", line, maxsplit=1) for line in lines if ":\t" in line)


ATTEMPTS = (
    "unshare -U true",
    "unshare -Ur mount -t tmpfs none /mnt",
    "unshare -n true",
    "mount -t tmpfs none /tmp",
    "mount -o remount,rw /",
    "umount /skills",
    "su -c true",
    "chroot / true || exit 1",
    "mknod /tmp/null c 1 3",
    "chown 0:0 /workspace/data",
    "touch /etc/x /usr/bin/x /usr/lib/code-agent/x",
    "echo x > /usr/lib/code-agent/__main__.py",
    "hostname other",
    "date -s 2020-01-01",
    "echo 1 > /proc/sys/kernel/randomize_va_space",
    "echo b > /proc/sysrq-trigger",
    "dmesg",
    "cat /dev/mem",
    "nsenter -t 1 -m true",
    "python3 -c 'import os; os.setuid(0)'",
    "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
    "renice -n -5 $$",
    "ulimit -n 100000",
)


class TestPrivileges:
    @pytest.mark.parametrize("process", ["self", "1"])
    def test_process_has_no_capabilities(self, backend: DockerExecutionBackend, process: str) -> None:
        status = status_of(backend, process)
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd"):
            assert int(status[kind], 16) == 0, kind
        assert status["Seccomp"] == "2"
        for kind in ("Uid", "Gid", "Groups"):
            assert "0" not in status[kind].split(), kind

    @pytest.mark.parametrize("process", ["self", "1"])
    def test_process_cannot_gain_capabilities(self, backend: DockerExecutionBackend, process: str) -> None:
        status = status_of(backend, process)
        assert int(status["CapAmb"], 16) == 0
        assert status["NoNewPrivs"] == "1"

    def test_engine_reports_the_hardening(self, inspected: dict[str, Any]) -> None:
        host = inspected["HostConfig"]
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert not host["Privileged"]
        assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"])
        assert not any("unconfined" in option for option in host["SecurityOpt"])
        assert host["ReadonlyRootfs"]
        assert host["NetworkMode"] == "none"
        assert host["PidMode"] == ""
        assert host["IpcMode"] == "private"
        assert host["UTSMode"] == ""
        assert not host["Devices"]
        assert host["AutoRemove"]
        assert host["LogConfig"]["Type"] == "none"

    @pytest.mark.parametrize("attempt", ATTEMPTS)
    def test_privileged_operations_are_refused(self, backend: DockerExecutionBackend, attempt: str) -> None:
        refused(backend, attempt)

    def test_set_uid_program_gains_nothing(self, backend: DockerExecutionBackend) -> None:
        assert inside(backend, "find / -xdev -type f -perm /6000 2>/dev/null; true") == ""
        uid = inside(backend, "id -u")
        copied = inside(backend, "cp /usr/bin/id /workspace/id; chmod 6755 /workspace/id; /workspace/id -u")
        assert copied == uid
        inside(backend, "rm /workspace/id")

    def test_set_uid_file_of_root_gains_nothing(
        self, backend: DockerExecutionBackend, workspace: Path
    ) -> None:
        """no-new-privileges also applies to a program that root put into the workspace."""
        if os.geteuid() != 0:
            pytest.skip("needs a file that belongs to root")
        program = workspace / "id"
        shutil.copy("/usr/bin/id", program)
        program.chmod(0o4755)
        assert inside(backend, "/workspace/id -u") == inside(backend, "id -u")
        program.unlink()


class TestReach:
    def mounts(self, backend: DockerExecutionBackend) -> dict[str, tuple[set[str], str]]:
        """Return the options and the file system of each mount point; see mountinfo in proc(5)."""
        table = {}
        for line in inside(backend, "cat /proc/self/mountinfo").splitlines():
            fields = line.split()
            dash = fields.index("-")
            table[fields[4]] = (set(fields[5].split(",")), fields[dash + 1])
        return table

    def test_only_workspace_and_scratch_are_writable(self, backend: DockerExecutionBackend) -> None:
        writable = {
            point
            for point, (options, system) in self.mounts(backend).items()
            if "rw" in options and system not in ("proc", "devpts", "mqueue")
        }
        # The Engine mounts /dev/null over files of /proc. /dev and /sys/fs/cgroup are tmpfs of root.
        writable = {point for point in writable if not point.startswith("/proc/")}
        assert writable - {"/dev", "/sys/fs/cgroup"} == {"/workspace", "/tmp", "/run", "/dev/shm"}
        places = "find / -xdev -writable -not -type l; find /dev /run /sys -writable -type d"
        found = inside(backend, f"({places}) 2>/dev/null; true").split()
        allowed = re.compile(r"/(workspace|tmp|run(/.*)?|dev/(shm|mqueue|pts|fd|std.*))$")
        assert [path for path in found if not allowed.match(path)] == []

    def test_root_and_skills_are_read_only(self, backend: DockerExecutionBackend) -> None:
        table = self.mounts(backend)
        assert "ro" in table["/"][0]
        assert "ro" in table["/skills"][0]
        assert "rw" in table["/workspace"][0]

    @pytest.mark.parametrize("point", ["/tmp", "/run", "/dev/shm"])
    def test_scratch_space_has_no_devices_and_no_set_uid(
        self, backend: DockerExecutionBackend, point: str
    ) -> None:
        assert {"nosuid", "nodev"} <= self.mounts(backend)[point][0]

    def test_host_paths_are_not_mounted(
        self, backend: DockerExecutionBackend, inspected: dict[str, Any]
    ) -> None:
        """Only workspace and skills come from the host. The read-only files in /etc belong to the Engine."""
        binds = {
            mount["Destination"]: mount["RW"] for mount in inspected["Mounts"] if mount["Type"] == "bind"
        }
        assert binds == {"/workspace": True, "/skills": False}
        table = self.mounts(backend)
        ours = {
            "/",
            "/workspace",
            "/skills",
            "/tmp",
            "/run",
            "/etc/hosts",
            "/etc/hostname",
            "/etc/resolv.conf",
        }
        others = {p for p in table if p not in ours and not p.startswith(("/proc", "/sys", "/dev"))}
        assert others == set()
        for file in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"):
            assert file not in table or "ro" in table[file][0]
        found = inside(backend, "find / -name '*docker*.sock' -o -name 'containerd.sock' 2>/dev/null; true")
        assert found == ""

    def test_container_has_no_network(self, backend: DockerExecutionBackend) -> None:
        devices = [
            line.split(":")[0].strip() for line in inside(backend, "cat /proc/net/dev").splitlines()[2:]
        ]
        # Kernels with tunnel modules show their idle fallback devices in every namespace.
        assert {
            name for name in devices if not re.match(r"(tunl|gre|gretap|erspan|sit|ip6|ip_vti)", name)
        } == {"lo"}
        assert len(inside(backend, "cat /proc/net/route").splitlines()) == 1
        refused(backend, "curl -sS -m 3 http://1.1.1.1/")
        refused(backend, "curl -sS -m 3 http://example.com/")
        refused(backend, "curl -sS -m 3 http://169.254.169.254/")

    def test_host_processes_are_not_visible(self, backend: DockerExecutionBackend) -> None:
        seen = inside(backend, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "pytest" not in seen
        assert "dockerd" not in seen


class TestLimits:
    def test_kernel_has_the_configured_limits(
        self, backend: DockerExecutionBackend, inspected: dict[str, Any]
    ) -> None:
        """Read the limits from cgroup v1 or v2."""
        for version_1, version_2, value in (
            ("memory/memory.limit_in_bytes", "memory.max", LIMITS.memory),
            ("pids/pids.max", "pids.max", LIMITS.pids),
            ("cpu/cpu.cfs_quota_us", "cpu.max", 50_000),
        ):
            folder = "/sys/fs/cgroup"
            found = inside(backend, f"cat {folder}/{version_1} 2>/dev/null || cat {folder}/{version_2}")
            assert found.split()[0] == str(value)
        assert inspected["HostConfig"]["MemorySwap"] == LIMITS.memory

    def test_process_limit(self, tmp_path: Path) -> None:
        program = (
            "import os, time\nmade = 0\ntry:\n    while made < 1000:\n        pid = os.fork()\n"
            "        if pid == 0:\n            time.sleep(3); os._exit(0)\n        made += 1\n"
            "except BlockingIOError:\n    print(made)"
        )
        with DockerExecutionBackend(
            tmp_path, image=IMAGE, runtime=RUNTIME, name="posture", limits=LIMITS
        ) as backend:
            made = int(inside(backend, f'python3 -c "{program}" 2>&1 | tail -1'))
        assert 50 < made < LIMITS.pids

    def test_cpu_limit(self, backend: DockerExecutionBackend, inspected: dict[str, Any]) -> None:
        """Four busy loops use at most half a CPU, as the Engine counts, plus one scheduling period."""

        def used() -> float:
            stats = connect().api.stats(inspected["Id"], stream=False, one_shot=True)
            return float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

        before, begun, spent = used(), time.monotonic(), 0.0
        while spent <= 0.5:  # a busy machine may give less than half a CPU
            assert time.monotonic() - begun < 30
            inside(backend, "for i in 1 2 3 4; do timeout 2 sh -c 'while :; do :; done' & done; wait; echo")
            spent = used() - before
        assert spent < LIMITS.cpus * (time.monotonic() - begun + 0.2)

    def test_ulimits(self, backend: DockerExecutionBackend) -> None:
        assert inside(backend, "ulimit -n; ulimit -Hn; ulimit -c; ulimit -Hc; ulimit -f") == (
            f"256\n256\n0\n0\n{64 * MIB // 1024}\n"
        )
        answer = backend.execute("head -c 100000000 /dev/zero > /workspace/big; wc -c < /workspace/big")
        assert answer.output.splitlines()[-1] == str(64 * MIB)
        inside(
            backend,
            "rm /workspace/big; sh -c 'kill -SEGV $$' || true; cd /workspace; ls | grep -c core || true",
        )

    def test_scratch_space_is_limited(self, backend: DockerExecutionBackend) -> None:
        for place, size in (("/tmp", 16 * MIB), ("/dev/shm", 4 * MIB), ("/run", MIB)):
            answer = backend.execute(f"head -c 60000000 /dev/zero > {place}/fill; wc -c < {place}/fill")
            assert int(answer.output.splitlines()[-1]) <= size
            inside(backend, f"rm {place}/fill")

    def test_programs_run_from_tmp(self, backend: DockerExecutionBackend) -> None:
        assert inside(backend, "printf '#!/bin/sh\\necho on' > /tmp/p; chmod +x /tmp/p; /tmp/p") == "on\n"


class TestContainer:
    def test_first_container_survived_all_attacks(
        self, backend: DockerExecutionBackend, inspected: dict[str, Any]
    ) -> None:
        assert "/" + str(backend.sandbox.container_name) == inspected["Name"]
        assert "/usr/lib/code-agent" in inside(backend, "tr '\\0' ' ' < /proc/1/cmdline")

    def test_output_is_not_logged(self, backend: DockerExecutionBackend, inspected: dict[str, Any]) -> None:
        inside(backend, "echo certainly-not-logged")
        assert not inspected.get("LogPath")

    def test_labels_name_the_owner(self, inspected: dict[str, Any]) -> None:
        labels = inspected["Config"]["Labels"]
        assert labels["code-agent.name"] == "posture"
        assert f'"pid": {os.getpid()}' in labels["code-agent.owner"]
        assert re.fullmatch(r"/posture-[0-9a-f]{8}", inspected["Name"])
