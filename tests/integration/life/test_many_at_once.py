"""Many commands and files at once, in every kind of sandbox."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.sandbox import SandboxBusy, SandboxLimits
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from libs.sandbox.host.local_sandbox import LocalSandbox
from tests.support.sandboxes import ON_BOTH, make_sandbox


class TestManyAtOnce:
    """One channel carries many commands, for threads and for event loops."""

    @ON_BOTH
    def test_fifty_threads(self, sandbox: ChannelSandbox) -> None:
        def run(index: int) -> str:
            return sandbox.run(f"sleep 1; echo {index}", timeout=60).output

        begun = time.monotonic()
        with ThreadPoolExecutor(50) as pool:
            assert list(pool.map(run, range(50))) == [f"{index}\n" for index in range(50)]
        assert time.monotonic() - begun < 50 / 2

    async def test_fifty_tasks(self, sandbox: ChannelSandbox) -> None:
        await sandbox.arun("true")  # the sandbox is started
        before = {*threading.enumerate()}
        tasks = [asyncio.create_task(sandbox.arun(f"sleep 0.5; echo {i}", timeout=60)) for i in range(50)]
        await asyncio.sleep(0.2)
        # No thread for each waiting command. A few of the sandbox itself may start, such as the writer.
        names = [thread.name for thread in threading.enumerate() if thread not in before]
        assert len(names) < 10
        assert all(name.startswith("sandbox-") for name in names), names
        results = await asyncio.gather(*tasks)
        assert [result.output for result in results] == [f"{i}\n" for i in range(50)]

    def test_outputs_are_not_mixed(self, sandbox: ChannelSandbox) -> None:
        def run(index: int) -> bool:
            size = 40_000 + index
            result = sandbox.run(f"head -c {size} /dev/zero | tr '\\0' {chr(97 + index)}", timeout=60)
            return result.output == chr(97 + index) * size

        with ThreadPoolExecutor(20) as pool:
            assert all(pool.map(run, range(20)))

    def test_more_commands_than_workers_wait_their_turn(self, tmp_path: Path) -> None:
        with make_sandbox("local", tmp_path) as sandbox, ThreadPoolExecutor(150) as pool:
            results = list(pool.map(lambda i: sandbox.run(f"sleep 0.2; echo {i}", timeout=60), range(150)))
        assert [result.output for result in results] == [f"{i}\n" for i in range(150)]

    @pytest.mark.docker
    async def test_more_requests_than_the_process_limit_allows_wait_their_turn(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox]
    ) -> None:
        with sandbox_with(SandboxLimits(pids=64)) as sandbox:
            results = await asyncio.gather(*(sandbox.arun(f"echo {i} | cat", timeout=60) for i in range(40)))
            assert [result.output for result in results] == [f"{i}\n" for i in range(40)]
            # Idle workers of commands leave room for those of files.
            await asyncio.gather(*(sandbox.awrite_file(f"f{i}", b"x") for i in range(40)))
            assert (await sandbox.arun("ls f* | wc -l")).output == "40\n"

    @pytest.mark.thorough
    def test_overload_fails_single_commands_and_keeps_the_sandbox(self, tmp_path: Path) -> None:
        """Some of far too many commands time out or fail. The sandbox survives."""
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
