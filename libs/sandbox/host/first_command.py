"""Checks a new sandbox by a first command, for container runtimes that may not run it."""

from __future__ import annotations

import concurrent.futures

from libs.sandbox.errors import SandboxDied, SandboxError
from libs.sandbox.host.channel import Channel
from libs.sandbox.host.requests import run_request, run_result
from libs.sandbox.limits import SandboxLimits

__all__ = ["first_command_problem"]


def first_command_problem(channel: Channel, limits: SandboxLimits, seconds: float) -> str:
    """Wait until the sandbox is ready, and run a first command. Return what went wrong; empty if it worked.

    Blocks.

    Args:
        seconds: time-out of the start, and of the command.

    Raises:
        SandboxDied: the sandbox ended before it was ready.
    """
    _, payload = run_request(limits, "true", seconds, merge_stderr=True, env={}, live=False, spills=True)
    try:
        channel.came_up.result(seconds)
        call = channel.request(payload)
        result = run_result(limits, call, call.future.result(seconds), seconds)
    except concurrent.futures.TimeoutError:
        return f"there was no answer for {seconds:g} s"
    except SandboxError as error:
        if isinstance(error, SandboxDied) and not channel.ready:
            raise
        return str(error).rstrip(".")
    return f"`true` ended with exit code {result.exit_code}" if result.exit_code else ""
