"""`code-agent files`: shows the files of a thread, and copies them to a folder of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.commands.approvals_command import Thread
from agent.commands.command_output import AsJson, end, say, say_json, table

if TYPE_CHECKING:
    from libs.workspace import Manifest

__all__ = ["files"]


def files(
    thread: Thread,
    at: Annotated[
        int | None,
        typer.Option(
            help="Number of a turn, as `rewind` lists them; 0: before the first. Default: the last."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Copy the files to this folder, which must be new or empty.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the files of a thread as they were at the end of a turn, or copy them to this machine.

    The files come from the snapshot of the turn, so no sandbox has to run.
    """
    from agent.run import WrongPoint, complaint
    from agent.threads import NotEmpty
    from libs.sandbox import in_one_line

    try:
        manifest, left = asyncio.run(_files(thread, at, to))
    except (NotEmpty, WrongPoint) as error:
        end(str(error), status=2)
    except Exception as error:
        if (told := complaint(error)) is None:
            raise
        end(told[0], status=told[1])
    kept = {
        path: each.size
        for path, each in sorted(manifest.entries.items())
        if each.kind == "file" and not manifest.unread(path)
    }
    if as_json:
        say_json({"files": kept, "left_out": left, "folder": str(to) if to else None})
        return
    if to is None:
        table(("file", "bytes"), [(in_one_line(path), str(size)) for path, size in kept.items()])
    for path, why in left.items():
        say(f"Not {'copied' if to else 'kept'}: {in_one_line(path)}: {why}", err=True)
    if to:
        say(f"{len(kept.keys() - left.keys())} files are in {to}")


async def _files(thread: str, at: int | None, to: Path | None) -> tuple[Manifest, dict[str, str]]:
    """Return the files, and those that are not kept, or not copied, each with the reason."""
    from agent.run import open_runtime
    from agent.threads import copy_files

    async with open_runtime(asks_model=False) as runtime:
        points = await runtime.points(thread)
        manifest = await points.manifest(await points.last() if at is None else at)
        if to is None:
            return manifest, dict(manifest.skipped)
        return manifest, await copy_files(manifest, lambda path: points.content(manifest, path), to)
