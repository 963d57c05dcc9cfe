"""The `code-agent` command. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version as package_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from agent.acp_command import acp
from agent.approvals_command import approvals_app
from agent.model_command import model_app
from agent.skills_command import forget
from agent.token_command import token_app

if TYPE_CHECKING:
    from agent.config import Settings

__all__ = ["app"]

app = typer.Typer(
    name="code-agent",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="An agent that works in a hardened Docker container of its own: it reads skills, runs code after "
    "your approval, and leaves what it makes in the workspace.",
)
skills_app = typer.Typer(no_args_is_help=True, help="The skills that the agent can use.")
sandbox_app = typer.Typer(no_args_is_help=True, help="The containers that the agent works in.")
app.add_typer(skills_app, name="skills")
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(model_app, name="model")
app.add_typer(approvals_app, name="approvals")
app.add_typer(token_app, name="token")
app.command()(acp)
skills_app.command()(forget)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"code-agent {package_version('code-execution-agent')}")
        raise typer.Exit


@app.callback()
def main(
    _version_: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Nothing of its own: see the commands."""
    from agent.sinks import KNOWN, guard_sinks

    guard_sinks(KNOWN)


@app.command()
def run(
    task: Annotated[
        str | None,
        typer.Argument(help="What is to be done. Without it, --thread goes on with what is pending."),
    ] = None,
    *,
    agent: Annotated[
        Literal["deep", "code", "exec", "auto"],
        typer.Option(
            help="deep: plans, calls tools, has subagents. code: writes Python and bash blocks; any model "
            "can. exec: writes one whole program, which runs in a fresh sandbox. auto: the thread's "
            "agent; in a new thread deep where the model can call tools, else code."
        ),
    ] = "auto",
    approve: Annotated[
        Literal["ask", "auto"] | None,
        typer.Option(
            help="ask: you approve each command, block, edit and deletion. auto: nobody is asked; with "
            "--thread and no task, approves what is pending. Default: APPROVALS, else ask."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="provider:model, local, or scripted:FILE. Default: what the settings say."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option(help="Go on in this thread, or begin one of this name.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line; never asks, the last line is the result.")
    ] = False,
) -> None:
    """Carry out a task on the workspace, showing each step.

    Where approval is needed and there is no terminal to ask at, prints what waits and ends with status 3:
    nothing of it was run. Threads are kept in .code-agent/.

    Exit status: 0 completed, 1 error, or the model ran none of the code that the task needs, 2 bad usage or
    settings, 3 approval pending, 4 a budget or the steps are used up, 130 stopped by Ctrl-C.
    """
    from agent.run_command import run_command

    try:
        status = run_command(task, agent=agent, approve=approve, model=model, thread=thread, as_json=as_json)
    except BrokenPipeError:  # whoever read our output has gone; Python's own flush at exit must not fail too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    raise typer.Exit(status)


@app.command()
def chat(
    *,
    agent: Annotated[
        str,
        typer.Option(help="The agent of new threads, one of those that /agent lists, or auto."),
    ] = "auto",
    approve: Annotated[
        Literal["ask", "auto"] | None,
        typer.Option(help="ask: you approve each command, block, edit and deletion. auto: nobody is asked."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="provider:model, local, or scripted:FILE. Default: what the settings say."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option(help="Go on in this thread, or begin one of this name.")
    ] = None,
) -> None:
    """Talk with the agent: its words and the output of commands as they come, approvals at the prompt.

    /help lists the commands. Ctrl-C stops what runs, twice ends the program; Ctrl-D ends it. From a pipe each
    line is a message; where approval is needed it ends with status 3, as nobody can answer.
    """
    from agent.chat.command import chat_command

    try:
        status = chat_command(agent=agent, approve=approve, model=model, thread=thread)
    except BrokenPipeError:  # as in `run`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    raise typer.Exit(status)


@app.command()
def setup() -> None:
    """Make this machine ready: a Docker Engine (Debian, as root, unless SETUP_ENGINE=0) and the image."""
    from agent.engine_setup import build_image, ensure_engine
    from agent.progress import steps
    from libs.sandbox.errors import SandboxError

    settings = _settings()

    try:
        with steps() as report:
            ensure_engine(report, install=settings.setup_engine)
            image = build_image(
                settings.image, report, install=settings.setup_engine, browser=settings.sandbox_browser
            )
    except SandboxError as error:
        _end(f"{error}\n{error.hint}")
    done = f"built in {image.seconds:.0f} s" if image.built else "current"
    typer.echo(f"Ready: Docker Engine answers, image {image.name} is {done}.")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Look at all that is needed, and say what mends what is missing. Exit status 1 if anything is."""
    from agent.readiness import check_all

    checks = check_all()
    fine = all(check.ok for check in checks)
    if as_json:
        rows = [{"name": c.name, "ok": c.ok, "detail": c.detail, "hint": c.hint} for c in checks]
        _say_json({"ok": fine, "checks": rows})
    else:
        _table(
            ("", "what", "found"),
            [
                ("ok" if c.ok else "MISSING", c.name, "\n".join(filter(None, (c.detail, c.hint))))
                for c in checks
            ],
        )
    raise typer.Exit(0 if fine else 1)


@skills_app.command("list")
def skills_list(as_json: AsJson = False) -> None:
    """List the skills as the agent is told of them."""
    from libs.middleware.skill_files import SkillFolders

    settings = _settings()
    skills = SkillFolders(settings.skill_folders, trusted=settings.skills_trusted).scan()
    if as_json:
        keys = ("name", "description", "path", "problem", "outside")
        _say_json([{key: getattr(skill, key) for key in keys} for skill in skills])
    else:
        _table(
            ("skill", "what it is for", "path"),
            [(s.name, f"UNUSABLE: {s.problem}" if s.problem else s.description, s.path) for s in skills],
        )


@skills_app.command("new")
def skills_new(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")],
    description: Annotated[
        str, typer.Option(help="What it does, and when to use it: all that the agent knows of it at first.")
    ] = "Say what this skill does, and when to use it.",
) -> None:
    """Begin a skill in skills/."""
    from agent.config import ROOT
    from libs.middleware.skill_template import write_skill

    try:
        path = write_skill(ROOT / "skills", name, description)
    except ValueError as error:
        _end(str(error), status=2)
    typer.echo(f"Written: {path}")


@skills_app.command("validate")
def skills_validate(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="A skill, or a folder of skills. Default: all that are set.")
    ] = None,
) -> None:
    """Check skills against every rule of the format. Exit status 1 if one is broken."""
    from libs.middleware.skill_files import validate_skills

    chosen = folders or [path for path in _settings().skill_folders.values() if path.exists()]
    problems = [problem for folder in chosen for problem in validate_skills(folder)]
    for problem in problems:
        _say(str(problem))
    if problems:
        raise typer.Exit(1)
    typer.echo(f"Valid: {', '.join(str(folder) for folder in chosen)}")


@sandbox_app.command("ls")
def sandbox_ls(as_json: AsJson = False) -> None:
    """List the containers of this workspace, and whether the program that owns each is alive or gone."""
    rows = [
        {"name": c.name, "state": c.state, "owner": "alive" if c.alive else "gone"} for c in _containers()
    ]
    if as_json:
        _say_json(rows)
    elif rows:
        _table(("container", "state", "owner"), [tuple(row.values()) for row in rows])
    else:
        typer.echo("No sandbox is running.")


@sandbox_app.command("reset")
def sandbox_reset(
    names: Annotated[list[str] | None, typer.Argument(help="Only these containers.")] = None,
) -> None:
    """Remove the containers of this workspace, those of running programs too; the workspace is kept."""
    from agent.sandboxes import remove
    from libs.sandbox.errors import SandboxError

    found = _containers()
    if unknown := sorted(set(names or ()) - {container.name for container in found}):
        _end(f"No such sandbox: {', '.join(unknown)}. See `code-agent sandbox ls`.", status=2)
    chosen = [container for container in found if not names or container.name in names]
    for container in chosen:
        typer.echo(f"removing {container.name} (its owner is {'alive' if container.alive else 'gone'})")
    try:
        remove([container.name for container in chosen])
    except SandboxError as error:
        _end(f"{error}\n{error.hint}")
    typer.echo(f"Removed: {len(chosen)}.")


def _containers() -> list[Any]:
    from agent.sandboxes import containers
    from libs.sandbox.errors import SandboxError

    try:
        return list(containers(_settings().workspace_dir))
    except SandboxError as error:
        _end(f"{error}\n{error.hint}")


def _settings() -> Settings:
    from agent.config import SettingsError, load_settings

    try:
        return load_settings()
    except SettingsError as error:
        _end(str(error), status=2)


def _end(message: str, *, status: int = 1) -> NoReturn:
    _say(message, err=True)
    raise typer.Exit(status)


def _say(text: str, *, err: bool = False) -> None:
    """Print what comes from settings, files or the machine: it may hold a secret."""
    from agent.sinks import KNOWN

    typer.echo(KNOWN(text), err=err)


def _say_json(value: Any) -> None:
    from agent.sinks import KNOWN

    typer.echo(json.dumps(KNOWN.values(value)))


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """A table at a terminal; tab-separated lines, one a row, in a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from agent.sinks import KNOWN

    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        for row in rows:
            _say("\t".join(cell.replace("\n", " ") for cell in row))
        return
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(KNOWN(cell), "bold red" if cell == "MISSING" else "") for cell in row))
    console.print(table)
