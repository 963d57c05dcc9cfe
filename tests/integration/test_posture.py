"""The sandbox as it runs, read from the Engine and from inside, not from settings (S7, S8, S13, I2)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.backends.docker import DockerExecutionBackend, SandboxLimits
from libs.sandbox.engine import connect

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
MIB = 2**20
LIMITS = SandboxLimits(memory=512 * MIB, cpus=0.5, pids=100, tmp=16 * MIB, open_files=256, file_size=64 * MIB)
CANARIES = {
    "OPENAI_API_KEY": "canary-openai",
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
    "DATABASE_URL": "postgres://canary-database",
    "HTTP_PROXY": "http://canary-proxy",
    "SSH_AUTH_SOCK": "/canary-ssh",
    "PYTHONPATH": "/canary-path",
    "LD_LIBRARY_PATH": "/canary-library",
}


@pytest.fixture(scope="module", autouse=True)
def secrets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CANARIES.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def backend(secrets: None, workspace: Path) -> Iterator[DockerExecutionBackend]:
    with DockerExecutionBackend(
        workspace, skills_dir=ROOT / "skills", name="posture", limits=LIMITS
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
    assert answer.exit_code not in (0, 125, 127), answer.output  # nor a program that is not there
    return answer.output


class TestPrivileges:
    @pytest.mark.parametrize("process", ["self", "1"])
    def test_no_privilege_and_no_way_to_one(self, backend: DockerExecutionBackend, process: str) -> None:
        lines = inside(backend, f"cat /proc/{process}/status").splitlines()
        status = dict(re.split(r":\s+", line, maxsplit=1) for line in lines if ":\t" in line)
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[kind], 16) == 0, kind
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        assert "0" not in status["Uid"].split()
        assert "0" not in status["Gid"].split()
        assert "0" not in status["Groups"].split()

    def test_the_engine_says_the_same(self, inspected: dict[str, Any]) -> None:
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

    @pytest.mark.parametrize(
        "attempt",
        [
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
        ],
    )
    def test_attempts_are_refused(self, backend: DockerExecutionBackend, attempt: str) -> None:
        refused(backend, attempt)

    def test_a_set_uid_program_gains_nothing(self, backend: DockerExecutionBackend) -> None:
        assert inside(backend, "find / -xdev -type f -perm /6000 2>/dev/null; true") == ""
        uid = inside(backend, "id -u")
        copied = inside(backend, "cp /usr/bin/id /workspace/id; chmod 6755 /workspace/id; /workspace/id -u")
        assert copied == uid
        inside(backend, "rm /workspace/id")

    def test_a_set_uid_file_of_root_in_the_workspace_gains_nothing(
        self, backend: DockerExecutionBackend, workspace: Path
    ) -> None:
        """no-new-privileges holds even for a program that the host's root left there."""
        if os.geteuid() != 0:
            pytest.skip("needs a file that belongs to root")
        program = workspace / "id"
        shutil.copy("/usr/bin/id", program)
        program.chmod(0o4755)
        assert inside(backend, "/workspace/id -u") == inside(backend, "id -u")
        program.unlink()


