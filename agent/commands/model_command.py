"""`code-agent model`: fetches, shows and removes the file of the local model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from agent.commands.command_output import end, read_settings

if TYPE_CHECKING:
    from libs.models.weights import Progress

__all__ = ["model_app"]

model_app = typer.Typer(no_args_is_help=True, help="Manage the local model.")


@model_app.command("fetch")
def fetch_model() -> None:
    """Download the local model once. An interrupted download resumes."""
    from agent.models import CHOICES, RUNTIME_COMMAND, unused_keys
    from libs.models.openvino_engine import runtime_installed
    from libs.models.weights import QWEN_CODER, WeightsError, fetch, kept

    settings = read_settings()
    folder = settings.models_dir
    if path := kept(QWEN_CODER, folder):
        typer.echo(f"{QWEN_CODER.name} is there: {path}")
    else:
        typer.echo(
            f"Fetching {QWEN_CODER.name}, licence {QWEN_CODER.licence}: {QWEN_CODER.bytes / 1e9:.2f} GB, "
            f"once, into {folder}.\nTo use another model instead, stop this with Ctrl-C. {CHOICES}"
        )
        if hint := unused_keys(settings):
            typer.echo(hint)
        try:
            with _bar(QWEN_CODER.bytes) as progress:
                path = fetch(QWEN_CODER, folder, progress=progress)
        except WeightsError as error:
            end(f"{error}\n{error.hint}\nOr use another model. {CHOICES}")
        except KeyboardInterrupt:
            typer.echo(
                "Stopped. The downloaded part is kept: the next `code-agent model fetch` resumes.", err=True
            )
            raise typer.Exit(130) from None
        typer.echo(f"Fetched and checked: {path}")
    if not runtime_installed():
        typer.echo(f"The engine of the local model is not installed: `{RUNTIME_COMMAND}` installs it.")


@model_app.command("which")
def chosen_model() -> None:
    """Print the model that the settings choose, as MODEL names it."""
    settings = read_settings()
    if settings.chosen_model == "local" and not settings.model:
        # `make` reads standard output, and then installs the local model.
        typer.echo("No model is configured, so the local model is used.", err=True)
    typer.echo(settings.chosen_model)


@model_app.command("path")
def model_path() -> None:
    """Print where the file of the model is. Exit status 1 if it was not fetched."""
    from libs.models.weights import QWEN_CODER, kept

    folder = read_settings().models_dir
    path = kept(QWEN_CODER, folder)
    if path is None:
        end(f"{QWEN_CODER.name} is not in {folder}: code-agent model fetch")
    typer.echo(path)


@model_app.command("rm")
def remove_model() -> None:
    """Remove the model file and any partial download."""
    from libs.models.weights import QWEN_CODER, WeightsError, remove

    try:
        freed = remove(QWEN_CODER, read_settings().models_dir)
    except WeightsError as error:
        end(f"{error}\n{error.hint}")
    typer.echo(f"Removed: {freed / 1e6:,.0f} MB." if freed else "There was nothing to remove.")


@contextmanager
def _bar(total: int) -> Iterator[Progress]:
    """Show a progress bar at a terminal; in a pipe, a line for each 10 %."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _tenths(total)
        return
    columns = (*Progress.get_default_columns()[:3], DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task("", total=total)
        yield lambda step, done: bar.update(task, description=step, completed=done)


def _tenths(total: int) -> Progress:
    said = ""

    def report(step: str, done: int) -> None:
        nonlocal said
        what = step.partition(" package ")[0]  # without the name of the package
        line = f"{what}: {10 * (10 * done // total)} % of {total / 1e6:,.0f} MB"
        if line != said:
            typer.echo(line, err=True)
            said = line

    return report
