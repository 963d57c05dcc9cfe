"""What the model is told after a person has gone back in a thread."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Literal

from libs.sandbox import in_one_line

if TYPE_CHECKING:
    from libs.workspace.history import Moved

__all__ = ["arrival_note", "back_note", "files_note"]

_MOST_NAMED = 10
"""Paths that a note names."""


def back_note(moved: Moved) -> str:
    """Return a note for a conversation that went back with its files."""
    return (
        "The person has taken this conversation and its files back to this point. The files are as they were "
        f"here{_besides(moved)}"
    )


def arrival_note(moved: Moved) -> str:
    """Return a note for files that were brought to the checkpoint from which a run began.

    The model may read the note after the first steps of the run.
    """
    return (
        "When a run of this conversation began, the files were first brought back to what they were at that "
        f"point of the conversation{_besides(moved)}"
    )


def files_note(moved: Moved, *, undo: bool, paused: Literal["question", "run"] | None = None) -> str:
    """Return a note for a conversation that stayed, while its files went back, or returned with `undo`.

    Args:
        paused: the run waited for an answer to a question, or was cut off. The model reads the note after
            the pending steps.
    """
    to = "what they were before they went back" if undo else "an earlier point of this conversation"
    return f"{_WHEN[paused]} brought the files back to {to}{_besides(moved)}"


_WHEN = {
    None: "The person has",
    "question": "While your latest reply waited for the person's answer, the person",
    "run": "While the run was interrupted, the person",
}


def _besides(moved: Moved) -> str:
    kept = [f"{in_one_line(path)} ({why})" for path, why in islice(moved.restored.kept.items(), _MOST_NAMED)]
    more = len(moved.restored.kept) - len(kept)
    except_ = f", except: {'; '.join(kept)}{f', and {more} more' if more else ''}" if kept else ""
    instead = f" Note: {moved.instead}." if moved.instead else ""
    return f"{except_}.{instead} Programs in the background and variables of Python blocks ended then."