class TestReach:
    def mounts(self, backend: DockerExecutionBackend) -> dict[str, tuple[set[str], str]]:
        """Mount point -> options, file system; see proc(5), mountinfo."""
        table = {}
        for line in inside(backend, "cat /proc/self/mountinfo").splitlines():
            fields = line.split()
            dash = fields.index("-")
            table[fields[4]] = (set(fields[5].split(",")), fields[dash + 1])
        return table

    def test_only_workspace_and_scratch_can_be_written(self, backend: DockerExecutionBackend) -> None:
        writable = {
            point
            for point, (options, system) in self.mounts(backend).items()
            if "rw" in options and system not in ("proc", "devpts", "mqueue")
        }
        # Over some files of /proc lies /dev/null; the other two are tmpfs that root alone may change.
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
        for point in ("/tmp", "/run", "/dev/shm"):
            assert {"nosuid", "nodev"} <= table[point][0]

    def test_the_host_is_not_there(self, backend: DockerExecutionBackend, inspected: dict[str, Any]) -> None:
        """Binds of the host: workspace and skills. The Engine's own three files are its own, read-only."""
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

    def test_there_is_no_network(self, backend: DockerExecutionBackend) -> None:
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

    def test_processes_of_the_host_are_not_seen(self, backend: DockerExecutionBackend) -> None:
        seen = inside(backend, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "pytest" not in seen
        assert "dockerd" not in seen

    @pytest.fixture
    def own_skills(self, tmp_path: Path) -> Path:
        """Skills that belong to the user of the sandbox, as those of a person who is not root do."""
        skills = tmp_path / "skills"
        shutil.copytree(ROOT / "skills", skills, ignore=shutil.ignore_patterns("__pycache__"))
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "1000:1000", skills], check=True)
        return skills

    def test_skills_keep_every_byte(self, own_skills: Path, tmp_path: Path) -> None:
        """By what changes a copy of them: it is the mount that keeps them, and not whose they are."""
        before = tree_hash(own_skills)
        copy = tmp_path / "workspace" / "copy"
        attacks = (
            "rm -rf /skills/* /skills/.[!.]*",
            "find /skills -type f -exec sh -c 'echo x >> \"$1\"' _ {} \\;",
            "touch /skills/new",
            "mkdir /skills/new",
            "chmod -R 777 /skills",
            "mv /skills /workspace/stolen",
            "ln -s /workspace /skills/link",
            "cp /bin/sh /skills/.hidden",
            "python3 -c \"open('/skills/csv-analytics/SKILL.md', 'r+').write('x')\"",
        )
        with DockerExecutionBackend(tmp_path / "workspace", skills_dir=own_skills, name="posture") as backend:
            assert inside(backend, "find /skills ! -user $(id -u)") == ""
            for attack in attacks:
                inside(backend, "rm -rf /workspace/copy /workspace/stolen; cp -r /skills /workspace/copy")
                whole = tree_hash(copy)
                inside(backend, attack.replace("/skills", "/workspace/copy"))
                assert tree_hash(copy) != whole, attack
                answer = backend.execute(f"LC_ALL=C; {attack}")
                assert answer.exit_code != 125, answer.output
                assert re.search("read-only file system", answer.output, re.IGNORECASE), answer.output
                assert tree_hash(own_skills) == before, attack

    def test_an_edit_of_a_skill_on_the_host_is_seen_at_once(self, tmp_path: Path) -> None:
        skills = tmp_path / "skills"
        (skills / "one").mkdir(parents=True)
        skill = skills / "one" / "SKILL.md"
        skill.write_text("first")
        with DockerExecutionBackend(tmp_path / "w", skills_dir=skills, name="posture") as backend:
            assert inside(backend, "cat /skills/one/SKILL.md") == "first"
            skill.write_text("second")
            (skills / "two").mkdir()
            assert inside(backend, "cat /skills/one/SKILL.md; ls /skills") == "secondone\ntwo\n"
            replacement = skills / "one" / "new"
            replacement.write_text("third")
            replacement.rename(skill)
            assert inside(backend, "cat /skills/one/SKILL.md") == "third"

    def test_more_skill_folders_have_their_own_place(self, tmp_path: Path) -> None:
        for name in ("team", "public"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "x").write_text(name)
        extra = (tmp_path / "team", tmp_path / "public")
        with DockerExecutionBackend(tmp_path / "w", extra_skills=extra, name="posture") as backend:
            assert inside(backend, "cat /skills.d/team/x /skills.d/public/x") == "teampublic"
            refused(backend, "touch /skills.d/team/y")


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if "__pycache__" not in path.parts:  # what runs on the host may compile here
            digest.update(str(path).encode() + oct(path.lstat().st_mode).encode())
            digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


