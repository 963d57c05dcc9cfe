"""`code-agent sandbox`: lists and removes sandboxes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from agent.commands.command_output import AsJson, end, read_settings, say, say_json, table
from agent.commands.machine.containers_command import Container, containers, remove
from libs.sandbox import DockerUnavailable, SandboxError

__all__ = ["sandbox_app"]

sandbox_app = typer.Typer(no_args_is_help=True, help="List or remove the containers of this workspace.")


@sandbox_app.command("ls")
def sandbox_ls(as_json: AsJson = False) -> None:
    """List the containers of this workspace, and whether the program that owns each is alive or gone.

    With SANDBOX_CLUSTER, also list the nodes, and the sandboxes of all servers on them. Then this machine
    needs no Docker Engine.
    """
    from agent.commands.machine.cluster_commands import cluster_sandboxes

    settings = read_settings()
    try:
        here = list(containers(settings.workspace_dir))
    except DockerUnavailable as error:
        if not settings.sandbox_cluster:
            end(f"{error}\n{error.hint}")
        say(f"Sandboxes of this machine cannot be listed: {error}", err=True)
        here = []
    rows: list[dict[str, Any]] = [
        {"name": each.name, "state": each.state, "owner": "alive" if each.alive else "gone"} for each in here
    ]
    try:
        on_nodes = cluster_sandboxes(settings)
    except SandboxError as error:
        end(f"{error}\n{error.hint}")
    if as_json:
        say_json([*rows, *map(asdict, on_nodes)])
        return
    if rows:
        table(("container", "state", "owner"), [tuple(row.values()) for row in rows])
    if on_nodes:
        table(
            ("node", "container", "state", "memory", "thread"),
            [
                (
                    each.node,
                    each.name,
                    each.state,
                    f"{each.memory / 2**20:.0f} MB" if each.name else "",
                    each.thread,
                )
                for each in on_nodes
            ],
        )
    elif not rows:
        typer.echo("No sandbox is running.")


@sandbox_app.command("reset")
def sandbox_reset(
    names: Annotated[list[str] | None, typer.Argument(help="Only these containers.")] = None,
) -> None:
    """Remove the containers of this workspace, including those of running programs. The workspace is kept."""
    found = _containers()
    if unknown := sorted(set(names or ()) - {container.name for container in found}):
        end(f"No such sandbox: {', '.join(unknown)}. See `code-agent sandbox ls`.", status=2)
    chosen = [container for container in found if not names or container.name in names]
    for container in chosen:
        typer.echo(f"removing {container.name} (its owner is {'alive' if container.alive else 'gone'})")
    try:
        remove([container.name for container in chosen])
    except SandboxError as error:
        end(f"{error}\n{error.hint}")
    typer.echo(f"Removed: {len(chosen)}.")


def _containers() -> list[Container]:
    try:
        return list(containers(read_settings().workspace_dir))
    except SandboxError as error:
        end(f"{error}\n{error.hint}")
