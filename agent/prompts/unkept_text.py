"""What the model is told about files that could not be kept outside of a sandbox."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from libs.sandbox import in_one_line

if TYPE_CHECKING:
    from libs.workspace.history import Unkept

__all__ = ["unkept_note"]

_MOST_NAMED = 10
"""Paths that a note names."""


def unkept_note(unkept: Unkept) -> str:
    """Return a note that stands behind the output of a step."""
    said: list[str] = []
    if unkept.lost:
        said.append(
            f"The files that this step made or changed are lost: {unkept.lost}. The next command finds the "
            "workspace as it was after the latest step whose files were kept. Look at what is there, and "
            "repeat what is missing."
        )
    elif unkept.failed:
        said.append(
            f"The files that this step made or changed could not be kept outside of the sandbox: "
            f"{unkept.failed.rstrip('.')}. They are in the sandbox, and will be kept after a later step if "
            "that succeeds. If a later command runs in a new sandbox before that, the workspace is as it was "
            "after the latest step whose files were kept."
        )
    if unkept.skipped:
        named = [f"{in_one_line(path)} ({why})" for path, why in islice(unkept.skipped.items(), _MOST_NAMED)]
        more = len(unkept.skipped) - len(named)
        said.append(
            "These paths are not kept outside of the sandbox, and are lost when it ends: "
            f"{'; '.join(named)}{f'; and {more} more' if more else ''}."
        )
    return f"[{' '.join(said)}]"
