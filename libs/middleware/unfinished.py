"""Whether a thread has something to go on with."""

from __future__ import annotations

from langgraph.types import StateSnapshot

__all__ = ["is_unfinished"]


def is_unfinished(state: StateSnapshot) -> bool:
    """Return whether a step or a question of a thread is pending.

    `state.next` does not tell: it leaves out a node that has ended in a step whose checkpoint was not saved,
    because the process was killed between the two.
    """
    return bool(state.tasks)
