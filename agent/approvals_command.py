"""`code-agent approvals`: what was approved for the rest of a thread, shown and taken back."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from typing import Annotated, NoReturn

import typer

__all__ = ["approvals_app"]

approvals_app = typer.Typer(
    no_args_is_help=True,
    help="What you have approved for the rest of a thread: nobody is asked about it again.",
)

Thread = Annotated[str, typer.Argument(help="The id of the thread.", metavar="THREAD")]


@approvals_app.command("list")
def list_approvals(
    thread: Thread,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")] = False,
) -> None:
    """List the approvals that hold in a thread, with the number that `revoke` takes."""
    from agent.show import harmless

    grants = _grants(thread)
    if as_json:
        typer.echo(json.dumps([{"number": number, **grant} for number, grant in enumerate(grants, 1)]))
        return
    for number, grant in enumerate(grants, 1):
        if grant["digest"] is None:
            typer.echo(f"{number}. any call of the tool {grant['tool']}")
        else:
            typer.echo(f"{number}. exactly this call:")
            lines = harmless(str(grant["shown"])).splitlines()
            typer.echo("\n".join(f"   {line}".rstrip() for line in lines))
    if not grants:
        typer.echo("Nothing is approved for the rest of this thread.")


@approvals_app.command("revoke")
def revoke_approvals(
    thread: Thread,
    number: Annotated[int | None, typer.Argument(help="Only this one of the list.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Take approvals of a thread back: such calls are asked about again. What waits goes on waiting."""
    if (number is None) != every:
        _end("Give the NUMBER of one approval, as `code-agent approvals list` shows it, or --all.", status=2)
    left = _grants(thread, revoked="all" if number is None else number)
    typer.echo(f"Revoked. Approvals that still hold: {len(left)}.")


def _grants(thread: str, *, revoked: int | str | None = None) -> list[dict[str, str | None]]:
    """The approvals of a thread, without what is to be revoked: a number of the list, or all."""
    from agent.config import SettingsError, load_settings
    from agent.threads import LOCKS, THREADS, open_threads, place
    from libs.middleware.grants import revoke, shown, standing_in
    from libs.persistence.errors import CheckpointerUnavailable
    from libs.persistence.thread_lock import ThreadInUse, thread_lock

    async def read() -> list[dict[str, str | None]]:
        async with open_threads(settings) as checkpointer:
            saved = await checkpointer.aget_tuple({"configurable": {"thread_id": thread}})
            if saved is None:
                _end(missing, status=2)
            grants = standing_in(saved)
            if revoked is not None:
                keys = list(grants)
                if isinstance(revoked, int):
                    if not 0 < revoked <= len(keys):
                        _end(
                            f"Thread {thread!r} has {len(keys)} approvals, and no number {revoked}.", status=2
                        )
                    keys = [keys[revoked - 1]]
                await revoke(checkpointer, saved, keys)
                grants = {key: grant for key, grant in grants.items() if key not in keys}
            return shown(grants)

    try:
        settings = load_settings()
    except SettingsError as error:
        _end(str(error), status=2)
    missing = f"There is no thread {thread!r} in {place(settings)}."
    if not settings.postgres_url and not THREADS.exists():
        _end(missing, status=2)
    try:
        lock = nullcontext() if revoked is None else thread_lock(LOCKS, thread)
        with lock:
            return asyncio.run(read())
    except ThreadInUse as error:
        _end(str(error), status=2)
    except CheckpointerUnavailable as error:
        _end(f"{error} {error.hint}")


def _end(message: str, *, status: int = 1) -> NoReturn:
    from agent.sinks import KNOWN

    typer.echo(KNOWN(message), err=True)
    raise typer.Exit(status)
