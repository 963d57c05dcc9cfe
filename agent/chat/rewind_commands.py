"""The slash commands that go back in a thread, or copy it."""

from __future__ import annotations

import secrets

from agent.chat.chat_session import Chat
from agent.run import WrongPoint
from agent.terminal import moved_lines, point_rows
from agent.threads import held

__all__ = ["fork", "rewind"]

_USAGE = "Say /rewind, /rewind NUMBER, /rewind NUMBER dry, or /rewind undo. /rewind alone lists the turns."


async def rewind(chat: Chat, words: str) -> None:
    """List the turns, or go back to the end of one."""
    what, _, how = words.partition(" ")
    how = how.strip()
    if how not in ("", "dry") or not (what in ("", "undo") or what.isdecimal()) or (how and not what):
        chat.complain(_USAGE, 2)
        return
    dry = how == "dry"
    try:
        points = await chat.runtime.points(chat.thread_id)
        if not what:
            for row in point_rows(await points.points()):
                chat.view.say("  ".join(row), whole=True)
            return
        async with held(chat.thread_id):
            if what == "undo":
                moved = await points.undo(dry_run=dry)
            else:
                moved = await points.go_to(int(what), dry_run=dry)
    except WrongPoint as error:
        chat.complain(str(error), 2)
        return
    for line in moved_lines(moved, "would be" if dry else "was"):
        chat.view.say(line, whole=True)
    if dry:
        chat.view.say("Nothing was changed.")
    else:
        chat.view.say("Undone." if what == "undo" else "Done. Until the next message, /rewind undo returns.")
        await chat.go_to(chat.thread_id)


async def fork(chat: Chat, number: str) -> None:
    """Copy the thread, and change to the copy."""
    if number and not number.isdecimal():
        chat.complain("Say /fork, or /fork NUMBER with the number of a turn: /rewind lists them.", 2)
        return
    copy = secrets.token_hex(4)
    try:
        async with held(chat.thread_id):
            moved = await chat.runtime.fork(chat.thread_id, int(number) if number else None, copy=copy)
    except WrongPoint as error:
        chat.complain(str(error), 2)
        return
    if moved.copy_note:
        chat.view.say(f"Note: {moved.copy_note}.", whole=True)
    await chat.go_to(copy)
