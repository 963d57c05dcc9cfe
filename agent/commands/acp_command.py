"""`code-agent acp`: the command line of the agent for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["acp"]


def acp(
    directory: Annotated[
        Path | None,
        typer.Option(
            "-C",
            "--directory",
            help="Folder whose .env, workspace and threads (.code-agent/) are used. Default: the current.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
) -> None:
    """Serve an editor, through the Agent Client Protocol on standard input and output.

    An editor starts this itself: docs/editors.md shows how it is told to. It asks you there before a command,
    an edit or a deletion. Its sessions are threads, which `run --thread` and `approvals` know too.
    """
    from agent.acp.serve import serve

    serve(directory)
