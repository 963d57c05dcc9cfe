"""`code-agent fork`: copies a thread as it was at the end of a turn, conversation and files together."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from agent.commands.approvals_command import Thread
from agent.commands.command_output import AsJson, end, say, say_json

__all__ = ["fork"]


def fork(
    thread: Thread,
    at: Annotated[
        int | None,
        typer.Option(help="Number of a turn, as `rewind` lists them; 0: before the first. Default: now."),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Copy a thread with its files, and print the copy's ID. Needs SANDBOX_SCOPE=thread."""
    from agent.run import WrongPoint, complaint

    try:
        copy = asyncio.run(_fork(thread, at))
    except WrongPoint as error:
        end(str(error), status=2)
    except Exception as error:
        if (told := complaint(error)) is None:
            raise
        end(told[0], status=told[1])
    if as_json:
        say_json({"thread_id": copy})
    else:
        say(copy)


async def _fork(thread: str, at: int | None) -> str:
    from agent.run import open_runtime
    from agent.threads import held

    async with open_runtime() as runtime, held(thread):
        return await runtime.fork(thread, at)
