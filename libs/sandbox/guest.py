"""The container end of the sandbox, as files: what the image bakes in under `/usr/lib/code-agent`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["GUEST_MODULES", "guest_tree"]

GUEST_MODULES: tuple[str, ...] = (
    "frames",
    "output",
    "processes",
    "patterns",
    "disk",
    "text",
    "search",
    "files",
    "runner",
    "supervisor",
)
"""Modules of `libs.sandbox` that run inside, with the standard library alone."""

_MAIN = b"from libs.sandbox.supervisor import main\n\nmain()\n"


def guest_tree() -> dict[str, bytes]:
    """Files of the container end: path relative to its folder -> content.

    Without any `__init__.py`: namespace packages load faster, and nothing else of `libs` is inside.
    """
    here = Path(__file__).parent
    tree = {"__main__.py": _MAIN}
    for module in GUEST_MODULES:
        tree[f"libs/sandbox/{module}.py"] = (here / f"{module}.py").read_bytes()
    return tree
