"""What ends a command ends all that came of it, whatever the sandbox is made of (S15)."""

from __future__ import annotations

import asyncio
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libs.sandbox import SandboxLimits
from libs.sandbox.base import ChannelSandbox
from tests.integration.sandboxes import GONE, alive, in_time, make_sandbox, mark
from tests.waiting import eventually

SUBREAPER = textwrap.dedent("""
    import ctypes, os, sys, time
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            time.sleep(60)
    time.sleep(60)
""")
FORMS = {
    "plain": "sleep {n}",
    "in place of the shell": "exec sleep {n}",
    "signals trapped": "trap '' TERM INT HUP QUIT; sleep {n}",
    "own session": "setsid sleep {n} & sleep {n}",
    "double fork": "(setsid bash -c 'sleep {n} & sleep {n} &' &); sleep {n}",
    "another name": "(exec -a innocent sleep {n}) & (exec -a '' sleep {n}) & sleep {n}",
    "no environment": "env -i setsid sleep {n} & env -i sleep {n}",
    "own subreaper": f"python3 -c '{SUBREAPER}' {{n}}",
    "stopped": "sleep {n} & kill -STOP $!; bash -c 'kill -STOP $$; sleep 1' {n}",
    "worker stopped": "kill -STOP $PPID; sleep {n}",
    "pipeline": "sleep {n} | sleep {n} | cat",
    "disowned": "nohup sleep {n} > /dev/null 2>&1 & disown; sleep {n}",
    "busy": "sh -c 'while :; do :; done' {n}",
    "flood": "yes {n}",
    "outputs closed": "exec >&- 2>&-; sleep {n}",
    "many": "for i in $(seq 40); do sleep {n} & done; wait",
    "restarting itself": "run() {{ trap 'run & exit' TERM; sleep {n} & wait; }}; run & run",
}


class TestTimeOut:
    """S4: at the deadline everything ends."""

    @pytest.mark.parametrize("form", FORMS)
    def test_nothing_is_left(self, sandbox: ChannelSandbox, form: str) -> None:
        sandbox.run("true")  # it has been started
        late = []
        for _ in range(3):  # one of three may find the machine busy with something else
            number = mark()
            begun = time.monotonic()
            result = sandbox.run("echo printed; " + FORMS[form].format(n=number), timeout=0.6)
            late.append(time.monotonic() - begun - 0.6)
            assert (result.exit_code, result.timed_out) == (124, True)
            lines = result.output.splitlines()
            assert lines[0] == "printed"
            assert lines[-1].startswith("[timed out after 0.6 s")
            assert not alive(sandbox, number)
            if in_time(late, GONE):
                break
        assert in_time(late, GONE), late
        assert max(late) < 4 * GONE

    @pytest.mark.parametrize("how", ["time-out", "cancelled"])
    async def test_all_that_end_at_once(self, sandbox: ChannelSandbox, how: str) -> None:
        """Their trees are ended together, and no other's with them."""
        numbers = [mark() for _ in FORMS]
        seconds = 1.0 if how == "time-out" else 60.0
        other = asyncio.create_task(sandbox.arun("sleep 3; echo whole"))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        ending = [
            asyncio.create_task(sandbox.arun(form.format(n=number), timeout=seconds))
            for form, number in zip(FORMS.values(), numbers, strict=True)
        ]
        if how == "cancelled":
            await asyncio.sleep(1)
            for each in ending:
                each.cancel()
            await asyncio.sleep(4 * GONE)
        else:
            assert {result.exit_code for result in await asyncio.gather(*ending)} == {124}
            assert time.monotonic() - begun < 1 + 4 * GONE
        for number in numbers:
            assert not await asyncio.to_thread(alive, sandbox, number)
        assert (await other).output == "whole\n"

    def test_what_was_printed_is_kept_and_the_last_line_is_its_own(self, sandbox: ChannelSandbox) -> None:
        result = sandbox.run("printf 'no line end'; sleep 30", timeout=0.3)
        assert result.output.splitlines()[0] == "no line end"
        assert len(result.output.splitlines()) == 2

    def test_a_time_out_without_output_is_one_line(self, sandbox: ChannelSandbox) -> None:
        assert len(sandbox.run("sleep 30", timeout=0.2).output.splitlines()) == 1

    def test_others_go_on(self, sandbox: ChannelSandbox) -> None:
        with ThreadPoolExecutor() as pool:
            other = pool.submit(sandbox.run, "sleep 1.5; echo whole")
            assert sandbox.run("sleep 30", timeout=0.3).timed_out
            assert other.result().output == "whole\n"

    @pytest.mark.parametrize("seconds", [0, -1, 3600.1, float("inf"), float("nan")])
    def test_only_a_time_within_the_bounds_is_taken(self, sandbox: ChannelSandbox, seconds: float) -> None:
        with pytest.raises(ValueError, match="timeout"):
            sandbox.run("true", timeout=seconds)

    def test_the_longest_time_is_taken(self, sandbox: ChannelSandbox) -> None:
        assert sandbox.run("echo on", timeout=3600).output == "on\n"

    def test_the_default_is_the_limits(self, tmp_path: Path) -> None:
        with make_sandbox("local", tmp_path, SandboxLimits(timeout=0.3)) as sandbox:
            assert sandbox.run("sleep 30").exit_code == 124

    @pytest.mark.parametrize("form", FORMS)
    async def test_cancelling_does_the_same(self, sandbox: ChannelSandbox, form: str) -> None:
        number = mark()
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(
            sandbox.arun(
                "echo printed; " + FORMS[form].format(n=number),
                timeout=60,
                on_output=lambda _: loop.call_soon_threadsafe(begun.set),
            )
        )
        await asyncio.wait_for(begun.wait(), 20)
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(GONE)
        assert not await asyncio.to_thread(alive, sandbox, number)

    async def test_what_was_ended_before_its_shell_had_read_it_is_not_run_later(
        self, sandbox: ChannelSandbox
    ) -> None:
        """A shell reads its command byte by byte: of a long one something is left in the pipe."""
        for delay in range(10):
            command = "#" * 30_000 + f"\nsleep {2 * GONE}; echo ran >> stale"
            stale = asyncio.create_task(sandbox.arun(command))
            await asyncio.sleep(delay / 1000)
            stale.cancel()
            await asyncio.sleep(0.01)
            told = await asyncio.gather(*(sandbox.arun(f"echo {index}") for index in range(4)))
            assert [result.output for result in told] == [f"{index}\n" for index in range(4)]
        await asyncio.sleep(3 * GONE)
        assert (await sandbox.arun("cat stale")).exit_code == 1

    @pytest.mark.docker
    def test_a_fork_bomb_ends_within_a_second(self, tmp_path: Path) -> None:
        with make_sandbox("docker", tmp_path) as sandbox:
            late = []
            for _ in range(3):
                begun = time.monotonic()
                result = sandbox.run("bomb() { bomb | bomb & bomb; }; bomb", timeout=1)
                late.append(time.monotonic() - begun - 1)
                assert result.exit_code == 124
                # What is left: the first process, workers and waiting shells, and the listing itself.
                eventually(lambda: int(sandbox.run("ps -e --no-headers | wc -l").output) < 20, 1)
                if in_time(late, 1):
                    break
            assert in_time(late, 1), late
            assert max(late) < 4
