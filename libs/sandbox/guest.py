"""The container end of the sandbox, as files: what the image bakes in under `/usr/lib/code-agent`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["GUEST_MODULES", "guest_tree"]

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
    "children",
    "outlet",
    "stdio",
    "supervisor",
    "boot",
)
"""Modules of `libs.sandbox` that run inside, with the standard library alone."""

# A plain file: running the folder itself would import `runpy`, 7 ms. The packages are made rather than looked
# for: a module is then found in one place.
_MAIN = b"""import sys

here = __file__.rpartition("/")[0]
for name in ("libs", "libs.sandbox"):
    package = sys.modules[name] = type(sys)(name)
    package.__path__ = [here + "/" + name.replace(".", "/")]
from libs.sandbox.boot import main

main()
"""


def guest_tree() -> dict[str, bytes]:
    """Files of the container end: path relative to its folder -> content.

    Without any `__init__.py`: namespace packages load faster, and nothing else of `libs` is inside.
    """
    here = Path(__file__).parent
    tree = {"main.py": _MAIN}
    for module in GUEST_MODULES:
        tree[f"libs/sandbox/{module}.py"] = (here / f"{module}.py").read_bytes()
    return tree
