"""`code-agent token`: makes tokens for users of the server."""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated

import typer

from agent.commands.command_output import AsJson, end

__all__ = ["token_app"]

token_app = typer.Typer(no_args_is_help=True, help="Create tokens for the server (AUTH_TOKENS).")


@token_app.callback()
def tokens() -> None:
    """Makes `new` a subcommand although it is the only one."""


@token_app.command("new")
def token_new(
    owner: Annotated[str, typer.Argument(help="Owner of the token: up to 64 letters, digits, _ or -.")],
    *,
    expires: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Last valid day of the token, in UTC, such as 2030-12-31."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token for OWNER and print its AUTH_TOKENS entry. Saves nothing."""
    from agent.settings import new_token

    try:
        last = date.fromisoformat(expires) if expires else None
    except ValueError:
        raise typer.BadParameter("must be written as 2030-12-31", param_hint="--expires") from None
    try:
        token, entry = new_token(owner, last)
    except ValueError as error:
        end(f"No token was made: {error}.", status=2)
    if as_json:
        typer.echo(json.dumps({"owner": owner, "token": token, "entry": str(entry)}))
        return
    typer.echo(
        f"Token for {owner}, shown this once; sent as `Authorization: Bearer …`:\n{token}\n"
        f"Add to AUTH_TOKENS (comma-separated) and start the server again:\n{entry}"
    )
