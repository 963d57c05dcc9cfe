"""`code-agent fork`: copies a thread as it was at the end of a turn, conversation and files together."""

from __future__ import annotations

import asyncio
import secrets
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
        copy, note = asyncio.run(_fork(thread, at))
    except WrongPoint as error:
        end(str(error), status=2)
    except Exception as error:
        if (told := complaint(error)) is None:
            raise
        end(told[0], status=told[1])
    if as_json:
        say_json({"thread_id": copy, "note": note})
    else:
        if note:
            say(f"Note: {note}.", err=True)
        say(copy)


async def _fork(thread: str, at: int | None) -> tuple[str, str | None]:
    """Return the id of the copy, and what it lacks or has from another point."""
    from agent.run import open_runtime
    from agent.threads import held

    copy = secrets.token_hex(4)
    async with open_runtime(asks_model=False) as runtime, held(thread):
        moved = await runtime.fork(thread, at, copy=copy)
    return copy, moved.copy_note
