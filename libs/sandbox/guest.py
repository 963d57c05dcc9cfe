"""The container end of the sandbox, as files: what the image bakes in under `/usr/lib/code-agent`."""

from __future__ import annotations

from pathlib import Path

from libs.sandbox.bundle import write_bundle

__all__ = ["GUEST_MODULES", "guest_tree", "write_guest"]

GUEST_MODULES: tuple[str, ...] = (
    "frames",
    "messages",
    "link",
    "spill",
    "output",
    "processes",
    "seccomp",
    "patterns",
    "disk",
    "text",
    "search",
    "files",
    "capture",
    "runner",
    "interpreter",
    "repl",
    "shells",
    "worker",
    "children",
    "worker_pool",
    "outlet",
    "stdio",
    "supervisor",
    "boot",
    "bundle",
)
"""Modules of `libs.sandbox` that run inside, with the standard library alone."""


def guest_tree() -> dict[str, bytes]:
    """Files of the container end: path relative to its folder -> content.

    Without any `__init__.py`, and nothing else of `libs`. What starts is what `bundle.py` makes of it.
    """
    here = Path(__file__).parent
    return {f"libs/sandbox/{module}.py": (here / f"{module}.py").read_bytes() for module in GUEST_MODULES}


def write_guest(folder: Path) -> Path:
    """Write it into a folder, for this very Python; the program that starts it.

    Raises:
        OSError: it cannot be written.
    """
    for relative, content in guest_tree().items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    write_bundle(folder)
    return folder / "main.pyc"
