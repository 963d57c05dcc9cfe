"""Many commands and files at once, whatever the sandbox is made of (S15)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.sandbox import SandboxBusy
from libs.sandbox.base import ChannelSandbox
from libs.sandbox.local import LocalSandbox
from tests.integration.sandboxes import make_sandbox


class TestManyAtOnce:
    """S6: one channel carries many commands, for threads and for event loops."""

    def test_fifty_threads(self, sandbox: ChannelSandbox) -> None:
        def run(index: int) -> str:
            return sandbox.run(f"sleep 0.2; echo {index}", timeout=60).output

        begun = time.monotonic()
        with ThreadPoolExecutor(50) as pool:
            assert list(pool.map(run, range(50))) == [f"{index}\n" for index in range(50)]
        assert time.monotonic() - begun < 0.2 * 50 / 2

    async def test_fifty_tasks(self, sandbox: ChannelSandbox) -> None:
        threads = threading.active_count()
        tasks = [asyncio.create_task(sandbox.arun(f"sleep 0.5; echo {i}", timeout=60)) for i in range(50)]
        await asyncio.sleep(0.2)
        # No thread per waiting command (S2): one that writes may have been started meanwhile.
        assert threading.active_count() <= threads + 1
        results = await asyncio.gather(*tasks)
        assert [result.output for result in results] == [f"{i}\n" for i in range(50)]

    def test_two_event_loops(self, sandbox: ChannelSandbox) -> None:
        async def several(tag: str) -> list[str]:
            results = await asyncio.gather(*(sandbox.arun(f"sleep 0.1; echo {tag}{i}") for i in range(10)))
            return [result.output for result in results]

        with ThreadPoolExecutor(2) as pool:
            futures = {tag: pool.submit(asyncio.run, several(tag)) for tag in ("a", "b")}
            for tag, future in futures.items():
                assert future.result(60) == [f"{tag}{i}\n" for i in range(10)]

    def test_outputs_are_not_mixed_up(self, sandbox: ChannelSandbox) -> None:
        def run(index: int) -> bool:
            size = 40_000 + index
            result = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' {chr(97 + index)}", timeout=60)
            return result.output == chr(97 + index) * size

        with ThreadPoolExecutor(20) as pool:
            assert all(pool.map(run, range(20)))

    def test_more_commands_than_workers_wait_their_turn(self, tmp_path: Path) -> None:
        with make_sandbox("local", tmp_path) as sandbox, ThreadPoolExecutor(150) as pool:
            results = list(pool.map(lambda i: sandbox.run(f"sleep 0.5; echo {i}", timeout=60), range(150)))
        assert [result.output for result in results] == [f"{i}\n" for i in range(150)]

    def test_a_wait_that_is_too_long_is_told_and_ends_nothing_else(self, tmp_path: Path) -> None:
        """Far more than there is room for: some end late or find no place, and nobody loses the sandbox."""
        with LocalSandbox(tmp_path) as sandbox, ThreadPoolExecutor(200) as pool:

            def run(index: int) -> int:
                try:
                    return sandbox.run("sleep 4", timeout=5).exit_code
                except SandboxBusy:
                    return -1

            sandbox.run("true")
            first = sandbox.process
            codes = list(pool.map(run, range(200)))
            assert set(codes) <= {0, 124, -1}
            assert codes.count(0) >= 50
            assert sandbox.run("echo on").output == "on\n"
            assert sandbox.process is first

    @pytest.mark.docker
    def test_many_background_children_leave_room_for_the_next_command(self, tmp_path: Path) -> None:
        with make_sandbox("docker", tmp_path) as sandbox:
            for _ in range(70):
                assert sandbox.run("sleep 600 & echo on", timeout=5).output == "on\n"
            assert sandbox.run("pgrep -c sleep", timeout=5).output == "70\n"
            sandbox.write_file("/tmp/x", b"files too")
            assert sandbox.read_file("/tmp/x") == b"files too"

    def test_files_and_commands_at_once(self, sandbox: ChannelSandbox) -> None:
        def work(index: int) -> bool:
            content = os.urandom(200_000)
            sandbox.write_file(f"at-once-{index}", content)
            size = sandbox.run(f"stat -c %s at-once-{index}").output
            return size == "200000\n" and sandbox.read_file(f"at-once-{index}") == content

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(work, range(32)))
