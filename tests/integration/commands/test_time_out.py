"""A time-out or a cancellation ends all processes of a command, in every kind of sandbox."""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from libs.sandbox import SandboxLimits
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from tests.support.sandboxes import DOCKER, GONE, ON_BOTH, alive, in_time, machine_delay, make_sandbox, mark
from tests.support.waiting import eventually

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
    """At the deadline, all processes end."""

    @pytest.mark.parametrize(
        "sandbox",
        [pytest.param("local", marks=pytest.mark.thorough), DOCKER],
        indirect=True,
        scope="module",
    )
    @pytest.mark.parametrize("form", FORMS)
    def test_time_out_leaves_no_process(self, sandbox: ChannelSandbox, form: str) -> None:
        sandbox.run("true")  # the sandbox is started
        delay = machine_delay(sandbox, 0.4)
        late, printed = [], []
        for _ in range(3):  # one of three may be late on a busy machine
            number = mark()
            begun = time.monotonic()
            result = sandbox.run("echo printed; " + FORMS[form].format(n=number), timeout=0.4)
            late.append(time.monotonic() - begun - 0.4 - delay)
            assert (result.exit_code, result.timed_out) == (124, True)
            lines = result.output.splitlines()
            printed.append(lines[0] == "printed")
            assert lines[-1].startswith("[timed out after 0.4 s")
            assert not alive(sandbox, number)
            if in_time(late, GONE) and sum(printed) >= 2:
                break
        assert sum(printed) >= 2
        assert in_time(late, GONE), late
        assert max(late) < 4 * GONE

    @pytest.mark.parametrize("how", ["time-out", pytest.param("cancelled", marks=pytest.mark.thorough)])
    async def test_many_commands_end_at_the_same_time(self, sandbox: ChannelSandbox, how: str) -> None:
        """Their process trees are ended together. Other commands continue."""
        numbers = [mark() for _ in FORMS]
        seconds = 1.0 if how == "time-out" else 60.0
        begun = time.monotonic()
        await asyncio.gather(*(sandbox.arun("sleep 1") for _ in FORMS))
        floor = time.monotonic() - begun  # with the start of as many workers
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
            assert time.monotonic() - begun < floor + 4 * GONE
        for number in numbers:
            assert not await asyncio.to_thread(alive, sandbox, number)
        assert (await other).output == "whole\n"

    def test_time_out_is_within_bounds(self, sandbox: ChannelSandbox, tmp_path: Path) -> None:
        for seconds in (0, -1, 3600.1, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="timeout"):
                sandbox.run("true", timeout=seconds)
        assert sandbox.run("echo on", timeout=3600).output == "on\n"
        with make_sandbox("local", tmp_path, SandboxLimits(timeout=0.3)) as limited:
            assert limited.run("sleep 30").exit_code == 124

    @ON_BOTH
    async def test_cancelling_leaves_no_process(self, sandbox: ChannelSandbox) -> None:
        """`test_many_commands_end_at_the_same_time` cancels every form."""
        number = mark()
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(
            sandbox.arun(
                "echo printed; " + FORMS["double fork"].format(n=number),
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

    async def test_cancelled_unread_command_never_runs(self, sandbox: ChannelSandbox) -> None:
        """A shell reads its command byte by byte, so a part of a long command stays in the pipe."""
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
    def test_fork_bomb_ends_within_a_second(
        self, sandbox_with: Callable[[SandboxLimits], ChannelSandbox]
    ) -> None:
        with sandbox_with(SandboxLimits()) as sandbox:
            sandbox.run("true")  # the sandbox is started
            delay = machine_delay(sandbox, 1)
            late = []
            for _ in range(3):
                begun = time.monotonic()
                result = sandbox.run("bomb() { bomb | bomb & bomb; }; bomb", timeout=1)
                late.append(time.monotonic() - begun - 1 - delay)
                assert result.exit_code == 124
                # The first process, workers, waiting shells and the listing itself are left.
                eventually(lambda: int(sandbox.run("ps -e --no-headers | wc -l").output) < 20)
                if in_time(late, 1):
                    break
            assert in_time(late, 1), late
            assert max(late) < 4
