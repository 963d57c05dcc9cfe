"""What comes of a long output, and output while it comes, whatever the sandbox is made of (S15)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.sandbox import RunResult, SandboxLimits
from libs.sandbox.base import ChannelSandbox
from tests.integration.programs import ROOT
from tests.integration.sandboxes import DOCKER, LIMIT, make_sandbox


class TestOutput:
    """S5: the middle of a long output is cut out, counted and kept in a file."""

    def check_cut(self, sandbox: ChannelSandbox, result: RunResult, whole: str) -> None:
        half = LIMIT // 2
        assert result.truncated
        assert result.spill_path is not None
        first, rest = result.output[:half], result.output[half:]
        note, last = rest[: -half or None], rest[-half:]
        assert first == whole[:half]
        assert last == whole[-half:]
        assert note.startswith("\n[…")
        assert note.endswith("…]\n")
        assert f" {len(whole) - LIMIT:,} characters left out" in note
        assert result.spill_path in note
        assert sandbox.read_file(result.spill_path).decode("utf-8", "replace") == whole

    @pytest.mark.parametrize(
        "unit", ["x", "ü", "😀", "x\n"], ids=["ascii", "two bytes", "four bytes", "lines"]
    )
    def test_exactly_the_limit_is_whole(self, sandbox: ChannelSandbox, unit: str) -> None:
        whole = unit * (LIMIT // len(unit))
        sandbox.write_file("whole.txt", whole.encode())
        result = sandbox.run("cat whole.txt")
        assert result.output == whole
        assert (result.truncated, result.spill_path) == (False, None)

    @pytest.mark.parametrize("extra", [1, 2, 60_000, 1_000_000])
    @pytest.mark.parametrize("unit", ["x", "ü", "😀", "aü€😀"], ids=["ascii", "two", "four", "mixed"])
    def test_more_is_cut(self, sandbox: ChannelSandbox, unit: str, extra: int) -> None:
        whole = (unit * ((LIMIT + extra) // len(unit) + 1))[: LIMIT + extra]
        sandbox.write_file("whole.txt", whole.encode())
        self.check_cut(sandbox, sandbox.run("cat whole.txt"), whole)

    @pytest.mark.parametrize(
        "data",
        [b"\x80" * 400_000, b"\xff" * 60_000, b"\xf0\x9f\x98" * 100_000, b"a\xc3" * 200_000],
        ids=["continuations", "never valid", "cut characters", "cut starts"],
    )
    def test_bytes_that_are_no_text_are_counted_as_they_are_shown(
        self, sandbox: ChannelSandbox, data: bytes
    ) -> None:
        sandbox.write_file("whole.bin", data)
        self.check_cut(sandbox, sandbox.run("cat whole.bin"), data.decode("utf-8", "replace"))

    def test_each_output_has_its_own_limit_and_file(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("head -c 60000 /dev/zero | tr '\\0' e >&2; echo out", merge_stderr=False)
        assert result.output == "out\n"
        assert result.truncated
        assert "10,000 characters left out" in result.stderr
        assert result.spill_path is not None
        assert result.spill_path in result.stderr
        assert sandbox.read_file(result.spill_path) == b"e" * 60_000

    def test_the_file_ends_at_64_mb_and_the_text_says_so(self, sandbox: ChannelSandbox) -> None:
        size = 70_000_000
        result = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' x")
        assert f"{size - LIMIT:,} characters left out" in result.output
        assert f"its first {64 * 2**20:,} bytes are in {result.spill_path}" in result.output
        assert sandbox.run(f"stat -c %s {result.spill_path}").output == f"{64 * 2**20}\n"
        sandbox.run("rm -rf .output")

    def test_the_oldest_files_go_where_all_take_over_1_gb(self, sandbox: ChannelSandbox) -> None:
        plant = "for i in $(seq 10 26); do fallocate -l 64M .output/202001$i-000000-abcdef.txt || exit; done"
        planted = sandbox.run(f"rm -rf .output; mkdir .output; echo kept > .output/notes.txt; {plant}")
        assert planted.exit_code == 0, planted.output
        try:
            result = sandbox.run("head -c 300000 /dev/zero | tr '\\0' x")
            assert result.spill_path
            names = sandbox.run("ls .output; du -sm .output").output.split()
            assert "20200111-000000-abcdef.txt" not in names
            assert {"20200112-000000-abcdef.txt", "notes.txt", Path(result.spill_path).name} <= set(names)
            assert int(names[-2]) <= 1024
        finally:
            sandbox.run("rm -rf .output")

    def test_a_time_out_keeps_the_cut_output_too(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("head -c 100000 /dev/zero | tr '\\0' x; sleep 30", timeout=1)
        assert result.timed_out
        assert result.truncated
        assert "50,000 characters left out" in result.output
        assert result.output.splitlines()[-1].startswith("[timed out")

    @pytest.mark.parametrize(
        "trap",
        [
            "mkfifo .output",
            "echo file > .output",
            "ln -s /proc/nonexistent/below .output",
            "ln -s .output .output",
            "ln -s /dev/null .output",
            "mkdir .output; chmod 0 .output",
        ],
    )
    def test_a_trap_in_the_place_of_the_file_costs_the_file_only(
        self, sandbox: ChannelSandbox, trap: str
    ) -> None:
        sandbox.run(f"rm -rf .output; {trap}")
        try:
            result = sandbox.run("head -c 300000 /dev/zero | tr '\\0' x", timeout=20)
            assert result.exit_code == 0
            assert "250,000 characters left out" in result.output
            if result.spill_path is None:
                assert "could not be kept" in result.output
            else:  # a sandbox that runs as root may write anywhere
                assert result.spill_path in result.output
        finally:
            sandbox.run("chmod -f 755 .output; rm -rf .output")

    @pytest.mark.docker
    def test_a_file_that_could_not_be_written_whole_is_not_called_whole(self, tmp_path: Path) -> None:
        """Here at the file-size limit; a full disk reads the same."""
        with make_sandbox("docker", tmp_path, SandboxLimits(file_size=2**20)) as sandbox:
            result = sandbox.run("head -c 3000000 /dev/zero | tr '\\0' x")
            assert result.exit_code == 0
            assert "2,950,000 characters left out" in result.output
            assert "the whole output" not in result.output

    @pytest.mark.parametrize("kind", ["local", DOCKER])
    def test_the_host_needs_no_memory_for_it(self, kind: str, tmp_path: Path) -> None:
        """In a process of its own, by the high-water mark of its memory: 200 MB are printed."""
        script = textwrap.dedent(f"""
            import resource
            from pathlib import Path
            from tests.integration.sandboxes import make_sandbox

            def peak():
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

            with make_sandbox({kind!r}, Path({str(tmp_path)!r})) as sandbox:
                for _ in range(20):
                    sandbox.run("echo warm", on_output=len)
                idle = peak()
                result = sandbox.run("head -c 200000000 /dev/zero | tr '\\\\0' x", on_output=len)
                assert "199,950,000 characters left out" in result.output, result.output[-200:]
                print(peak() - idle)
        """)
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) <= 8 * 1024


class TestStreaming:
    """S6: output is shown while it comes."""

    def test_all_of_a_small_output_in_order_while_it_runs(self, sandbox: ChannelSandbox) -> None:
        seen: list[tuple[float, bytes]] = []
        result = sandbox.run(
            "for i in 1 2 3; do echo $i; sleep 0.3; done; printf end",
            on_output=lambda data: seen.append((time.monotonic(), data)),
        )
        ended = time.monotonic()
        assert b"".join(data for _, data in seen).decode() == result.output == "1\n2\n3\nend"
        assert ended - seen[0][0] > 0.6

    def test_both_outputs_are_shown(self, sandbox: ChannelSandbox) -> None:
        seen: list[bytes] = []
        sandbox.run("echo out; sleep 0.05; echo err >&2", on_output=seen.append, merge_stderr=False)
        assert b"".join(seen) == b"out\nerr\n"

    def test_of_a_flood_a_bounded_part(self, sandbox: ChannelSandbox) -> None:
        seen: list[int] = []
        sandbox.run("head -c 100000000 /dev/zero | tr '\\0' x", on_output=lambda data: seen.append(len(data)))
        assert 2 * LIMIT <= sum(seen) < 20_000_000

    def test_a_callback_that_fails_harms_no_command(self, tmp_path: Path) -> None:
        """One that tells a finished event loop, say: the reader serves every other command too."""

        def broken(_: bytes) -> None:
            raise RuntimeError("nobody listens")

        with make_sandbox("local", tmp_path) as sandbox, ThreadPoolExecutor() as pool:
            other = pool.submit(sandbox.run, "sleep 0.5; echo whole", timeout=5)
            assert sandbox.run("echo told; sleep 0.1; echo twice", on_output=broken, timeout=5).exit_code == 0
            assert other.result().output == "whole\n"
            assert sandbox.run("echo on", timeout=5).output == "on\n"
