"""Whether a server watches the workspace: one that does starts anew with every program the agent writes."""

from __future__ import annotations

from pathlib import Path

import psutil

from agent.doctor import Check

__all__ = ["reload_check"]

_OFF = "--no-reload"


def reload_check(workspace: Path) -> Check:
    """Look for a `langgraph dev` that reloads, started in a folder that the workspace is in."""
    workspace = workspace.resolve()
    watching = [
        f"process {process.info['pid']} in {process.info['cwd']}"
        for process in psutil.process_iter(["pid", "cmdline", "cwd"])
        if _reloads(process.info["cmdline"] or [])
        and process.info["cwd"]
        and workspace.is_relative_to(process.info["cwd"])
    ]
    if not watching:
        return Check("reload", True, "no server watches the workspace; `make dev` starts one that does not")
    return Check(
        "reload",
        False,
        f"`langgraph dev` watches the workspace ({', '.join(watching)}): it starts anew with every .py file "
        "that the agent writes, and ends all runs",
        f"End it and start it with `make dev`, or with {_OFF}.",
    )


def _reloads(command: list[str]) -> bool:
    """Whether a command line is that of a server that reloads."""
    names = [Path(part).name for part in command[:3]]
    return "langgraph" in names and "dev" in command and _OFF not in command
