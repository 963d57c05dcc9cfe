"""The text for every agent about paths of the task that do not exist."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["absent_section"]

_SECTION = """\
## Paths of the task
The task names these paths, and nothing was there when it began: {paths}
If the task reads such a path, say that it is missing, and do not answer from another file in its place."""


def absent_section(paths: Iterable[str]) -> str:
    """Return the section about paths that do not exist; "" for none."""
    shown = ", ".join(f"`{path}`" for path in paths)
    return _SECTION.format(paths=shown) if shown else ""
