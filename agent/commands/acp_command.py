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

    An editor starts this command; docs/editors.md shows how. The editor asks you before a command, an edit or
    a deletion. Each session is a thread, which `run --thread` and `approvals` can use.
    """
    from agent.acp.serve import serve

    serve(directory)
