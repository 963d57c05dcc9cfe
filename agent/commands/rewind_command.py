"""`code-agent rewind`: brings a thread back to the end of a turn, conversation and files together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.commands.approvals_command import Thread
from agent.commands.command_output import AsJson, end, say, say_json, table

if TYPE_CHECKING:
    from agent.run import Point
    from libs.workspace.history import Moved

__all__ = ["rewind"]


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
    from libs.persistence import ThreadInUse

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
    except ThreadInUse:
        end(
            f"Nothing was changed: a run is at work in thread {thread!r}. Stop the run first: press "
            "Ctrl-C in its terminal, or the stop button in the page.",
            status=2,
        )
    except Exception as error:
        if isinstance(error, typer.Exit) or (told := complaint(error)) is None:
            raise
        end(told[0], status=told[1])


async def _rewind(
    thread: str, to: int | None, *, undo: bool, dry_run: bool, files_only: bool, yes: bool, as_json: bool
) -> None:
    from agent.run import open_runtime
    from agent.threads import held
    from libs.sandbox import in_one_line

    async with open_runtime(asks_model=False) as runtime:
        points = await runtime.points(thread)
        if to is None and not undo:
            _list(await points.points(), as_json=as_json)
            return
        async with held(thread):

            async def move(*, dry_run: bool) -> Moved:
                if to is None:
                    return await points.undo(dry_run=dry_run)
                return await points.go_to(to, dry_run=dry_run, files_only=files_only)

            expected: dict[str, str] | None = None
            if not (dry_run or yes):
                if as_json:
                    end("Nothing was changed: add --yes, because --json asks nobody.", status=2)
                preview = await move(dry_run=True)
                _tell(preview, "will be")
                expected = dict(preview.restored.kept)
                if not _agreed():
                    say("Nothing was changed.")
                    return
            moved = await move(dry_run=dry_run)
            if expected is not None:
                for path in moved.restored.kept.keys() - expected:  # changed since the person was asked
                    say(f"{in_one_line(path)}  was kept: {moved.restored.kept[path]}")
    if as_json:
        say_json(_as_json(moved, dry_run=dry_run))
    elif dry_run:
        _tell(moved, "would be")
        say("Nothing was changed.")
    elif yes:
        _tell(moved, "was")
    if not as_json and not dry_run:
        say(
            "Undone."
            if undo
            else f"Done. Until the next turn, `code-agent rewind {thread} --undo` takes this back."
        )


def _agreed() -> bool:
    if not sys.stdin.isatty():
        end("Nothing was changed: add --yes where nobody can be asked.", status=2)
    return typer.confirm("Go back?", default=False)


def _list(points: Sequence[Point], *, as_json: bool) -> None:
    if as_json:
        say_json({"turns": [_turn(point) for point in points]})
    elif points:
        from agent.terminal import point_rows

        table(("turn", "ended", "you asked", "files"), point_rows(points))
    else:
        say("The thread has no turns yet.")


def _turn(point: Point) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    if point.changed is not None:
        created, changed_paths, deleted = map(list, point.changed.difference.parts)
        not_kept = dict(point.changed.not_kept)
        changed = {"created": created, "changed": changed_paths, "deleted": deleted, "not_kept": not_kept}
    return {"number": point.number, "at": point.at, "words": point.words, "files": changed}


def _tell(moved: Moved, verb: str) -> None:
    from agent.terminal import moved_lines

    for line in moved_lines(moved, verb):
        say(line)


def _as_json(moved: Moved, *, dry_run: bool) -> dict[str, Any]:
    difference = moved.restored.difference
    return {
        "dry_run": dry_run,
        "created": list(difference.created),
        "changed": list(difference.changed),
        "deleted": list(difference.deleted),
        "kept": dict(moved.restored.kept),
        "unlisted": list(moved.restored.unlisted),
        "note": moved.instead,
    }
