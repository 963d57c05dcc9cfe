"""`code-agent approvals`: lists rules, approvals for the rest of a thread and decisions."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from agent.commands.command_output import AsJson, end, read_settings, say, say_json

__all__ = ["approvals_app"]

approvals_app = typer.Typer(
    no_args_is_help=True,
    help="List rules and approvals, revoke approvals that apply to the rest of a thread, and remove rules.",
)

Thread = Annotated[
    str,
    typer.Argument(
        help="ID of the thread: `run` prints it, `/threads` in `chat` lists the latest.",
        metavar="THREAD",
    ),
]


@approvals_app.command("list")
def list_approvals(
    thread: Annotated[
        str | None,
        typer.Argument(help="ID of a thread. Without, the rules are listed.", metavar="[THREAD]"),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the rules and their file, or the approvals that hold in a thread, with the number for `revoke`."""
    from agent.terminal import grant_lines

    if thread is None:
        _list_rules(as_json=as_json)
        return
    grants = _grants(thread)
    if as_json:
        typer.echo(json.dumps([{"number": number, **grant} for number, grant in enumerate(grants, 1)]))
    else:
        typer.echo("\n".join(grant_lines(grants)))


def _list_rules(*, as_json: bool) -> None:
    from agent.parts import checked_rules
    from agent.settings import SettingsError
    from agent.terminal import rule_lines

    try:
        rules = checked_rules(read_settings()).rules()
    except SettingsError as error:
        end(str(error), status=2)
    if as_json:
        shown = [
            {"number": rule.number, "file": str(rules.path), **rule.model_dump(exclude_none=True)}
            for rule in rules.all
        ]
        say_json(shown)
    else:
        say("\n".join(rule_lines(rules)))


@approvals_app.command("log")
def log(thread: Thread, *, as_json: AsJson = False) -> None:
    """List the decisions on the calls of a thread, and the rule, approval or person that made each."""
    from agent.parts import decision_log
    from agent.terminal import decision_lines

    records = decision_log().of_thread(thread)
    if as_json:
        say_json(records)
    else:
        say("\n".join(decision_lines(records)))


@approvals_app.command("revoke")
def revoke_approvals(
    thread: Annotated[str | None, typer.Argument(help="ID of the thread.", metavar="[THREAD]")] = None,
    number: Annotated[int | None, typer.Argument(help="Number of the approval in the list.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Revoke all approvals.")] = False,
    rule: Annotated[
        int | None, typer.Option(help="Number of a rule in the list: remove it from the rules file.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the rule without asking.")] = False,
) -> None:
    """Revoke approvals of a thread, or remove a rule. Pending calls stay pending."""
    if rule is not None:
        if thread is not None:
            end("Give a THREAD or --rule N: rules hold in every thread.", status=2)
        _remove_rule(rule, yes=yes)
        return
    if thread is None or (number is None) != every:
        end(
            "Give a THREAD, and the NUMBER of one approval, as `code-agent approvals list THREAD` shows it, "
            "or --all. Or give --rule N.",
            status=2,
        )
    left = _grants(thread, "all" if number is None else str(number))
    typer.echo(f"Revoked. Approvals that still hold: {len(left)}.")


def _remove_rule(number: int, *, yes: bool) -> None:
    from agent.parts import RuleBook
    from agent.settings import SettingsError
    from agent.terminal import harmless
    from libs.middleware.approvals import RulesError

    try:
        rules = RuleBook(read_settings())
        text = rules.text(number)
        say(harmless(f"{rules.path}, rule {number}:\n{text}"))
        if not yes and not sys.stdin.isatty():
            end("Nothing was changed: add --yes where nobody can be asked.", status=2)
        if not (yes or typer.confirm("Remove this rule?", default=False)):
            say("Nothing was changed.")
            return
        rules.remove(number, text)
    except (RulesError, SettingsError) as error:
        end(str(error), status=2)
    say("Removed.")


def _grants(thread: str, revoked: str = "") -> list[dict[str, Any]]:
    """Return the grants of a thread; see `agent.terminal.grants_of`."""
    from agent.run import complaint
    from agent.settings import LOCKS, THREADS
    from agent.terminal import NoSuchGrant, grants_of
    from agent.threads import open_threads, place
    from libs.persistence import thread_lock

    async def read() -> list[dict[str, Any]] | None:
        async with open_threads(settings) as threads:
            return await grants_of(threads, thread, revoked=revoked)

    settings = read_settings()
    try:
        grants = None
        if settings.postgres_url or THREADS.exists():
            with thread_lock(LOCKS, thread) if revoked else nullcontext():
                grants = asyncio.run(read())
    except NoSuchGrant as error:
        end(str(error), status=2)
    except Exception as error:
        if (told := complaint(error)) is None:
            raise
        end(told[0], status=told[1])
    if grants is None:
        end(f"There is no thread {thread!r} in {place(settings)}.", status=2)
    return grants