class TestLimits:
    def test_the_engine_was_told(self, inspected: dict[str, Any]) -> None:
        host = inspected["HostConfig"]
        assert host["Memory"] == host["MemorySwap"] == LIMITS.memory
        assert host["CpuQuota"] / host["CpuPeriod"] == LIMITS.cpus
        assert host["PidsLimit"] == LIMITS.pids
        ulimits = {item["Name"]: (item["Soft"], item["Hard"]) for item in host["Ulimits"]}
        assert ulimits == {"nofile": (256, 256), "fsize": (64 * MIB, 64 * MIB), "core": (0, 0)}

    @pytest.mark.parametrize(
        ("version_1", "version_2", "value"),
        [
            ("memory/memory.limit_in_bytes", "memory.max", str(LIMITS.memory)),
            ("pids/pids.max", "pids.max", str(LIMITS.pids)),
            ("cpu/cpu.cfs_quota_us", "cpu.max", "50000"),
        ],
    )
    def test_the_kernel_was_told(
        self, backend: DockerExecutionBackend, version_1: str, version_2: str, value: str
    ) -> None:
        """Read where the kernel keeps it, in whichever version of cgroups this host has."""
        found = inside(
            backend, f"cat /sys/fs/cgroup/{version_1} 2>/dev/null || cat /sys/fs/cgroup/{version_2}"
        )
        assert found.split()[0] == value

    def test_processes_run_out(self, backend: DockerExecutionBackend) -> None:
        program = (
            "import os, time\nmade = 0\ntry:\n    while made < 1000:\n        pid = os.fork()\n"
            "        if pid == 0:\n            time.sleep(3); os._exit(0)\n        made += 1\n"
            "except BlockingIOError:\n    print(made)"
        )
        made = int(inside(backend, f'python3 -c "{program}" 2>&1 | tail -1'))
        assert 50 < made < LIMITS.pids

    def test_cpu_time_is_bounded(self, backend: DockerExecutionBackend, inspected: dict[str, Any]) -> None:
        """Four busy loops for two seconds use half a CPU, as the Engine counts it, and a period to spare."""

        def used() -> float:
            stats = connect().api.stats(inspected["Id"], stream=False, one_shot=True)
            return float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

        before, begun = used(), time.monotonic()
        inside(backend, "for i in 1 2 3 4; do timeout 2 sh -c 'while :; do :; done' & done; wait; echo ended")
        spent, seconds = used() - before, time.monotonic() - begun
        assert 0.5 < spent < LIMITS.cpus * (seconds + 0.2)

    def test_ulimits(self, backend: DockerExecutionBackend) -> None:
        assert inside(backend, "ulimit -n; ulimit -Hn; ulimit -c; ulimit -Hc; ulimit -f") == (
            f"256\n256\n0\n0\n{64 * MIB // 1024}\n"
        )
        answer = backend.execute("head -c 100000000 /dev/zero > /workspace/big; stat -c %s /workspace/big")
        assert answer.output.splitlines()[-1] == str(64 * MIB)
        inside(
            backend, "rm /workspace/big; sh -c 'kill -SEGV $$' || true; ls /workspace | grep -c core || true"
        )

    @pytest.mark.parametrize(("place", "size"), [("/tmp", 16 * MIB), ("/dev/shm", 4 * MIB), ("/run", MIB)])
    def test_scratch_is_bounded(self, backend: DockerExecutionBackend, place: str, size: int) -> None:
        answer = backend.execute(f"head -c 60000000 /dev/zero > {place}/fill; stat -c %s {place}/fill")
        written = int(answer.output.splitlines()[-1])
        assert written <= size
        inside(backend, f"rm {place}/fill")

    def test_programs_run_from_tmp(self, backend: DockerExecutionBackend) -> None:
        assert inside(backend, "printf '#!/bin/sh\\necho on' > /tmp/p; chmod +x /tmp/p; /tmp/p") == "on\n"


