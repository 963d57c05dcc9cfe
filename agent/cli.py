"""The `code-agent` command line. Each command imports its heavy modules itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import version as package_version
from typing import Annotated, Literal, NoReturn

import typer

from agent.commands.acp_command import acp
from agent.commands.approvals_command import approvals_app
from agent.commands.command_output import AsJson, end, read_settings, say_json, table
from agent.commands.files_command import files
from agent.commands.fork_command import fork
from agent.commands.machine.sandbox_command import sandbox_app
from agent.commands.model_command import model_app
from agent.commands.rewind_command import rewind
from agent.commands.skills_command import skills_app
from agent.commands.snapshots_command import snapshots_app
from agent.commands.token_command import token_app

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
app.add_typer(skills_app, name="skills")
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(model_app, name="model")
app.add_typer(approvals_app, name="approvals")
app.add_typer(snapshots_app, name="snapshots")
app.add_typer(token_app, name="token")
app.command()(acp)
app.command()(rewind)
app.command()(fork)
app.command()(files)


_Model = Annotated[
    str | None,
    typer.Option(
        help="provider:model, local, local:FILE.gguf or scripted:FILE. Default: the model of the settings."
    ),
]
_Thread = Annotated[str | None, typer.Option(help="Continue this thread, or create a thread with this name.")]


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
    """Redact secrets in logs and tracebacks of every command."""
    from agent.secrets import KNOWN, guard_sinks

    guard_sinks(KNOWN)


@app.command()
def run(
    task: Annotated[
        str | None,
        typer.Argument(
            help="The task, or - to read it from standard input. Without a task, --thread resumes the "
            "thread's pending step."
        ),
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
        Literal["ask", "auto", "reject"] | None,
        typer.Option(
            help="ask: you approve each command, block, edit and deletion. auto: nobody is asked; with "
            "--thread and no task, approves the pending calls. reject: every question is answered with no. "
            "Default: APPROVALS, else ask."
        ),
    ] = None,
    model: _Model = None,
    thread: _Thread = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object per line. Never ask for approval; the last line is the result.",
        ),
    ] = False,
) -> None:
    """Carry out a task on the workspace, showing each step.

    If approval is needed and no terminal is attached, prints the pending calls, runs none of them, and ends
    with status 3. Threads are kept in .code-agent/.

    Exit status: 0 completed, 1 an error, or the model sent no code that can be run, 2 bad usage
    or settings, 3 approval pending, 4 a budget or the steps are used up, 130 stopped by Ctrl-C.
    """
    from agent.commands.run_command import run_command

    _exit_with(
        lambda: run_command(task, agent=agent, approve=approve, model=model, thread=thread, as_json=as_json)
    )


@app.command()
def chat(
    *,
    agent: Annotated[
        str,
        typer.Option(help="Agent of new threads: deep, code, exec or auto."),
    ] = "auto",
    approve: Annotated[
        Literal["ask", "auto"] | None,
        typer.Option(help="ask: you approve each command, block, edit and deletion. auto: nobody is asked."),
    ] = None,
    model: _Model = None,
    thread: _Thread = None,
) -> None:
    """Hold a conversation with the agent; show replies and output live, and ask for approvals.

    /help lists the commands. Ctrl-C stops the current run; a second Ctrl-C, or Ctrl-D, ends the program. With
    a pipe, each line is a message; a call that needs approval ends the program with status 3.
    """
    from agent.chat.chat_command import chat_command

    _exit_with(lambda: chat_command(agent=agent, approve=approve, model=model, thread=thread))


@app.command()
def setup(
    runtime: Annotated[
        Literal["runsc"] | None, typer.Option(help="Also install gVisor and register it with the Engine.")
    ] = None,
    *,
    node: Annotated[
        bool, typer.Option("--node", help="Then print how to join a cluster: see docs/cluster.md.")
    ] = False,
) -> None:
    """Make this machine ready: a Docker Engine (Debian, as root, unless SETUP_ENGINE=0) and the image."""
    from agent.commands.machine.runtime_setup import ensure_gvisor
    from agent.commands.machine.setup_command import build_image, ensure_engine
    from agent.terminal import steps
    from libs.sandbox import SandboxError

    settings = read_settings()

    try:
        with steps() as report:
            ensure_engine(report, install=settings.setup_engine)
            if runtime:
                ensure_gvisor(report, install=settings.setup_engine)
            image = build_image(
                settings.image, report, install=settings.setup_engine, browser=settings.sandbox_browser
            )
    except SandboxError as error:
        end(f"{error}\n{error.hint}")
    done = f"built in {image.seconds:.0f} s" if image.built else "current"
    typer.echo(f"Ready: Docker Engine answers, image {image.name} is {done}.")
    if runtime and settings.sandbox_runtime != runtime:
        typer.echo(f"The Engine knows {runtime}. To use it, set SANDBOX_RUNTIME={runtime}.")
    if node:
        from agent.commands.machine.cluster_commands import join_help

        typer.echo(f"Join the cluster of the machine HEAD: {join_help('HEAD')}")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check everything that a run needs, and print how to fix each problem.

    Exit status 1 if a check fails.
    """
    from agent.commands.machine.cluster_commands import cluster_checks
    from agent.commands.machine.doctor import check_all

    checks = check_all()
    if checks[0].ok or checks[0].warning:
        checks += cluster_checks(read_settings())
    fine = all(check.ok for check in checks)
    if as_json:
        rows = [{"name": c.name, "ok": c.ok, "detail": c.detail, "hint": c.hint} for c in checks]
        say_json({"ok": fine, "checks": rows})
    else:
        table(
            ("", "what", "found"),
            [
                (
                    "ok" if c.ok else "WARNING" if c.warning else "MISSING",
                    c.name,
                    f"{c.detail}{'' if c.detail.endswith(('.', '?')) else '.'}\n{c.hint}"
                    if c.hint
                    else c.detail,
                )
                for c in checks
            ],
        )
    raise typer.Exit(0 if fine else 1)


def _exit_with(command: Callable[[], int]) -> NoReturn:
    """Run a command and exit with its status; with 1 where the reader of the output has gone."""
    try:
        status = command()
    except BrokenPipeError:
        # Python flushes standard output at exit, which must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    raise typer.Exit(status)
