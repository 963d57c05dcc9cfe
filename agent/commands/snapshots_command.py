"""`code-agent snapshots`: shows what the snapshots of threads take, and removes the oldest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agent.commands.command_output import AsJson, end, read_settings, say, say_json, table

if TYPE_CHECKING:
    from agent.settings import Settings
    from agent.threads.snapshot_store import SnapshotStore

__all__ = ["snapshots_app"]

snapshots_app = typer.Typer(
    no_args_is_help=True, help="Show or remove snapshots, to which the files of a thread can go back."
)

Given = TypeVar("Given")

_MOST_NOT_KEPT = 20
"""Paths that the list names."""


@snapshots_app.command("ls")
def list_snapshots(as_json: AsJson = False) -> None:
    """List the snapshots of each thread, and the size of all of them.

    Besides, list the paths that the newest snapshots leave out, such as a file over SNAPSHOT_FILE_MAX.
    Threads that have the same files share the contents, so the sizes of the threads add up to more.
    """
    from libs.sandbox import in_one_line
    from libs.workspace.ledger import made_at
    from libs.workspace.prune import thread_uses

    async def read(kept: SnapshotStore) -> tuple[list[dict[str, Any]], int]:
        rows = [
            {
                "thread": use.thread,
                "turns": use.turns,
                "newest": made_at(use.newest).isoformat(timespec="seconds"),
                "bytes": use.size,
                "not_kept": dict(use.not_kept),
            }
            for use in await thread_uses(kept.database)
        ]
        return rows, await kept.pruner.size()

    settings = read_settings()
    rows, size = _with_snapshots(settings, read) or ([], 0)
    if as_json:
        limit = settings.snapshots_max
        say_json({"threads": rows, "bytes": size, "max_bytes": limit, "place": settings.snapshots_url})
        return
    table(
        ("thread", "turns kept", "newest", "size"),
        [(row["thread"], str(row["turns"]), row["newest"], _shown(row["bytes"])) for row in rows],
    )
    missing = {f"{in_one_line(path)}: {why}": None for row in rows for path, why in row["not_kept"].items()}
    for line in islice(missing, _MOST_NOT_KEPT):
        say(f"Not kept: {line}")
    if len(missing) > _MOST_NOT_KEPT:
        say(f"and {len(missing) - _MOST_NOT_KEPT} more: --json lists them by thread")
    say(f"{_shown(size)} of at most {_shown(settings.snapshots_max)} in {settings.snapshots_url}")


@snapshots_app.command("prune")
def prune_snapshots(as_json: AsJson = False) -> None:
    """Remove the oldest snapshots until all of them fit into SNAPSHOTS_MAX, and contents that nothing needs.

    The latest state of each thread, what can be undone, and snapshots of the last hour stay.
    """
    settings = read_settings()
    pruned = _with_snapshots(settings, lambda kept: kept.pruner.prune(settings.snapshots_max))
    captures, freed, size = (pruned.captures, pruned.freed, pruned.size) if pruned else (0, 0, 0)
    if as_json:
        limit = settings.snapshots_max
        say_json({"removed": captures, "freed_bytes": freed, "bytes": size, "max_bytes": limit})
        return
    typer.echo(f"Removed {captures} snapshots and {_shown(freed)}. {_shown(size)} are left.")
    if size > settings.snapshots_max:
        typer.echo(
            "That is more than SNAPSHOTS_MAX: the rest is needed, or younger than an hour. "
            "Raise SNAPSHOTS_MAX, delete threads, or repeat this later."
        )


@snapshots_app.command("forget")
def forget_snapshots(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Forget all snapshots, where their place is gone for good. No thread can go back to them then.

    The files in the workspaces stay as they are.
    """
    if not yes:
        typer.confirm("Forget all snapshots of all threads?", abort=True)

    async def work(kept: SnapshotStore) -> bool:
        await kept.pruner.forget_all()
        return True

    _with_snapshots(read_settings(), work)
    typer.echo("All snapshots are forgotten. The next step of each thread makes a new one.")


def _with_snapshots(settings: Settings, work: Callable[[SnapshotStore], Awaitable[Given]]) -> Given | None:
    """Run work on the store; return None if nothing was ever kept."""
    from agent.run import complaint
    from agent.threads.snapshot_store import kept_snapshots

    async def run() -> Given | None:
        async with kept_snapshots(settings) as kept:
            return await work(kept) if kept else None

    try:
        return asyncio.run(run())
    except Exception as error:
        if (told := complaint(error)) is None:
            raise
        end(told[0], status=told[1])


def _shown(size: float) -> str:
    """Return a size with a unit of 1024, as settings take it, such as `4.2 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
