"""Prints the output of commands without secrets, and ends commands with an exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from agent.settings import Settings

__all__ = ["AsJson", "end", "read_settings", "say", "say_json", "table"]

_STYLES = {"MISSING": "bold red", "WARNING": "bold yellow"}
"""Whole text of a cell -> its style."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def read_settings() -> Settings:
    """Read the settings; wrong settings end the command with status 2."""
    from agent.settings import SettingsError, checked_settings

    try:
        return checked_settings()
    except SettingsError as error:
        end(str(error), status=2)


def end(message: str, *, status: int = 1) -> NoReturn:
    """Print a message to standard error and end the command."""
    say(message, err=True)
    raise typer.Exit(status)


def say(text: str, *, err: bool = False) -> None:
    """Print text that may hold a secret, because it comes from settings, files or the machine."""
    from agent.secrets import KNOWN

    typer.echo(KNOWN(text), err=err)


def say_json(value: Any) -> None:
    """Print a value as JSON, without secrets."""
    from agent.secrets import KNOWN

    typer.echo(json.dumps(KNOWN.values(value)))


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table at a terminal; in a pipe, a tab-separated line for each row."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from agent.secrets import KNOWN

    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        for row in rows:
            say("\t".join(cell.replace("\n", " ") for cell in row))
        return
    shown = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*(Text(KNOWN(cell), _STYLES.get(cell, "")) for cell in row))
    console.print(shown)
