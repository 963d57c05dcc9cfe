"""The text for every agent about paths of the task that do not exist."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["absent_section"]

_SECTION = """\
## Paths of the task
The task names these paths, which did not exist when the task began: {paths}
If the task needs to read such a path, say that it is missing. Do not answer from another file instead."""


def absent_section(paths: Iterable[str]) -> str:
    """Return the section about paths that do not exist; "" for none."""
    shown = ", ".join(f"`{path}`" for path in paths)
    return _SECTION.format(paths=shown) if shown else ""
