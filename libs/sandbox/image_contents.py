"""Collects the modules that run in the container. The image has them in `/usr/lib/code-agent`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["guest_tree", "write_guest"]

_FOLDERS = ("guest", "wire")
"""Folders that run inside, with the standard library only."""


def guest_tree() -> dict[str, bytes]:
    """Return the modules that run inside: relative path -> content. Without `__init__.py` files."""
    here = Path(__file__).parent
    modules = (path for folder in _FOLDERS for path in sorted((here / folder).rglob("*.py")))
    return {
        f"libs/sandbox/{path.relative_to(here)}": path.read_bytes()
        for path in modules
        if path.name != "__init__.py"
    }


def write_guest(folder: Path) -> Path:
    """Write the modules that run inside to a folder. Return the program to start.

    Raises:
        OSError: a file cannot be written.
    """
    for relative, content in guest_tree().items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / "libs/sandbox/guest/start.py"
