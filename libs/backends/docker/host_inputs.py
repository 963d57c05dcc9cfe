"""Checks and selects the folders and the variables of the host that a container gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from libs.sandbox import refuse_as_workspace

__all__ = ["allowed_variables", "mounted_packages", "mounted_skills", "usable_workspace"]


def usable_workspace(root_dir: Path | str) -> Path:
    """Return the path of a workspace without links. Raises ValueError if it cannot be a workspace."""
    root = Path(root_dir)
    try:
        refuse_as_workspace(root)
        # The Engine would say that the folder does not exist.
        str(root.resolve()).encode()
    except UnicodeEncodeError:
        raise ValueError(f"the path of the workspace is not UTF-8, choose another: {root!a}") from None
    except ValueError as error:
        raise ValueError(f"the workspace {root.absolute()} {error}") from None
    return root.resolve()


def mounted_skills(own: Path | str | None, extra: Sequence[Path | str]) -> dict[str, Path]:
    """Return path in the container -> folder of skills on the host, without links.

    Raises:
        ValueError: two extra folders have the same name, or a folder does not exist.
    """
    folders = {"/skills": Path(own)} if own else {}
    for folder in map(Path, extra):
        name = folder.name if folder.name.strip(".") else folder.resolve().name  # such as "." and ".."
        if folders.setdefault(f"/skills.d/{name}", folder) != folder:
            raise ValueError(f"two skill folders are called {name!r}: rename one of them")
    for folder in folders.values():
        if not folder.is_dir():
            raise ValueError(f"the skill folder {folder} is not there: make it, or leave it out")
    return {path: folder.resolve() for path, folder in folders.items()}


def mounted_packages(servers: Path | None) -> dict[str, Path]:
    """Return path in the container -> folder of the packages of MCP servers. Makes the folder.

    Raises:
        OSError: the folder cannot be made.
    """
    if servers is None:
        return {}
    servers.mkdir(parents=True, exist_ok=True)
    return {"/servers": servers.resolve()}


def allowed_variables(environment: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """Return the variables whose names match one of the patterns, such as `MY_*`."""
    return {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