class TestEnvironment:
    def test_nothing_of_the_host_is_inside(
        self, backend: DockerExecutionBackend, inspected: dict[str, Any]
    ) -> None:
        everything = inside(backend, "env -0 | tr '\\0' '\\n'; cat /proc/[0-9]*/environ 2>/dev/null; set")
        assert "canary" not in everything
        assert "canary" not in str(inspected)
        for name in CANARIES:
            assert not re.search(rf"^{name}=", everything, re.MULTILINE)

    def test_only_what_a_shell_needs_is_there(self, backend: DockerExecutionBackend) -> None:
        found = {line.partition("=")[0] for line in inside(backend, "env").splitlines()}
        assert found <= {
            *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "PWD", "SHLVL", "_", "OLDPWD"),
            *("MPLBACKEND", "MPLCONFIGDIR", "PYTHONUNBUFFERED", "TMPDIR", "TZ", "LC_CTYPE"),
            # Those of the official Python images.
            *(
                "GPG_KEY",
                "PYTHON_VERSION",
                "PYTHON_SHA256",
                "PYTHON_PIP_VERSION",
                "PYTHON_SETUPTOOLS_VERSION",
            ),
        }

    def test_patterns_let_pass_but_never_replace(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in {
            "TZ": "Europe/Berlin",
            "MY_ONE": "1",
            "MY_TWO": "zwei\nlinien = ü",
            "YOUR_ONE": "x",
            "PATH": f"/elsewhere:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "USER": "somebody",
        }.items():
            monkeypatch.setenv(name, value)
        allow = ["TZ", "MY_*", "PATH", "HOME", "USER"]
        with DockerExecutionBackend(tmp_path / "w", env_allow=allow, name="posture") as backend:
            assert inside(backend, 'echo $TZ $MY_ONE ${YOUR_ONE-unset}; printf %s "$MY_TWO"') == (
                "Europe/Berlin 1 unset\nzwei\nlinien = ü"
            )
            told = inside(backend, "echo $PATH $HOME $USER")
            assert "/elsewhere" not in told
            assert str(tmp_path) not in told
            assert "somebody" not in told

    def test_everything_can_pass_but_what_is_the_sandboxs_own(self, tmp_path: Path) -> None:
        with DockerExecutionBackend(tmp_path, env_allow=["*"], name="posture") as backend:
            assert inside(backend, "echo $OPENAI_API_KEY") == "canary-openai\n"
            assert inside(backend, "echo $HOME; cd ~; touch x; ls").startswith("/tmp")

    def test_what_the_first_process_is_told_by_cannot_be_passed_in(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SANDBOX_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("SANDBOX_TRUST", "no certificate")
        with DockerExecutionBackend(tmp_path, env_allow=["SANDBOX_*"], name="posture") as backend:
            assert inside(backend, "echo ${SANDBOX_PROXY-unset} ${SSL_CERT_FILE-unset}") == "unset unset\n"


class TestSupervisor:
    """PID 1 cannot be read, forged, signalled or traced from inside."""

    def test_it_is_the_first_process(self, backend: DockerExecutionBackend) -> None:
        assert "/usr/lib/code-agent" in inside(backend, "tr '\\0' ' ' < /proc/1/cmdline")

    @pytest.mark.parametrize(
        "file", ["fd/0", "fd/1", "fd/2", "mem", "environ", "maps", "root/x", "stack", "auxv"]
    )
    def test_it_cannot_be_read(self, backend: DockerExecutionBackend, file: str) -> None:
        refused(backend, f"head -c 1 /proc/1/{file}")

    def test_its_descriptors_cannot_be_listed_or_written(self, backend: DockerExecutionBackend) -> None:
        refused(backend, "ls /proc/1/fd/")
        for descriptor in (0, 1, 2, 3, 4, 5):
            refused(backend, f"echo forged > /proc/1/fd/{descriptor}")

    def test_workers_cannot_be_read_either(self, backend: DockerExecutionBackend) -> None:
        parents = inside(backend, "ps -o pid= --ppid 1").split()
        assert parents
        for pid in parents:
            inside(backend, f"test -e /proc/{pid}/stat")
            refused(backend, f"ls /proc/{pid}/fd/")
            for file in ("mem", "environ", "maps", "fd/0", "fd/3"):
                refused(backend, f"head -c 1 /proc/{pid}/{file}")

    def test_it_cannot_be_traced(self, backend: DockerExecutionBackend) -> None:
        program = (
            "import ctypes, os; libc = ctypes.CDLL(None); shell = os.getppid(); "
            "worker = int(open(f'/proc/{shell}/stat').read().split()[3]); "
            "print([libc.ptrace(REQUEST, pid, 0, 0) for pid in (1, worker)])"
        )
        for request in ("16", "0x4206"):  # PTRACE_ATTACH, PTRACE_SEIZE
            traced = inside(backend, f'python3 -c "{program.replace("REQUEST", request)}"')
            assert traced == "[-1, -1]\n"

    def test_its_memory_cannot_be_copied(self, backend: DockerExecutionBackend) -> None:
        program = (
            "import ctypes; libc = ctypes.CDLL(None); buffer = ctypes.create_string_buffer(16); "
            "vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 16); "
            "there = (ctypes.c_void_p * 2)(0x400000, 16); "
            "calls = (libc.process_vm_readv, libc.process_vm_writev); "
            "print([call(1, vector, 1, there, 1, 0) for call in calls])"
        )
        assert inside(backend, f'python3 -c "{program}"') == "[-1, -1]\n"

    @pytest.mark.parametrize("signal", [sig for sig in range(1, 65) if sig not in (32, 33)])
    def test_no_signal_from_inside_reaches_it(
        self, backend: DockerExecutionBackend, inspected: dict[str, Any], signal: int
    ) -> None:
        backend.execute(f"kill -{signal} 1")
        begun = time.monotonic()
        assert inside(backend, "echo on") == "on\n"
        assert time.monotonic() - begun < 5
        details = connect().api.inspect_container(inspected["Id"])
        assert details["State"]["Running"]

    def test_what_answers_is_what_started(
        self, backend: DockerExecutionBackend, inspected: dict[str, Any]
    ) -> None:
        """After every attack of this module it is still the first container."""
        assert "/" + str(backend.sandbox.container_name) == inspected["Name"]


class TestOwnership:
    """S8: one workspace for two sides."""

    def test_the_three_folders_are_made(self, tmp_path: Path) -> None:
        with DockerExecutionBackend(tmp_path / "new" / "place", name="posture") as backend:
            listed = inside(backend, "ls -d /workspace/*/; ls -d /data/ /scripts/ /results/").split()
        assert {"/workspace/data/", "/workspace/scripts/", "/workspace/results/"} <= set(listed)

    def test_each_side_changes_what_the_other_made(
        self, backend: DockerExecutionBackend, workspace: Path
    ) -> None:
        inside(backend, "mkdir -p /results/inside/deep; echo inside > /results/inside/deep/file")
        made = workspace / "results/inside/deep/file"
        made.write_text("changed on the host\n")
        (made.parent / "new").write_text("from the host\n")
        (workspace / "data/outside").mkdir()
        (workspace / "data/outside/file").write_text("outside\n")
        assert inside(backend, "cat /results/inside/deep/file") == "changed on the host\n"
        inside(backend, "echo changed inside > /data/outside/file; echo more > /data/outside/new")
        inside(backend, "echo changed inside > /results/inside/deep/new")
        assert (workspace / "data/outside/file").read_text() == "changed inside\n"
        inside(backend, "mv /data/outside /data/moved; rm -r /data/moved /results/inside")
        assert not (workspace / "data/outside").exists()
        assert not made.parent.exists()

    @pytest.mark.parametrize(
        "how", ["cp {} {}", "cp -p {} {}", "install -m 644 {} {}", "cat {} > {}", "mv {} {}"]
    )
    def test_what_is_copied_in_can_be_changed_at_once(
        self, backend: DockerExecutionBackend, workspace: Path, tmp_path: Path, how: str
    ) -> None:
        inside(backend, "true")
        source = tmp_path / "source"
        source.write_text("old\n")
        source.chmod(0o644)
        subprocess.run(how.format(source, workspace / "data/copied"), shell=True, check=True)
        assert inside(backend, "echo new >> /data/copied; cat /data/copied") == "old\nnew\n"
        (tmp_path / "folder/inner").mkdir(parents=True)
        (tmp_path / "folder/inner/file").write_text("old\n")
        shutil.copytree(tmp_path / "folder", workspace / "data/folder")
        assert backend.edit("/data/folder/inner/file", "old", "new").error is None
        assert backend.write("/data/folder/inner/made", "x").error is None
        inside(backend, "rm -r /data/copied /data/folder")

    def test_what_was_there_before_can_be_changed(self, tmp_path: Path) -> None:
        (tmp_path / "old/deep").mkdir(parents=True)
        (tmp_path / "old/deep/file").write_text("old")
        (tmp_path / "old/link").symlink_to("/etc/passwd")
        before = Path("/etc/passwd").stat()
        with DockerExecutionBackend(tmp_path, name="posture") as backend:
            inside(backend, "echo new > /workspace/old/deep/file; rm -r /workspace/old; touch /workspace/x")
        after = Path("/etc/passwd").stat()
        assert (before.st_uid, before.st_mode) == (after.st_uid, after.st_mode)

    def test_another_owner_is_who_runs(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs the right to give a folder away")
        folder = tmp_path / "theirs"
        folder.mkdir()
        os.chown(folder, 1001, 1001)
        with DockerExecutionBackend(folder, name="posture") as backend:
            assert inside(backend, "id -u; id -g") == "1001\n1001\n"
            assert inside(backend, "whoami; id -un; id -gn") == "agent\nagent\nagent\n"
            assert inside(backend, "python3 -c 'import getpass; print(getpass.getuser())'") == "agent\n"
            assert inside(
                backend, 'python3 -c "import pathlib; print(pathlib.Path.home())"; echo $HOME'
            ).split() == ([inside(backend, "echo ~").strip()] * 2)
            inside(backend, "cd ~; echo x > kept; cat kept; touch /results/made")
            plot = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('/results/plot.png')"
            # Not a word on stderr: a model would read it.
            assert inside(backend, f'python3 -c "{plot}"') == ""
        assert (folder / "results/made").stat().st_uid == 1001
        assert (folder / "results/plot.png").read_bytes().startswith(b"\x89PNG")

    def test_a_user_who_is_not_root_can_change_what_was_made(self, tmp_path: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs the right to become another user")
        folder = tmp_path / "theirs"
        folder.mkdir()
        os.chown(folder, 1001, 1001)
        for parent in (tmp_path, *tmp_path.parents[:2]):
            parent.chmod(parent.stat().st_mode | 0o755)
        with DockerExecutionBackend(folder, name="posture") as backend:
            inside(backend, "echo inside > /results/file")
            as_user = ["setpriv", "--reuid=1001", "--regid=1001", "--clear-groups", "sh", "-c"]
            change = f"echo host >> {folder}/results/file; echo host > {folder}/data/new"
            subprocess.run([*as_user, change], check=True)
            assert inside(backend, "cat /results/file; echo inside >> /data/new; cat /data/new") == (
                "inside\nhost\nhost\ninside\n"
            )


class TestRuntime:
    def test_the_engines_default_is_used(self, inspected: dict[str, Any]) -> None:
        assert inspected["HostConfig"]["Runtime"] == connect().info()["DefaultRuntime"]

    def test_one_that_is_there_is_used(self, tmp_path: Path) -> None:
        client = connect()
        default = client.info()["DefaultRuntime"]
        name = next((name for name in client.info()["Runtimes"] if name != default), default)
        with DockerExecutionBackend(tmp_path, runtime=name, name="posture") as backend:
            inside(backend, "true")
            details = client.api.inspect_container(backend.sandbox.container_name)
            assert details["HostConfig"]["Runtime"] == name

    def test_one_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with DockerExecutionBackend(tmp_path, runtime="no-such-runtime", name="posture") as backend:
            answer = backend.execute("true")
            assert answer.exit_code == 125
            assert "no-such-runtime" in answer.output
        assert (
            connect().containers.list(
                all=True, filters={"label": "code-agent.name=posture", "status": "created"}
            )
            == []
        )


class TestEnginesOwnView:
    def test_no_frame_is_logged(self, backend: DockerExecutionBackend, inspected: dict[str, Any]) -> None:
        inside(backend, "echo certainly-not-logged")
        assert not inspected.get("LogPath")

    def test_labels_name_the_owner(self, inspected: dict[str, Any]) -> None:
        labels = inspected["Config"]["Labels"]
        assert labels["code-agent.name"] == "posture"
        assert f'"pid": {os.getpid()}' in labels["code-agent.owner"]
        assert re.fullmatch(r"/posture-[0-9a-f]{8}", inspected["Name"])
