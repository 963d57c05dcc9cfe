"""Break something at random moments under load, and check results and disk after each break.

BREAK_SEED replays a run; a failure prints its seed. BREAK_TIMES=n breaks n times as often.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from random import Random

from langchain_core.runnables import RunnableConfig, RunnableLambda

from libs.backends.docker import DockerExecutionBackend, SandboxLimits
from libs.sandbox import SandboxError
from libs.sandbox.host.channel_sandbox import ChannelSandbox
from tests.load.crowd import Crowd, Place

SEED = os.environ.get("BREAK_SEED") or os.urandom(4).hex()
TIMES = int(os.environ.get("BREAK_TIMES", "1"))
IMAGE = os.environ.get("SANDBOX_IMAGE", "code-execution-agent")
LIMITS = SandboxLimits(memory=256 * 2**20, tmp=32 * 2**20)


def of_thread(backend: DockerExecutionBackend, thread: str) -> ChannelSandbox:
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    node: RunnableLambda[None, ChannelSandbox] = RunnableLambda(lambda _: backend.sandbox)
    return node.invoke(None, config)


def under_load(
    crowd: Crowd, random: Random, times: int, break_it: Callable[[], object], places: Mapping[str, Place]
) -> None:
    """Call `break_it` at `times` random moments, and check everything after each."""
    print(f"BREAK_SEED={SEED}")
    for number in range(times):
        crowd.go()
        time.sleep(random.uniform(0.0, 0.3))
        break_it()
        time.sleep(random.uniform(0.0, 0.1))
        crowd.pause()
        for name, place in places.items():
            answer = place.sandbox.run("echo on", timeout=30)
            assert (answer.output, answer.exit_code) == ("on\n", 0), f"{name} after break {number}: {answer}"
        crowd.check()
    print(f"{times} breaks, {crowd.done} calls, {crowd.refused} ended with a typed error; ", end="")
    print(f"the longest took {crowd.longest:.1f} s")
    assert crowd.done > times
    assert crowd.half_files(breaks=times) == []


def attempt(place: Place, command: str) -> None:
    """Run a command that may kill the sandbox."""
    with contextlib.suppress(SandboxError):
        place.sandbox.run(command, timeout=5)
