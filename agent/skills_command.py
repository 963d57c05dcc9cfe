"""`code-agent skills forget`: takes back a skill that an agent proposed and a person approved."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["forget"]


def forget(name: Annotated[str, typer.Argument(help="As `code-agent skills list` has it.")]) -> None:
    """Remove a skill that an agent proposed and you approved. You are asked again once it is changed."""
    from agent.config import LEARNED
    from libs.middleware.skill_overlay import SkillOverlay

    try:
        there = LEARNED.is_dir() and SkillOverlay(LEARNED.absolute()).forget(name)
    except OSError as error:
        typer.echo(f"{name} cannot be removed: {error}", err=True)
        raise typer.Exit(1) from None
    if not there:
        typer.echo(f"No skill of this name was approved here: {name}", err=True)
        raise typer.Exit(2)
    typer.echo(f"Removed: {name}")
