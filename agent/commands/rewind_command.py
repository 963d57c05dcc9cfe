"""`code-agent rewind`: brings a thread back to the end of a turn, conversation and files together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.commands.approvals_command import Thread
from agent.commands.command_output import AsJson, end, say, say_json, table

if TYPE_CHECKING:
    from agent.run import Point
    from libs.workspace import Moved

__all__ = ["rewind"]

_MOST_WORDS = 60
"""Characters of a message that the list shows."""
_MOST_PATHS = 5
"""Paths of a turn that the list shows."""


def rewind(
    thread: Thread,
    to: Annotated[
        int | None, typer.Option(help="Number of the turn to go back to, as it ended; 0: before the first.")
    ] = None,
    *,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Return to where the thread was. Possible until the next turn begins."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show each path with what would happen; change nothing.")
    ] = False,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="Bring back the files; leave the conversation as it is.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the turns of a thread, or go back to the end of one: conversation and files together.

    The present is kept first. Files that somebody else has changed stay as they are, and are named.
    """
    from agent.run import WrongPoint, complaint

    if undo and (to is not None or files_only):
        end("--undo takes the thread back to where it was: leave --to and --files-only away.", status=2)
    if to is None and not undo and (dry_run or files_only or yes):
        end("Give --to N as well: the number of a turn, as `code-agent rewind THREAD` lists them.", status=2)
    try:
        asyncio.run(
            _rewind(thread, to, undo=undo, dry_run=dry_run, files_only=files_only, yes=yes, as_json=as_json)
        )
    except WrongPoint as error:
        end(str(error), status=2)
    except Exception as error:
        if isinstance(error, typer.Exit) or (told := complaint(error)) is None:
            raise
        end(told[0], status=told[1])


async def _rewind(
    thread: str, to: int | None, *, undo: bool, dry_run: bool, files_only: bool, yes: bool, as_json: bool
) -> None:
    from agent.run import open_runtime
    from agent.threads import held

    async with open_runtime() as runtime:
        points = await runtime.points(thread)
        if to is None and not undo:
            _list(await points.points(), as_json=as_json)
            return
        async with held(thread):

            async def move(*, dry_run: bool) -> Moved:
                if to is None:
                    return await points.undo(dry_run=dry_run)
                return await points.go_to(to, dry_run=dry_run, files_only=files_only)

            if not (dry_run or yes or as_json):
                _tell(await move(dry_run=True), "will be")
                if not _agreed():
                    say("Nothing was changed.")
                    return
            moved = await move(dry_run=dry_run)
    if as_json:
        say_json(_as_json(moved, dry_run=dry_run))
    elif dry_run:
        _tell(moved, "would be")
        say("Nothing was changed.")
    elif yes:
        _tell(moved, "was")
    if not as_json and not dry_run:
        say("Undone." if undo else f"Done. Until the next turn, `code-agent rewind {thread} --undo` returns.")


def _agreed() -> bool:
    if not sys.stdin.isatty():
        end("Nothing was changed: add --yes where nobody can be asked.", status=2)
    return typer.confirm("Go back?", default=False)


def _list(points: Sequence[Point], *, as_json: bool) -> None:
    if as_json:
        say_json({"turns": [_turn(point) for point in points]})
        return
    if not points:
        say("The thread has no turns yet.")
        return
    rows: list[tuple[str, ...]] = [
        (str(point.number), point.at[:16].replace("T", " "), _short(point.words), _files(point))
        for point in points
    ]
    table(("turn", "ended", "you asked", "files"), rows)


def _turn(point: Point) -> dict[str, Any]:
    changed = None
    if point.changed is not None:
        changed = {
            "created": list(point.changed.created),
            "changed": list(point.changed.changed),
            "deleted": list(point.changed.deleted),
        }
    return {"number": point.number, "at": point.at, "words": point.words, "files": changed}


def _files(point: Point) -> str:
    if point.number == 0:
        return "(before the first turn)"
    if point.changed is None:
        return "(not kept)"
    marked = [
        f"{mark}{path}" for mark, paths in zip("+~-", point.changed.parts, strict=True) for path in paths
    ]
    more = len(marked) - _MOST_PATHS
    return " ".join(marked[:_MOST_PATHS]) + (f" and {more} more" if more > 0 else "")


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _MOST_WORDS else line[: _MOST_WORDS - 1] + "…"


def _tell(moved: Moved, verb: str) -> None:
    """Print each path with what happens to it."""
    if moved.instead:
        say(f"Note: {moved.instead}.")
    difference = moved.restored.difference
    lines: Mapping[str, Sequence[str]] = {
        "brought back": difference.created,
        "changed back": difference.changed,
        "deleted": difference.deleted,
    }
    for what, paths in lines.items():
        for path in paths:
            say(f"{path}  {verb} {what}")
    for path, why in moved.restored.kept.items():
        say(f"{path}  {verb} kept: {why}")
    if not difference and not moved.restored.kept:
        say("No file differs.")


def _as_json(moved: Moved, *, dry_run: bool) -> dict[str, Any]:
    difference = moved.restored.difference
    return {
        "dry_run": dry_run,
        "created": list(difference.created),
        "changed": list(difference.changed),
        "deleted": list(difference.deleted),
        "kept": dict(moved.restored.kept),
        "note": moved.instead,
    }
