"""`code-agent skills`: lists, writes and validates skills, and removes approved skills of agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent.commands.command_output import AsJson, end, read_settings, say, say_json, table

__all__ = ["skills_app"]

skills_app = typer.Typer(no_args_is_help=True, help="The skills that the agent can use.")


@skills_app.command("list")
def list_skills(as_json: AsJson = False) -> None:
    """List the skills as the prompt shows them."""
    from libs.middleware.skills import SkillFolders

    settings = read_settings()
    skills = SkillFolders(settings.skill_folders, trusted=settings.skills_trusted).scan()
    if as_json:
        keys = ("name", "description", "path", "problem", "outside")
        say_json([{key: getattr(skill, key) for key in keys} for skill in skills])
    else:
        table(
            ("skill", "what it is for", "path"),
            [(s.name, f"UNUSABLE: {s.problem}" if s.problem else s.description, s.path) for s in skills],
        )


@skills_app.command("new")
def new_skill(
    name: Annotated[
        str, typer.Argument(help="Lower-case letters, digits and hyphens (with --library: underscores).")
    ],
    description: Annotated[
        str,
        typer.Option(
            help="What the skill does and when to use it. At first, agents see only this text. A skill "
            "without a description is not offered to agents."
        ),
    ] = "",
    library: Annotated[
        bool, typer.Option("--library", help="Create NAME.py, which programs import as skills.NAME.")
    ] = False,
) -> None:
    """Create a skill in skills/: a folder with SKILL.md and a script, or with --library one Python file."""
    from agent.settings import ROOT
    from libs.middleware.skills import write_library, write_skill

    try:
        path = (write_library if library else write_skill)(ROOT / "skills", name, description)
    except ValueError as error:
        end(str(error), status=2)
    typer.echo(f"Written: {path}")
    if not description.strip():
        typer.echo("Agents cannot see this skill yet. Write a description: what it does and when to use it.")


@skills_app.command("validate")
def validate(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A skill, a folder of skills, or the name of a skill in skills/. Default: all configured "
            "folders."
        ),
    ] = None,
) -> None:
    """Check skills against every rule of the format. Exit status 1 if one is broken."""
    from agent.settings import ROOT
    from libs.middleware.skills import validate_skills

    def found(given: Path) -> Path:
        own = [ROOT / "skills" / given.name, ROOT / "skills" / f"{given.name}.py"]
        named = not given.exists() and given == Path(given.name)
        return next((path for path in own if named and path.exists()), given)

    chosen = [found(each) for each in folders or ()] or [
        path for path in read_settings().skill_folders.values() if path.exists()
    ]
    problems = [problem for folder in chosen for problem in validate_skills(folder)]
    for problem in problems:
        say(str(problem))
    if problems:
        raise typer.Exit(1)
    typer.echo(f"Valid: {', '.join(str(folder) for folder in chosen)}")


@skills_app.command()
def forget(
    name: Annotated[str, typer.Argument(help="Name of the skill, as `code-agent skills list` prints it.")],
) -> None:
    """Remove an approved skill that an agent proposed.

    If the agent changes the skill, you are asked again.
    """
    from agent.settings import LEARNED
    from libs.middleware.skills import SkillOverlay

    try:
        there = LEARNED.is_dir() and SkillOverlay(LEARNED.absolute()).forget(name)
    except OSError as error:
        end(f"{name} cannot be removed: {error}")
    if not there:
        end(f"No skill of this name was approved here: {name}", status=2)
    typer.echo(f"Removed: {name}")
