"""Long output and live output, in every kind of sandbox."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.sandbox import RunResult
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from tests.support.commands.engines import Engines
from tests.support.programs import finished
from tests.support.sandboxes import DOCKER, LIMIT, ON_BOTH, make_sandbox


class TestOutput:
    """The middle of a long output is left out, counted and kept in a file."""

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

    def test_rest_that_has_not_come_is_named_if_what_ran_it_was_killed(self, sandbox: ChannelSandbox) -> None:
        where = "a very long output may be in a file in .output"
        missing = f"[… the rest of this output did not come; {where} …]\n["
        for size, is_missing in ((2 * LIMIT - 10, False), (2 * LIMIT + 10, True)):
            printed = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' x; sleep 0.3; kill -9 $PPID; sleep 9")
            assert (missing in printed.output) is is_missing
            assert printed.truncated
            assert printed.output.endswith("may have ended, too]")
        code = f"import os, time; print('x' * {2 * LIMIT}); time.sleep(0.3); os.kill(os.getppid(), 9)"
        assert missing in sandbox.run_python(code, session="missing").output

    @pytest.mark.parametrize("unit", ["x", "😀"], ids=["ascii", "four bytes"])
    def test_output_at_the_limit_is_complete(self, sandbox: ChannelSandbox, unit: str) -> None:
        sandbox.write_file("whole.txt", (unit * LIMIT).encode())
        result = sandbox.run("cat whole.txt")
        assert result.output == unit * LIMIT
        assert (result.truncated, result.spill_path) == (False, None)

    @ON_BOTH
    @pytest.mark.parametrize("extra", [1, 60_000, 1_000_000])
    def test_output_over_the_limit_is_cut(self, sandbox: ChannelSandbox, extra: int) -> None:
        whole = ("aü€😀" * (LIMIT + extra))[: LIMIT + extra]
        sandbox.write_file("whole.txt", whole.encode())
        self.check_cut(sandbox, sandbox.run("cat whole.txt"), whole)

    @pytest.mark.parametrize(
        "data", [b"\x80" * 400_000, b"\xf0\x9f\x98" * 100_000], ids=["continuations", "cut characters"]
    )
    def test_invalid_bytes_count_as_shown_characters(self, sandbox: ChannelSandbox, data: bytes) -> None:
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

    def test_spill_file_ends_at_64_mb_and_the_note_says_so(self, sandbox: ChannelSandbox) -> None:
        size = 70_000_000
        result = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' x")
        assert f"{size - LIMIT:,} characters left out" in result.output
        assert f"its first {64 * 2**20:,} bytes are in {result.spill_path}" in result.output
        assert sandbox.run(f"wc -c < {result.spill_path}").output == f"{64 * 2**20}\n"
        sandbox.run("rm -rf .output")

    def test_oldest_spill_files_over_1_gb_are_removed(self, sandbox: ChannelSandbox) -> None:
        plant = "for i in $(seq 10 26); do fallocate -l 64M .output/202001$i-000000-abcdef.txt || exit; done"
        planted = sandbox.run(f"rm -rf .output; mkdir .output; echo kept > .output/notes.txt; {plant}")
        assert planted.exit_code == 0, planted.output
        try:
            result = sandbox.run("head -c 300000 /dev/zero | tr '\\0' x")
            assert result.spill_path
            names = sandbox.run("cd .output; ls; du -sm").output.split()
            assert "20200111-000000-abcdef.txt" not in names
            assert {"20200112-000000-abcdef.txt", "notes.txt", Path(result.spill_path).name} <= set(names)
            assert int(names[-2]) <= 1024
        finally:
            sandbox.run("rm -rf .output")

    @pytest.mark.parametrize("trap", ["mkfifo .output", "ln -s .output .output", "ln -s /dev/null .output"])
    @ON_BOTH
    def test_trap_in_the_place_of_the_spill_folder_costs_only_the_file(
        self, sandbox: ChannelSandbox, trap: str
    ) -> None:
        sandbox.run(f"rm -rf .output; {trap}")
        try:
            result = sandbox.run("head -c 300000 /dev/zero | tr '\\0' x", timeout=20)
            assert result.exit_code == 0
            assert "250,000 characters left out" in result.output
            if result.spill_path is None:
                assert "could not be kept" in result.output
            else:  # a sandbox of root may write anywhere
                assert result.spill_path in result.output
        finally:
            sandbox.run("rm -rf .output")

    @pytest.mark.parametrize("kind", [pytest.param("local", marks=pytest.mark.thorough), DOCKER])
    def test_long_output_needs_no_memory_of_the_host(self, kind: str, tmp_path: Path) -> None:
        """Measured by the peak memory of another process, with 200 MB of output."""
        script = f"""
            import resource
            from pathlib import Path
            from tests.support.sandboxes import make_sandbox

            def peak():
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

            with make_sandbox({kind!r}, Path({str(tmp_path)!r})) as sandbox:
                for _ in range(20):
                    sandbox.run("echo warm", on_output=len)
                idle = peak()
                result = sandbox.run("head -c 200000000 /dev/zero | tr '\\\\0' x", on_output=len)
                assert "199,950,000 characters left out" in result.output, result.output[-200:]
                print(peak() - idle)
        """
        assert int(finished(script)) <= 8 * 1024


class TestStreaming:
    """Output is shown live."""

    @ON_BOTH
    def test_live_output_is_complete_and_in_order(self, sandbox: ChannelSandbox, engines: Engines) -> None:
        """The command waits after each line for a file that is made when the line is shown."""
        seen: list[bytes] = []

        def show(data: bytes) -> None:
            seen.append(data)
            engines.on_host(sandbox, f"shown-{len(seen)}").touch()

        wait = "until [ -e shown-$i ]; do sleep 0.02; done"
        result = sandbox.run(
            f"for i in 1 2 3; do echo $i; {wait}; done; printf end", timeout=30, on_output=show
        )
        assert result.output == "1\n2\n3\nend"
        assert seen == [b"1\n", b"2\n", b"3\n", b"end"]

    def test_live_output_of_a_flood_is_bounded(self, sandbox: ChannelSandbox) -> None:
        seen: list[int] = []
        sandbox.run("head -c 100000000 /dev/zero | tr '\\0' x", on_output=lambda data: seen.append(len(data)))
        assert 2 * LIMIT <= sum(seen) < 20_000_000

    def test_failing_callback_harms_no_command(self, tmp_path: Path) -> None:
        """Such as a callback for a closed event loop. The reader thread serves all commands."""

        def broken(_: bytes) -> None:
            raise RuntimeError("nobody listens")

        with make_sandbox("local", tmp_path) as sandbox, ThreadPoolExecutor() as pool:
            other = pool.submit(sandbox.run, "sleep 0.5; echo whole", timeout=5)
            assert sandbox.run("echo told; sleep 0.1; echo twice", on_output=broken, timeout=5).exit_code == 0
            assert other.result().output == "whole\n"
            assert sandbox.run("echo on", timeout=5).output == "on\n"
