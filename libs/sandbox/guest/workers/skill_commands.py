"""Finds the commands of skills: programs in their `runtime/` folders (standard library only).

The host sets SANDBOX_COMMANDS: places, separated by colons. A place is the folder of one skill, or
`<folder>/*` for every skill in a folder. The places are read again for each command, because skills may be
added and removed while the sandbox runs.
"""

from __future__ import annotations

import os

__all__ = ["command_folders", "search_path", "take_places"]

_places: list[str] = []
"""Set by the first process, and inherited by its forks."""


def take_places() -> None:
    """Take the host's variable out of the environment, so that no program inside sees it."""
    _places[:] = os.environ.pop("SANDBOX_COMMANDS", "").split(":")


def command_folders() -> list[str]:
    """Return the `runtime/` folders that exist now."""
    found = []
    for place in _places:
        folder, _, last = place.rpartition("/")
        for name in _skills(folder) if last == "*" else (last,):
            commands = f"{folder}/{name}/runtime"
            # With a slash at the end, only a folder is accepted. `os.path.isdir` takes twice the time.
            if folder and ":" not in name and os.access(f"{commands}/", os.X_OK):
                found.append(commands)
    return found


def search_path() -> bytes:
    """Return PATH with these folders at its end, so that no skill replaces a program of the system."""
    path = os.environ.get("PATH", os.defpath)
    return os.fsencode(":".join((path, *command_folders())))


def _skills(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith((".", "__")))
    except OSError:
        return []
